// __pipeline_memcpy_async and its waits, written from the CUDA C++ Programming Guide.
#pragma once
#include "cuda/pipeline"
#include "cuda_awbarrier_primitives.h"

// The last `zeros` of the bytes become 0 and are not read.
TW_FN void __pipeline_memcpy_async(void *to, const void *from, size_t bytes, size_t zeros = 0) {
    const unsigned read = (unsigned)(bytes - zeros);
    if (bytes == 16) tw_begin_16(to, from, read);
    else if (bytes == 8) tw_begin_8(to, from, read);
    else tw_begin_4(to, from, read);
}
TW_FN void __pipeline_commit() { tw_commit_copies(); }
TW_FN void __pipeline_wait_prior(size_t left) { cuda::tw_wait_left((unsigned)left); }
TW_FN void __pipeline_arrive_on(__mbarrier_t *b) { tw_mbarrier_copies(b); }
