// CUB's sums and scans of blocks and warps, loads and stores of a block's items: names of CUB, written from its
// public documentation. Warps first, by shuffles, then the warps' results by way of shared memory. What only
// hosts call is not here.
#pragma once
#include "../cooperative_groups.h"
#include "../cuda/functional"

namespace cub {

struct Sum { template <class T> TW_IN T operator()(const T &a, const T &b) const { return a + b; } };
struct Difference { template <class T> TW_IN T operator()(const T &a, const T &b) const { return a - b; } };
struct Max { template <class T> TW_IN T operator()(const T &a, const T &b) const { return a < b ? b : a; } };
struct Min { template <class T> TW_IN T operator()(const T &a, const T &b) const { return b < a ? b : a; } };
struct Equality { template <class T> TW_IN bool operator()(const T &a, const T &b) const { return a == b; } };
struct Inequality { template <class T> TW_IN bool operator()(const T &a, const T &b) const { return a != b; } };
template <class K, class V> struct KeyValuePair {
    typedef K Key;
    typedef V Value;
    K key;
    V value;
    KeyValuePair() = default;
    TW_IN KeyValuePair(const K &k, const V &v) : key(k), value(v) {}
};
// Of equal values, the one with the lower key.
struct ArgMax { template <class P> TW_IN P operator()(const P &a, const P &b) const {
    return a.value < b.value || (b.value == a.value && b.key < a.key) ? b : a; } };
struct ArgMin { template <class P> TW_IN P operator()(const P &a, const P &b) const {
    return b.value < a.value || (b.value == a.value && b.key < a.key) ? b : a; } };
struct NullType {};

enum BlockReduceAlgorithm { BLOCK_REDUCE_RAKING_COMMUTATIVE_ONLY, BLOCK_REDUCE_RAKING,
    BLOCK_REDUCE_WARP_REDUCTIONS };
enum BlockScanAlgorithm { BLOCK_SCAN_RAKING, BLOCK_SCAN_RAKING_MEMOIZE, BLOCK_SCAN_WARP_SCANS };
enum BlockLoadAlgorithm { BLOCK_LOAD_DIRECT, BLOCK_LOAD_STRIPED, BLOCK_LOAD_VECTORIZE, BLOCK_LOAD_TRANSPOSE,
    BLOCK_LOAD_WARP_TRANSPOSE, BLOCK_LOAD_WARP_TRANSPOSE_TIMESLICED };
enum BlockStoreAlgorithm { BLOCK_STORE_DIRECT, BLOCK_STORE_STRIPED, BLOCK_STORE_VECTORIZE, BLOCK_STORE_TRANSPOSE,
    BLOCK_STORE_WARP_TRANSPOSE, BLOCK_STORE_WARP_TRANSPOSE_TIMESLICED };

TW_FN unsigned LaneId() { return cooperative_groups::tw_lane(); }
TW_FN int RowMajorTid(int, int, int) { return (int)cooperative_groups::tw_block_rank(); }
TW_FN unsigned WarpId() { return cooperative_groups::tw_block_rank() / 32; }

// ---- lanes side by side, `count` of them from the lane `first`, named by a mask

struct tw_lanes { unsigned mask; int first, count; };
template <class T> TW_FN T tw_above(const tw_lanes &g, const T &v, int by) {
    const int lane = (int)cooperative_groups::tw_lane();
    return cooperative_groups::tw_from(g.mask, v, lane + by < g.first + g.count ? lane + by : lane, 32);
}
template <class T> TW_FN T tw_below(const tw_lanes &g, const T &v, int by) {
    const int lane = (int)cooperative_groups::tw_lane();
    return cooperative_groups::tw_from(g.mask, v, lane - by >= g.first ? lane - by : lane, 32);
}
// What the first `valid` lanes make, for the first lane.
template <class T, class Op> TW_FN T tw_reduce(const tw_lanes &g, T v, Op op, int valid) {
    const int rank = (int)cooperative_groups::tw_lane() - g.first;
    _Pragma("unroll") for (int by = 1; by < 32; by *= 2)
        if (by < g.count) {
            T other = tw_above(g, v, by);
            if (rank + by < valid) v = op(v, other);
        }
    return v;
}
// Of each lane, what those up to it make.
template <class T, class Op> TW_FN T tw_scan(const tw_lanes &g, T v, Op op) {
    const int rank = (int)cooperative_groups::tw_lane() - g.first;
    _Pragma("unroll") for (int by = 1; by < 32; by *= 2)
        if (by < g.count) {
            T other = tw_below(g, v, by);
            if (rank >= by) v = op(other, v);
        }
    return v;
}
template <int n> TW_FN tw_lanes tw_logical() {
    static_assert(n >= 1 && n <= 32, "a warp has 32 lanes");
    const int lane = (int)cooperative_groups::tw_lane(), first = lane / n * n;
    return {cooperative_groups::tw_warp_mask(n) << first, first, n};
}

// ---- warps

template <class T, int n = 32, int = 0> struct WarpReduce {
    struct TempStorage { char tw_unused; };
    TW_IN WarpReduce(TempStorage &) {}
    template <class Op> TW_IN T Reduce(T v, Op op) { return tw_reduce(tw_logical<n>(), v, op, n); }
    template <class Op> TW_IN T Reduce(T v, Op op, int valid) { return tw_reduce(tw_logical<n>(), v, op, valid); }
    TW_IN T Sum(T v) { return Reduce(v, cub::Sum()); }
    TW_IN T Sum(T v, int valid) { return Reduce(v, cub::Sum(), valid); }
    TW_IN T Max(T v) { return Reduce(v, cub::Max()); }
    TW_IN T Min(T v) { return Reduce(v, cub::Min()); }
    // Each lane that begins a segment gets what the lanes from it to before the next one make.
    template <class Flag, class Op> TW_IN T HeadSegmentedReduce(T v, Flag head, Op op) {
        const tw_lanes g = tw_logical<n>();
        const int lane = (int)LaneId();
        const unsigned heads = __ballot_sync(g.mask, head != 0) & g.mask & ~((2u << lane) - 1u);
        const int end = lane == 31 || heads == 0 ? g.first + n : __builtin_ctz(heads);
        _Pragma("unroll") for (int by = 1; by < n; by *= 2) {
            T other = tw_above(g, v, by);
            if (lane + by < end) v = op(v, other);
        }
        return v; }
    template <class Flag> TW_IN T HeadSegmentedSum(T v, Flag head) {
        return HeadSegmentedReduce(v, head, cub::Sum()); }
};
template <class T, int n = 32, int = 0> struct WarpScan {
    struct TempStorage { char tw_unused; };
    TW_IN WarpScan(TempStorage &) {}
    static TW_IN T tw_last(T v) {
        const tw_lanes g = tw_logical<n>();
        return cooperative_groups::tw_from(g.mask, v, g.first + n - 1, 32); }
    static TW_IN bool tw_is_first() { return LaneId() % n == 0; }
    template <class Op> TW_IN void InclusiveScan(T v, T &out, Op op) { out = tw_scan(tw_logical<n>(), v, op); }
    template <class Op> TW_IN void InclusiveScan(T v, T &out, Op op, T &all) {
        InclusiveScan(v, out, op); all = tw_last(out); }
    template <class Op> TW_IN void ExclusiveScan(T v, T &out, Op op) {
        T up; InclusiveScan(v, up, op); out = tw_below(tw_logical<n>(), up, 1); }
    template <class Op> TW_IN void ExclusiveScan(T v, T &out, T first, Op op) {
        T all; ExclusiveScan(v, out, first, op, all); }
    template <class Op> TW_IN void ExclusiveScan(T v, T &out, T first, Op op, T &all) {
        T up; InclusiveScan(v, up, op, all);
        T before = tw_below(tw_logical<n>(), up, 1);
        out = tw_is_first() ? first : op(first, before); }
    TW_IN void InclusiveSum(T v, T &out) { InclusiveScan(v, out, cub::Sum()); }
    TW_IN void InclusiveSum(T v, T &out, T &all) { InclusiveScan(v, out, cub::Sum(), all); }
    TW_IN void ExclusiveSum(T v, T &out) { ExclusiveScan(v, out, T(), cub::Sum()); }
    TW_IN void ExclusiveSum(T v, T &out, T &all) { ExclusiveScan(v, out, T(), cub::Sum(), all); }
    template <class Op> TW_IN void Scan(T v, T &up, T &before, Op op) {
        InclusiveScan(v, up, op); before = tw_below(tw_logical<n>(), up, 1); }
    template <class Op> TW_IN void Scan(T v, T &up, T &before, T first, Op op) {
        ExclusiveScan(v, before, first, op); up = op(before, v); }
    TW_IN T Broadcast(T v, unsigned lane) {
        const tw_lanes g = tw_logical<n>();
        return cooperative_groups::tw_from(g.mask, v, g.first + (int)lane, 32); }
};

// ---- blocks

template <int threads> struct tw_warps {
    static constexpr int count = (threads + 31) / 32;
    static TW_IN tw_lanes lanes(int warp) {
        const int here = threads - warp * 32 < 32 ? threads - warp * 32 : 32;
        return {threads % 32 ? cooperative_groups::tw_warp_mask((unsigned)here) : 0xffffffffu, 0,
                threads % 32 ? here : 32}; }
};
template <class T, int x, BlockReduceAlgorithm = BLOCK_REDUCE_WARP_REDUCTIONS, int y = 1, int z = 1, int = 0>
struct BlockReduce {
    typedef tw_warps<x * y * z> tw_of;
    struct TempStorage { T tw_warp[tw_of::count]; };
    TempStorage &tw_storage;
    static TW_IN TempStorage &tw_own() { __shared__ TempStorage own; return own; }
    TW_IN BlockReduce() : tw_storage(tw_own()) {}
    TW_IN BlockReduce(TempStorage &storage) : tw_storage(storage) {}
    // For thread 0.
    template <class Op> TW_IN T Reduce(T v, Op op, int valid) {
        const int rank = (int)cooperative_groups::tw_block_rank(), warp = rank / 32;
        v = tw_reduce(tw_of::lanes(warp), v, op, valid - warp * 32);
        if (rank % 32 == 0) tw_storage.tw_warp[warp] = v;
        __syncthreads();
        if (rank == 0)
            _Pragma("unroll") for (int w = 1; w < tw_of::count; ++w)
                if (w * 32 < valid) v = op(v, tw_storage.tw_warp[w]);
        return v; }
    template <class Op> TW_IN T Reduce(T v, Op op) { return Reduce(v, op, x * y * z); }
    template <class Op, int n> TW_IN T Reduce(T (&v)[n], Op op) {
        T r = v[0];
        _Pragma("unroll") for (int i = 1; i < n; ++i) r = op(r, v[i]);
        return Reduce(r, op); }
    TW_IN T Sum(T v) { return Reduce(v, cub::Sum()); }
    TW_IN T Sum(T v, int valid) { return Reduce(v, cub::Sum(), valid); }
    template <int n> TW_IN T Sum(T (&v)[n]) { return Reduce(v, cub::Sum()); }
};

template <class T, int x, BlockScanAlgorithm = BLOCK_SCAN_RAKING, int y = 1, int z = 1, int = 0>
struct BlockScan {
    typedef tw_warps<x * y * z> tw_of;
    struct TempStorage { T tw_warp[tw_of::count]; T tw_prefix; };
    TempStorage &tw_storage;
    static TW_IN TempStorage &tw_own() { __shared__ TempStorage own; return own; }
    TW_IN BlockScan() : tw_storage(tw_own()) {}
    TW_IN BlockScan(TempStorage &storage) : tw_storage(storage) {}
    // What the threads up to this one make, those before it (nothing for thread 0), and all.
    template <class Op> TW_IN void tw_all(T v, T &up, T &before, Op op, T &all) {
        const int rank = (int)cooperative_groups::tw_block_rank(), warp = rank / 32;
        const tw_lanes g = tw_of::lanes(warp);
        up = tw_scan(g, v, op);
        before = tw_below(g, up, 1);
        if (rank % 32 == g.count - 1) tw_storage.tw_warp[warp] = up;
        __syncthreads();
        T sum = tw_storage.tw_warp[0], front = sum;
        _Pragma("unroll") for (int w = 1; w < tw_of::count; ++w) {
            if (w == warp) front = sum;
            sum = op(sum, tw_storage.tw_warp[w]);
        }
        all = sum;
        if (warp > 0) {
            before = rank % 32 == 0 ? front : op(front, before);
            up = op(front, up);
        } }
    static TW_IN bool tw_is_first() { return cooperative_groups::tw_block_rank() == 0; }
    // What the caller's function says of everything before this block.
    template <class Prefix> TW_IN T tw_asked(T all, Prefix &prefix) {
        if (cooperative_groups::tw_block_rank() < 32) {
            T p = prefix(all);
            if (tw_is_first()) tw_storage.tw_prefix = p;
        }
        __syncthreads();
        return tw_storage.tw_prefix; }

    template <class Op> TW_IN void InclusiveScan(T v, T &out, Op op) { T all; InclusiveScan(v, out, op, all); }
    template <class Op> TW_IN void InclusiveScan(T v, T &out, Op op, T &all) {
        T up, before; tw_all(v, up, before, op, all); out = up; }
    template <class Op, class Prefix> TW_IN void InclusiveScan(T v, T &out, Op op, Prefix &prefix) {
        T up, before, all; tw_all(v, up, before, op, all); out = op(tw_asked(all, prefix), up); }
    template <class Op> TW_IN void ExclusiveScan(T v, T &out, Op op) {
        T up, before, all; tw_all(v, up, before, op, all); out = before; }
    template <class Op> TW_IN void ExclusiveScan(T v, T &out, Op op, T &all) {
        T up, before; tw_all(v, up, before, op, all); out = before; }
    template <class Op> TW_IN void ExclusiveScan(T v, T &out, T first, Op op) {
        T all; ExclusiveScan(v, out, first, op, all); }
    template <class Op> TW_IN void ExclusiveScan(T v, T &out, T first, Op op, T &all) {
        T up, before; tw_all(v, up, before, op, all); out = tw_is_first() ? first : op(first, before); }
    template <class Op, class Prefix> TW_IN void ExclusiveScan(T v, T &out, Op op, Prefix &prefix) {
        T up, before, all; tw_all(v, up, before, op, all);
        T p = tw_asked(all, prefix);
        out = tw_is_first() ? p : op(p, before); }
    TW_IN void InclusiveSum(T v, T &out) { InclusiveScan(v, out, cub::Sum()); }
    TW_IN void InclusiveSum(T v, T &out, T &all) { InclusiveScan(v, out, cub::Sum(), all); }
    template <class Prefix> TW_IN void InclusiveSum(T v, T &out, Prefix &prefix) {
        InclusiveScan(v, out, cub::Sum(), prefix); }
    TW_IN void ExclusiveSum(T v, T &out) { ExclusiveScan(v, out, T(), cub::Sum()); }
    TW_IN void ExclusiveSum(T v, T &out, T &all) { ExclusiveScan(v, out, T(), cub::Sum(), all); }
    template <class Prefix> TW_IN void ExclusiveSum(T v, T &out, Prefix &prefix) {
        ExclusiveScan(v, out, cub::Sum(), prefix); }

    // Several items a thread, side by side.
    template <int n, class Op> TW_IN void tw_items(T (&v)[n], T (&out)[n], T start, bool from_start, bool inclusive,
                                                   Op op, T &all) {
        T own = v[0], up, before;
        _Pragma("unroll") for (int i = 1; i < n; ++i) own = op(own, v[i]);
        tw_all(own, up, before, op, all);
        bool any = !tw_is_first();
        T sum = any ? before : start;
        if (from_start) { if (any) sum = op(start, before); any = true; }
        _Pragma("unroll") for (int i = 0; i < n; ++i) {
            T next = any ? op(sum, v[i]) : v[i];
            out[i] = inclusive ? next : sum;
            sum = next;
            any = true;
        } }
    template <int n, class Op> TW_IN void InclusiveScan(T (&v)[n], T (&out)[n], Op op) {
        T all; tw_items(v, out, v[0], false, true, op, all); }
    template <int n, class Op> TW_IN void InclusiveScan(T (&v)[n], T (&out)[n], Op op, T &all) {
        tw_items(v, out, v[0], false, true, op, all); }
    template <int n, class Op> TW_IN void ExclusiveScan(T (&v)[n], T (&out)[n], T first, Op op) {
        T all; tw_items(v, out, first, true, false, op, all); }
    template <int n, class Op> TW_IN void ExclusiveScan(T (&v)[n], T (&out)[n], T first, Op op, T &all) {
        tw_items(v, out, first, true, false, op, all); }
    template <int n> TW_IN void InclusiveSum(T (&v)[n], T (&out)[n]) { InclusiveScan(v, out, cub::Sum()); }
    template <int n> TW_IN void InclusiveSum(T (&v)[n], T (&out)[n], T &all) {
        InclusiveScan(v, out, cub::Sum(), all); }
    template <int n> TW_IN void ExclusiveSum(T (&v)[n], T (&out)[n]) { ExclusiveScan(v, out, T(), cub::Sum()); }
    template <int n> TW_IN void ExclusiveSum(T (&v)[n], T (&out)[n], T &all) {
        ExclusiveScan(v, out, T(), cub::Sum(), all); }
};

// ---- loads and stores of several items a thread

template <class In, class T, int n> TW_FN void LoadDirectBlocked(int rank, In from, T (&items)[n]) {
    _Pragma("unroll") for (int i = 0; i < n; ++i) items[i] = from[rank * n + i]; }
template <class Out, class T, int n> TW_FN void StoreDirectBlocked(int rank, Out to, T (&items)[n]) {
    _Pragma("unroll") for (int i = 0; i < n; ++i) to[rank * n + i] = items[i]; }
template <int threads, class In, class T, int n> TW_FN void LoadDirectStriped(int rank, In from, T (&items)[n]) {
    _Pragma("unroll") for (int i = 0; i < n; ++i) items[i] = from[i * threads + rank]; }
template <int threads, class Out, class T, int n> TW_FN void StoreDirectStriped(int rank, Out to, T (&items)[n]) {
    _Pragma("unroll") for (int i = 0; i < n; ++i) to[i * threads + rank] = items[i]; }

// Through shared memory, so that neighbouring threads touch neighbouring elements; or as the thread has them.
template <class T, int threads, int n, bool through> struct tw_exchange_storage { T tw_items[threads * n]; };
template <class T, int threads, int n> struct tw_exchange_storage<T, threads, n, false> { char tw_unused; };
template <class T, int x, int n, BlockLoadAlgorithm how = BLOCK_LOAD_DIRECT, int y = 1, int z = 1, int = 0>
struct BlockLoad {
    static constexpr int tw_threads = x * y * z;
    static constexpr bool tw_through = how >= BLOCK_LOAD_TRANSPOSE;
    typedef tw_exchange_storage<T, tw_threads, n, tw_through> TempStorage;
    TempStorage &tw_storage;
    TW_IN BlockLoad(TempStorage &storage) : tw_storage(storage) {}
    template <class In> TW_IN void tw_load(In from, T (&items)[n], int valid) {
        const int rank = (int)cooperative_groups::tw_block_rank();
        const bool blocked = how == BLOCK_LOAD_DIRECT || how == BLOCK_LOAD_VECTORIZE;
        _Pragma("unroll") for (int i = 0; i < n; ++i) {
            const int at = blocked ? rank * n + i : i * tw_threads + rank;
            if (at < valid) {
                if constexpr (tw_through) tw_storage.tw_items[at] = from[at]; else items[i] = from[at]; }
        }
        if constexpr (tw_through) {
            __syncthreads();
            _Pragma("unroll") for (int i = 0; i < n; ++i)
                if (rank * n + i < valid) items[i] = tw_storage.tw_items[rank * n + i];
        } }
    template <class In> TW_IN void Load(In from, T (&items)[n]) { tw_load(from, items, tw_threads * n); }
    template <class In> TW_IN void Load(In from, T (&items)[n], int valid) { tw_load(from, items, valid); }
    template <class In, class D> TW_IN void Load(In from, T (&items)[n], int valid, D otherwise) {
        _Pragma("unroll") for (int i = 0; i < n; ++i) items[i] = otherwise;
        tw_load(from, items, valid); }
};
template <class T, int x, int n, BlockStoreAlgorithm how = BLOCK_STORE_DIRECT, int y = 1, int z = 1, int = 0>
struct BlockStore {
    static constexpr int tw_threads = x * y * z;
    static constexpr bool tw_through = how >= BLOCK_STORE_TRANSPOSE;
    typedef tw_exchange_storage<T, tw_threads, n, tw_through> TempStorage;
    TempStorage &tw_storage;
    TW_IN BlockStore(TempStorage &storage) : tw_storage(storage) {}
    template <class Out> TW_IN void Store(Out to, T (&items)[n], int valid) {
        const int rank = (int)cooperative_groups::tw_block_rank();
        const bool blocked = how == BLOCK_STORE_DIRECT || how == BLOCK_STORE_VECTORIZE;
        if constexpr (tw_through) {
            _Pragma("unroll") for (int i = 0; i < n; ++i) tw_storage.tw_items[rank * n + i] = items[i];
            __syncthreads();
        }
        _Pragma("unroll") for (int i = 0; i < n; ++i) {
            const int at = blocked ? rank * n + i : i * tw_threads + rank;
            if (at < valid) {
                if constexpr (tw_through) to[at] = tw_storage.tw_items[at]; else to[at] = items[i]; }
        } }
    template <class Out> TW_IN void Store(Out to, T (&items)[n]) { Store(to, items, tw_threads * n); }
};

// ---- items change places

template <class T, int x, int n, bool = false, int y = 1, int z = 1, int = 0> struct BlockExchange {
    static constexpr int tw_threads = x * y * z;
    struct TempStorage { T tw_items[tw_threads * n]; };
    TempStorage &tw_storage;
    TW_IN BlockExchange(TempStorage &storage) : tw_storage(storage) {}
    TW_IN void tw_move(T (&v)[n], T (&out)[n], bool to_blocked) {
        const int rank = (int)cooperative_groups::tw_block_rank();
        _Pragma("unroll") for (int i = 0; i < n; ++i)
            tw_storage.tw_items[to_blocked ? i * tw_threads + rank : rank * n + i] = v[i];
        __syncthreads();
        _Pragma("unroll") for (int i = 0; i < n; ++i)
            out[i] = tw_storage.tw_items[to_blocked ? rank * n + i : i * tw_threads + rank]; }
    TW_IN void StripedToBlocked(T (&v)[n], T (&out)[n]) { tw_move(v, out, true); }
    TW_IN void BlockedToStriped(T (&v)[n], T (&out)[n]) { tw_move(v, out, false); }
    TW_IN void StripedToBlocked(T (&v)[n]) { tw_move(v, v, true); }
    TW_IN void BlockedToStriped(T (&v)[n]) { tw_move(v, v, false); }
};
// Stable, as a radix sort is, but by counting for each key those that come before it: what it costs tells
// nothing of CUB's.
template <class Key, int x, int n, class Value = NullType, int = 4, bool = true,
          BlockScanAlgorithm = BLOCK_SCAN_WARP_SCANS, int = 0, int y = 1, int z = 1, int = 0>
struct BlockRadixSort {
    static constexpr int tw_threads = x * y * z, tw_count = tw_threads * n;
    struct TempStorage { Key tw_keys[tw_count]; Value tw_values[tw_count]; };
    TempStorage &tw_storage;
    TW_IN BlockRadixSort(TempStorage &storage) : tw_storage(storage) {}
    TW_IN void tw_sort(Key (&keys)[n], Value *values, bool down, bool striped) {
        const int rank = (int)cooperative_groups::tw_block_rank();
        int place[n];
        _Pragma("unroll") for (int i = 0; i < n; ++i) {
            tw_storage.tw_keys[rank * n + i] = keys[i];
            place[i] = 0;
        }
        __syncthreads();
        for (int at = 0; at < tw_count; ++at) {
            const Key other = tw_storage.tw_keys[at];
            _Pragma("unroll") for (int i = 0; i < n; ++i)
                place[i] += (down ? keys[i] < other : other < keys[i]) || (other == keys[i] && at < rank * n + i);
        }
        __syncthreads();
        _Pragma("unroll") for (int i = 0; i < n; ++i) {
            tw_storage.tw_keys[place[i]] = keys[i];
            if (values) tw_storage.tw_values[place[i]] = values[i];
        }
        __syncthreads();
        _Pragma("unroll") for (int i = 0; i < n; ++i) {
            const int at = striped ? i * tw_threads + rank : rank * n + i;
            keys[i] = tw_storage.tw_keys[at];
            if (values) values[i] = tw_storage.tw_values[at];
        } }
    TW_IN void Sort(Key (&keys)[n]) { tw_sort(keys, nullptr, false, false); }
    TW_IN void SortDescending(Key (&keys)[n]) { tw_sort(keys, nullptr, true, false); }
    TW_IN void SortBlockedToStriped(Key (&keys)[n]) { tw_sort(keys, nullptr, false, true); }
    TW_IN void Sort(Key (&keys)[n], Value (&values)[n]) { tw_sort(keys, values, false, false); }
    TW_IN void SortDescending(Key (&keys)[n], Value (&values)[n]) { tw_sort(keys, values, true, false); }
    TW_IN void SortBlockedToStriped(Key (&keys)[n], Value (&values)[n]) { tw_sort(keys, values, false, true); }
};
}
