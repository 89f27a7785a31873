// cooperative_groups::memcpy_async and its waits, written from the CUDA C++ Programming Guide.
#pragma once
#include "../cooperative_groups.h"
#include "../tilewise_copies.h"

namespace cooperative_groups {

template <class Group, class T, class U, class Size>
TW_FN void memcpy_async(const Group &g, T *to, const U *from, const Size &bytes) {
    tw_copy((void *)to, from, (size_t)bytes, (unsigned)g.thread_rank(), (unsigned)g.size());
    tw_commit_copies();
}
// Elements, as many as both sides have.
template <class Group, class T, class ToSize, class FromSize>
TW_FN void memcpy_async(const Group &g, T *to, const ToSize &room, const T *from, const FromSize &count) {
    size_t n = (size_t)room < (size_t)count ? (size_t)room : (size_t)count;
    tw_copy((void *)to, from, n * sizeof(T), (unsigned)g.thread_rank(), (unsigned)g.size());
    tw_commit_copies();
}
template <class Group> TW_FN void wait(const Group &g) { tw_wait_copies(); g.sync(); }
template <unsigned left, class Group> TW_FN void wait_prior(const Group &g) { tw_wait_groups<left>(); g.sync(); }
}
