// __mbarrier_init and its kin, written from the CUDA C++ Programming Guide.
#pragma once
#include "tilewise_mbarrier.h"

typedef tw_mbarrier_t __mbarrier_t;
typedef tw_mbarrier_t __mbarrier_token_t;
TW_FN unsigned __mbarrier_maximum_count() { return (1u << 20) - 1; }
TW_FN void __mbarrier_init(__mbarrier_t *b, unsigned count) { tw_mbarrier_init(b, count); }
TW_FN void __mbarrier_inval(__mbarrier_t *b) { tw_mbarrier_inval(b); }
TW_FN __mbarrier_token_t __mbarrier_arrive(__mbarrier_t *b) { return tw_mbarrier_arrive(b, 1); }
TW_FN __mbarrier_token_t __mbarrier_arrive_and_drop(__mbarrier_t *b) { return tw_mbarrier_drop(b); }
TW_FN bool __mbarrier_test_wait(__mbarrier_t *b, __mbarrier_token_t token) { return tw_mbarrier_test(b, token); }
TW_FN bool __mbarrier_try_wait(__mbarrier_t *b, __mbarrier_token_t token, unsigned) {
    return tw_mbarrier_try(b, token); }
