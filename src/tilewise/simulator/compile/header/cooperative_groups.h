// Cooperative groups: the names of CUDA's cooperative_groups.h, written from the CUDA C++ Programming Guide.
// Tiles hold up to 32 threads.
#pragma once

namespace cooperative_groups {

TW_FN unsigned tw_lane() { return __nvvm_read_ptx_sreg_laneid(); }
TW_FN unsigned tw_lanes_below() { return (1u << tw_lane()) - 1u; }
TW_FN unsigned tw_block_size() { return blockDim.x * blockDim.y * blockDim.z; }
TW_FN unsigned tw_block_rank() { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
TW_FN unsigned tw_warp_mask(unsigned count) { return count >= 32 ? 0xffffffffu : (1u << count) - 1u; }
// The lane of the group's member of a rank.
TW_FN unsigned tw_lane_of(unsigned mask, unsigned rank) {
    if (mask == 0xffffffffu) return rank;
    for (unsigned i = 0; i < rank; ++i) mask &= mask - 1;
    return mask ? (unsigned)__builtin_ctz(mask) : 32u;
}
// The bits of v that a mask names, side by side.
TW_FN unsigned tw_packed(unsigned v, unsigned mask) {
    if (mask == 0xffffffffu) return v;
    unsigned r = 0;
    for (unsigned to = 0; mask; mask &= mask - 1, ++to) r |= (v >> __builtin_ctz(mask) & 1u) << to;
    return r;
}
// A value of any type that is copied by its bits, word by word.
#define TW_WORDS(body) \
    static_assert(sizeof(T) <= 32, "a shuffle of a group takes types of up to 32 bytes"); \
    unsigned words[(sizeof(T) + 3) / 4] = {}; \
    __builtin_memcpy(words, &v, sizeof(T)); \
    _Pragma("unroll") for (unsigned k = 0; k < (sizeof(T) + 3) / 4; ++k) words[k] = body; \
    T r = v; \
    __builtin_memcpy((void *)&r, words, sizeof(T)); \
    return r;
template <class T> TW_FN T tw_from(unsigned mask, T v, int lane, int width) {
    TW_WORDS(tw_idx(mask, words[k], lane, width)) }
template <class T> TW_FN T tw_from_below(unsigned mask, T v, int by, int width) {
    TW_WORDS(tw_up(mask, words[k], by, width)) }
template <class T> TW_FN T tw_from_above(unsigned mask, T v, int by, int width) {
    TW_WORDS(tw_down(mask, words[k], by, width)) }
template <class T> TW_FN T tw_from_other(unsigned mask, T v, int by, int width) {
    TW_WORDS(tw_bfly(mask, words[k], by, width)) }
#undef TW_WORDS

enum class tw_kind { block, lanes, grid, cluster };

// Any group: a block, a part of a warp, the grid.
struct thread_group {
    tw_kind tw_what;
    unsigned tw_mask;
    TW_IN unsigned long long size() const {
        return tw_what == tw_kind::lanes ? (unsigned)__popc(tw_mask)
             : tw_what == tw_kind::block ? tw_block_size()
             : (unsigned long long)tw_block_size() * gridDim.x * gridDim.y * gridDim.z; }
    TW_IN unsigned long long num_threads() const { return size(); }
    TW_IN unsigned long long thread_rank() const {
        return tw_what == tw_kind::lanes ? (unsigned)__popc(tw_mask & tw_lanes_below())
             : tw_what == tw_kind::block ? tw_block_rank()
             : (unsigned long long)((blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x)
                 * tw_block_size() + tw_block_rank(); }
    TW_IN void sync() const;
    TW_IN bool is_valid() const { return true; }
};

struct thread_block : thread_group {
    typedef unsigned arrival_token;
    TW_IN thread_block() : thread_group{tw_kind::block, 0} {}
    static TW_IN void sync() { __syncthreads(); }
    static TW_IN unsigned thread_rank() { return tw_block_rank(); }
    static TW_IN unsigned size() { return tw_block_size(); }
    static TW_IN unsigned num_threads() { return tw_block_size(); }
    static TW_IN dim3 group_index() { return blockIdx; }
    static TW_IN dim3 thread_index() { return threadIdx; }
    static TW_IN dim3 group_dim() { return blockDim; }
    static TW_IN dim3 dim_threads() { return blockDim; }
    // All the waiting is done in barrier_wait, which every thread has to call anyway.
    static TW_IN arrival_token barrier_arrive() { return 0; }
    static TW_IN void barrier_wait(arrival_token &&) { __syncthreads(); }
};
TW_FN thread_block this_thread_block() { return thread_block(); }

// The simulator then runs all blocks of the grid at once.
TW_FN void tw_grid_sync() { asm volatile("tw.grid.sync;" ::: "memory"); }
struct grid_group : thread_group {
    typedef unsigned arrival_token;
    TW_IN grid_group() : thread_group{tw_kind::grid, 0} {}
    static TW_IN bool is_valid() { return true; }
    static TW_IN void sync() { tw_grid_sync(); }
    static TW_IN arrival_token barrier_arrive() { return 0; }
    static TW_IN void barrier_wait(arrival_token &&) { tw_grid_sync(); }
    static TW_IN unsigned long long block_rank() {
        return (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x; }
    static TW_IN unsigned long long num_blocks() {
        return (unsigned long long)gridDim.x * gridDim.y * gridDim.z; }
    static TW_IN unsigned long long thread_rank() { return block_rank() * tw_block_size() + tw_block_rank(); }
    static TW_IN unsigned long long size() { return num_blocks() * tw_block_size(); }
    static TW_IN unsigned long long num_threads() { return size(); }
    static TW_IN dim3 group_dim() { return gridDim; }
    static TW_IN dim3 dim_blocks() { return gridDim; }
    static TW_IN dim3 block_index() { return blockIdx; }
};
TW_FN grid_group this_grid() { return grid_group(); }

struct cluster_group : thread_group {
    typedef unsigned arrival_token;
    TW_IN cluster_group() : thread_group{tw_kind::cluster, 0} {}
    static TW_IN arrival_token barrier_arrive() {
        asm volatile("barrier.cluster.arrive.aligned;" ::: "memory"); return 0; }
    static TW_IN void barrier_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }
    static TW_IN void barrier_wait(arrival_token &&) { barrier_wait(); }
    static TW_IN void sync() { barrier_arrive(); barrier_wait(); }
    static TW_IN unsigned block_rank() { unsigned r; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r)); return r; }
    static TW_IN unsigned num_blocks() { unsigned r; asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(r)); return r; }
    static TW_IN dim3 block_index() { dim3 r; asm("mov.u32 %0, %%cluster_ctaid.x;" : "=r"(r.x));
        asm("mov.u32 %0, %%cluster_ctaid.y;" : "=r"(r.y)); asm("mov.u32 %0, %%cluster_ctaid.z;" : "=r"(r.z));
        return r; }
    static TW_IN dim3 dim_blocks() { dim3 r; asm("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(r.x));
        asm("mov.u32 %0, %%cluster_nctaid.y;" : "=r"(r.y)); asm("mov.u32 %0, %%cluster_nctaid.z;" : "=r"(r.z));
        return r; }
    static TW_IN dim3 thread_index() {
        dim3 at = block_index();
        return dim3(at.x * blockDim.x + threadIdx.x, at.y * blockDim.y + threadIdx.y,
            at.z * blockDim.z + threadIdx.z); }
    static TW_IN dim3 dim_threads() {
        dim3 n = dim_blocks(); return dim3(n.x * blockDim.x, n.y * blockDim.y, n.z * blockDim.z); }
    static TW_IN unsigned thread_rank() { return block_rank() * tw_block_size() + tw_block_rank(); }
    static TW_IN unsigned num_threads() { return num_blocks() * tw_block_size(); }
    static TW_IN unsigned size() { return num_threads(); }
    template <class T> static TW_IN T *map_shared_rank(T *p, int rank) {
        unsigned long long r;
        asm("mapa.u64 %0, %1, %2;" : "=l"(r) : "l"((unsigned long long)p), "r"(rank));
        return (T *)r; }
    static TW_IN unsigned query_shared_rank(const void *p) {
        unsigned r; asm("getctarank.u64 %0, %1;" : "=r"(r) : "l"(p)); return r; }
};
TW_FN cluster_group this_cluster() { return cluster_group(); }

TW_IN void thread_group::sync() const {
    if (tw_what == tw_kind::lanes) __syncwarp(tw_mask);
    else if (tw_what == tw_kind::block) __syncthreads();
    else if (tw_what == tw_kind::cluster) cluster_group::sync();
    else tw_grid_sync();
}

// Threads of a warp that happen to be together; their ranks follow their lanes.
struct coalesced_group : thread_group {
    unsigned tw_group, tw_groups;
    TW_IN coalesced_group(unsigned mask, unsigned group = 0, unsigned groups = 1)
        : thread_group{tw_kind::lanes, mask}, tw_group(group), tw_groups(groups) {}
    TW_IN unsigned size() const { return (unsigned)__popc(tw_mask); }
    TW_IN unsigned num_threads() const { return size(); }
    TW_IN unsigned thread_rank() const { return (unsigned)__popc(tw_mask & tw_lanes_below()); }
    TW_IN unsigned meta_group_rank() const { return tw_group; }
    TW_IN unsigned meta_group_size() const { return tw_groups; }
    TW_IN void sync() const { __syncwarp(tw_mask); }
    template <class T> TW_IN T shfl(T v, int rank) const {
        unsigned from = tw_mask == 0xffffffffu ? (unsigned)rank & 31u
                                               : tw_lane_of(tw_mask, (unsigned)rank % size());
        return tw_from(tw_mask, v, (int)from, 32); }
    template <class T> TW_IN T shfl_up(T v, unsigned by) const {
        if (tw_mask == 0xffffffffu) return tw_from_below(tw_mask, v, (int)by, 32);
        unsigned rank = thread_rank();
        return tw_from(tw_mask, v, (int)tw_lane_of(tw_mask, rank < by ? rank : rank - by), 32); }
    template <class T> TW_IN T shfl_down(T v, unsigned by) const {
        if (tw_mask == 0xffffffffu) return tw_from_above(tw_mask, v, (int)by, 32);
        unsigned rank = thread_rank();
        return tw_from(tw_mask, v, (int)tw_lane_of(tw_mask, rank + by < size() ? rank + by : rank), 32); }
    TW_IN int any(int p) const { return __any_sync(tw_mask, p); }
    TW_IN int all(int p) const { return __all_sync(tw_mask, p); }
    TW_IN unsigned ballot(int p) const { return tw_packed(__ballot_sync(tw_mask, p), tw_mask); }
    template <class T> TW_IN unsigned match_any(T v) const {
        return tw_packed(__match_any_sync(tw_mask, v), tw_mask); }
    template <class T> TW_IN unsigned match_all(T v, int &same) const {
        return tw_packed(__match_all_sync(tw_mask, v, &same), tw_mask); }
};
TW_FN coalesced_group coalesced_threads() { return coalesced_group(__activemask()); }

// n threads of a warp, side by side; n is a power of two up to 32.
template <unsigned n, class Parent = void> struct thread_block_tile;
template <unsigned n> struct thread_block_tile<n, void> : thread_group {
    static_assert(n >= 1 && n <= 32 && (n & (n - 1)) == 0,
        "the simulator has tiles of 1, 2, 4, 8, 16 and 32 threads; a larger one is the whole block, or a "
        "sum over its warps");
    unsigned tw_group, tw_groups;
    static TW_IN unsigned tw_first() { return tw_lane() & ~(n - 1u); }
    TW_IN thread_block_tile(unsigned group, unsigned groups)
        : thread_group{tw_kind::lanes, tw_warp_mask(n) << (n == 32 ? 0u : tw_first())}, tw_group(group),
          tw_groups(groups) {}
    static TW_IN unsigned thread_rank() { return tw_lane() & (n - 1u); }
    static constexpr TW_IN unsigned size() { return n; }
    static constexpr TW_IN unsigned num_threads() { return n; }
    TW_IN unsigned meta_group_rank() const { return tw_group; }
    TW_IN unsigned meta_group_size() const { return tw_groups; }
    TW_IN void sync() const { __syncwarp(tw_mask); }
    template <class T> TW_IN T shfl(T v, int rank) const { return tw_from(tw_mask, v, rank, n); }
    template <class T> TW_IN T shfl_up(T v, unsigned by) const { return tw_from_below(tw_mask, v, (int)by, n); }
    template <class T> TW_IN T shfl_down(T v, unsigned by) const { return tw_from_above(tw_mask, v, (int)by, n); }
    template <class T> TW_IN T shfl_xor(T v, unsigned by) const { return tw_from_other(tw_mask, v, (int)by, n); }
    TW_IN int any(int p) const { return __any_sync(tw_mask, p); }
    TW_IN int all(int p) const { return __all_sync(tw_mask, p); }
    TW_IN unsigned ballot(int p) const { return tw_own(__ballot_sync(tw_mask, p)); }
    template <class T> TW_IN unsigned match_any(T v) const { return tw_own(__match_any_sync(tw_mask, v)); }
    template <class T> TW_IN unsigned match_all(T v, int &same) const {
        return tw_own(__match_all_sync(tw_mask, v, &same)); }
    TW_IN unsigned tw_own(unsigned lanes) const { return n == 32 ? lanes : (lanes & tw_mask) >> tw_first(); }
};
template <unsigned n, class Parent> struct thread_block_tile : thread_block_tile<n, void> {
    using thread_block_tile<n, void>::thread_block_tile;
};

TW_FN unsigned tw_rank_in(const thread_block &) { return tw_block_rank(); }
TW_FN unsigned tw_size_of(const thread_block &) { return tw_block_size(); }
TW_FN unsigned tw_rank_in(const thread_group &g) { return (unsigned)g.thread_rank(); }
TW_FN unsigned tw_size_of(const thread_group &g) { return (unsigned)g.size(); }
template <unsigned m, class P> TW_FN unsigned tw_rank_in(const thread_block_tile<m, P> &g) {
    return g.thread_rank(); }
template <unsigned m, class P> TW_FN unsigned tw_size_of(const thread_block_tile<m, P> &) { return m; }
template <unsigned n, class Parent> TW_FN thread_block_tile<n, Parent> tiled_partition(const Parent &g) {
    return thread_block_tile<n, Parent>(tw_rank_in(g) / n, (tw_size_of(g) + n - 1) / n);
}
// Tiles of n threads, n known only as the kernel runs.
TW_FN thread_group tiled_partition(const thread_group &g, unsigned n) {
    if (g.tw_what != tw_kind::lanes)
        return thread_group{tw_kind::lanes, tw_warp_mask(n) << (tw_lane() & ~(n - 1u) & 31u)};
    return thread_group{tw_kind::lanes, __match_any_sync(g.tw_mask, (unsigned)g.thread_rank() / n)};
}
TW_FN coalesced_group tiled_partition(const coalesced_group &g, unsigned n) {
    unsigned part = g.thread_rank() / n;
    return coalesced_group(__match_any_sync(g.tw_mask, part), part, (g.size() + n - 1) / n);
}
TW_FN thread_block_tile<1> this_thread() { return thread_block_tile<1>(0, 1); }
// The members of a group that have the same label.
template <class Group, class T> TW_FN coalesced_group labeled_partition(const Group &g, T label) {
    return coalesced_group(__match_any_sync(g.tw_mask, label));
}
template <class Group> TW_FN coalesced_group binary_partition(const Group &g, bool p) {
    unsigned those = __ballot_sync(g.tw_mask, p) & g.tw_mask;
    return coalesced_group(p ? those : g.tw_mask & ~those, p, 2);
}

template <class Group> TW_FN void sync(const Group &g) { g.sync(); }
template <class Group> TW_FN void synchronize(const Group &g) { g.sync(); }
template <class Group> TW_FN unsigned thread_rank(const Group &g) { return (unsigned)g.thread_rank(); }
template <class Group> TW_FN unsigned group_size(const Group &g) { return (unsigned)g.size(); }
template <class Group> TW_FN bool is_valid(const Group &) { return true; }
template <class Group, class F, class... A> TW_FN void invoke_one(const Group &g, F f, A... arguments) {
    if (g.thread_rank() == 0) f(arguments...);
}
template <class Group, class F, class... A> TW_FN auto invoke_one_broadcast(const Group &g, F f, A... arguments)
    -> decltype(f(arguments...)) {
    decltype(f(arguments...)) r = {};
    if (g.thread_rank() == 0) r = f(arguments...);
    return g.shfl(r, 0);
}

// Operators of reduce and scan.
template <class T> struct plus { TW_IN T operator()(T a, T b) const { return a + b; } };
template <class T> struct less { TW_IN T operator()(T a, T b) const { return b < a ? b : a; } };
template <class T> struct greater { TW_IN T operator()(T a, T b) const { return a < b ? b : a; } };
template <class T> struct bit_and { TW_IN T operator()(T a, T b) const { return a & b; } };
template <class T> struct bit_or { TW_IN T operator()(T a, T b) const { return a | b; } };
template <class T> struct bit_xor { TW_IN T operator()(T a, T b) const { return a ^ b; } };
}
