// cooperative_groups::reduce over tiles and coalesced groups, written from the CUDA C++ Programming Guide.
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {

// Where the warp has one instruction for it.
template <class T, class Op> struct tw_redux { static constexpr bool has = false;
    static TW_IN T of(unsigned, T v) { return v; } };
#define TW_ONE(type, op, name) template <> struct tw_redux<type, op<type>> { static constexpr bool has = true; \
    static TW_IN type of(unsigned mask, type v) { return (type)name(mask, v); } };
TW_ONE(int, plus, __reduce_add_sync) TW_ONE(unsigned, plus, __reduce_add_sync)
TW_ONE(int, less, __reduce_min_sync) TW_ONE(unsigned, less, __reduce_min_sync)
TW_ONE(int, greater, __reduce_max_sync) TW_ONE(unsigned, greater, __reduce_max_sync)
TW_ONE(unsigned, bit_and, __reduce_and_sync) TW_ONE(unsigned, bit_or, __reduce_or_sync)
TW_ONE(unsigned, bit_xor, __reduce_xor_sync)
#undef TW_ONE

template <unsigned n, class Parent, class T, class Op>
TW_FN T reduce(const thread_block_tile<n, Parent> &g, T v, Op op) {
    if (tw_redux<T, std::remove_cvref_t<Op>>::has)
        return tw_redux<T, std::remove_cvref_t<Op>>::of(g.tw_mask, v);
    _Pragma("unroll") for (unsigned by = n / 2; by > 0; by /= 2) v = op(v, g.shfl_xor(v, by));
    return v;
}
template <class T, class Op> TW_FN T reduce(const coalesced_group &g, T v, Op op) {
    if (tw_redux<T, std::remove_cvref_t<Op>>::has)
        return tw_redux<T, std::remove_cvref_t<Op>>::of(g.tw_mask, v);
    const unsigned rank = g.thread_rank(), size = g.size();
    _Pragma("unroll") for (unsigned by = 16; by > 0; by /= 2) {
        T other = g.shfl_down(v, by);
        if (rank < by && rank + by < size) v = op(v, other);
    }
    return g.shfl(v, 0);
}
}
