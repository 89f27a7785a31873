// An mbarrier in shared memory, as PTX has it; for cuda/barrier, cuda/pipeline and the primitives.
#pragma once

typedef unsigned long long tw_mbarrier_t;
TW_FN unsigned tw_shared(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }
TW_FN void tw_mbarrier_init(tw_mbarrier_t *b, unsigned count) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(tw_shared(b)), "r"(count) : "memory"); }
TW_FN void tw_mbarrier_inval(tw_mbarrier_t *b) {
    asm volatile("mbarrier.inval.shared.b64 [%0];" :: "r"(tw_shared(b)) : "memory"); }
TW_FN tw_mbarrier_t tw_mbarrier_arrive(tw_mbarrier_t *b, unsigned count) { tw_mbarrier_t r;
    asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], %2;" : "=l"(r) : "r"(tw_shared(b)), "r"(count)
        : "memory");
    return r; }
TW_FN tw_mbarrier_t tw_mbarrier_arrive_tx(tw_mbarrier_t *b, unsigned bytes) { tw_mbarrier_t r;
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 %0, [%1], %2;" : "=l"(r)
        : "r"(tw_shared(b)), "r"(bytes) : "memory");
    return r; }
TW_FN void tw_mbarrier_expect_tx(tw_mbarrier_t *b, unsigned bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" :: "r"(tw_shared(b)), "r"(bytes)
        : "memory"); }
TW_FN tw_mbarrier_t tw_mbarrier_drop(tw_mbarrier_t *b) { tw_mbarrier_t r;
    asm volatile("mbarrier.arrive_drop.shared.b64 %0, [%1];" : "=l"(r) : "r"(tw_shared(b)) : "memory");
    return r; }
TW_FN bool tw_mbarrier_test(tw_mbarrier_t *b, tw_mbarrier_t state) { unsigned r;
    asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(r) : "r"(tw_shared(b)), "l"(state) : "memory");
    return r != 0; }
TW_FN bool tw_mbarrier_try(tw_mbarrier_t *b, tw_mbarrier_t state) { unsigned r;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(r) : "r"(tw_shared(b)), "l"(state) : "memory");
    return r != 0; }
TW_FN bool tw_mbarrier_try_parity(tw_mbarrier_t *b, unsigned parity) { unsigned r;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
        : "=r"(r) : "r"(tw_shared(b)), "r"(parity) : "memory");
    return r != 0; }
// Arrive when the copies that this thread has begun are there; the first form is one more arrival to wait for.
TW_FN void tw_mbarrier_copies(tw_mbarrier_t *b) {
    asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" :: "r"(tw_shared(b)) : "memory"); }
TW_FN void tw_mbarrier_copies_alone(tw_mbarrier_t *b) {
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(tw_shared(b)) : "memory"); }
