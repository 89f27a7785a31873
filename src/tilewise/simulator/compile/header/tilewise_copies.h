// Copies that a thread begins and waits for later, as cp.async makes them where it can: from global to shared
// memory, in pieces of 16, 8 or 4 bytes. Anything else is copied at once.
#pragma once

TW_FN bool tw_is_shared(const void *p) {
    unsigned r;
    asm("{ .reg .pred p; isspacep.shared p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(r) : "l"(p));
    return r != 0;
}
TW_FN bool tw_is_global(const void *p) {
    unsigned r;
    asm("{ .reg .pred p; isspacep.global p, %1; selp.u32 %0, 1, 0, p; }" : "=r"(r) : "l"(p));
    return r != 0;
}
#define TW_PIECE(size, how) TW_FN void tw_begin_##size(void *to, const void *from, unsigned bytes) { \
    asm volatile("cp.async." how ".shared.global [%0], [%1], " #size ", %2;" \
        :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes) : "memory"); }
TW_PIECE(4, "ca") TW_PIECE(8, "ca") TW_PIECE(16, "cg")
#undef TW_PIECE
TW_FN void tw_commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
TW_FN void tw_wait_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }
template <int left> TW_FN void tw_wait_groups() {
    asm volatile("cp.async.wait_group %0;" :: "n"(left) : "memory"); }

// The part of thread rank of size in a copy of bytes.
TW_FN void tw_copy(void *to, const void *from, size_t bytes, unsigned rank, unsigned size) {
    char *t = (char *)to;
    const char *f = (const char *)from;
    const size_t fit = (size_t)t | (size_t)f | bytes;
    const bool later = tw_is_shared(to) && tw_is_global(from);
    if (later && fit % 16 == 0)
        for (size_t at = rank * 16u; at < bytes; at += size * 16u) tw_begin_16(t + at, f + at, 16);
    else if (later && fit % 8 == 0)
        for (size_t at = rank * 8u; at < bytes; at += size * 8u) tw_begin_8(t + at, f + at, 8);
    else if (later && fit % 4 == 0)
        for (size_t at = rank * 4u; at < bytes; at += size * 4u) tw_begin_4(t + at, f + at, 4);
    else if (fit % 4 == 0)
        for (size_t at = rank * 4u; at < bytes; at += size * 4u) *(int *)(t + at) = *(const int *)(f + at);
    else
        for (size_t at = rank; at < bytes; at += size) t[at] = f[at];
}

// A size that is a multiple of what both addresses are aligned to.
namespace cuda {
template <size_t align> struct aligned_size_t {
    static constexpr size_t alignment = align;
    size_t value;
    explicit TW_IN aligned_size_t(size_t n) : value(n) {}
    TW_IN operator size_t() const { return value; }
};
}
