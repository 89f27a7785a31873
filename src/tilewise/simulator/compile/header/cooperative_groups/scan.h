// cooperative_groups::inclusive_scan and exclusive_scan over tiles and coalesced groups, written from the CUDA
// C++ Programming Guide.
#pragma once
#include "../cooperative_groups.h"

namespace cooperative_groups {

template <class Group, class T, class Op> TW_FN T inclusive_scan(const Group &g, T v, Op op) {
    const unsigned rank = (unsigned)g.thread_rank();
    _Pragma("unroll") for (unsigned by = 1; by < 32; by *= 2) {
        T other = g.shfl_up(v, by);
        if (rank >= by) v = op(other, v);
    }
    return v;
}
template <class Group, class T> TW_FN T inclusive_scan(const Group &g, T v) {
    return inclusive_scan(g, v, plus<T>());
}
// The first thread's result is T(), as its own value tells nothing.
template <class Group, class T, class Op> TW_FN T exclusive_scan(const Group &g, T v, Op op) {
    T all = inclusive_scan(g, v, op), r = g.shfl_up(all, 1);
    return g.thread_rank() == 0 ? T() : r;
}
template <class Group, class T> TW_FN T exclusive_scan(const Group &g, T v) {
    return exclusive_scan(g, v, plus<T>());
}
}
