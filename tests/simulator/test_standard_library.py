"""What device code names of C++'s own library, against NumPy."""

import numpy as np

from tilewise import Kernel


def test_sequences_tuples_and_functions():
    source = """
#include <tuple>
#include <utility>
#include <functional>
#include <algorithm>
template <class F, size_t... at> __device__ int folded(F f, const int* x, std::index_sequence<at...>) {
    int r = 0;
    ((r = f(r, x[at])), ...);
    return r;
}
extern "C" __global__ void kernel(const int* x, int* y) {
    int t = threadIdx.x, v = x[t];
    const int* own = x + t / 4 * 4;
    std::tuple<int, float> both = std::make_tuple(v, 0.5f);
    std::get<0>(both) += t;
    auto two = std::make_pair(v, 2L);
    int few[3];
    std::fill(few, few + 3, v);
    int out[8] = {
        folded(std::plus<>(), own, std::make_index_sequence<4>()),
        folded(std::bit_xor<int>(), own, std::make_index_sequence<3>()),
        std::get<0>(both) + (int)(4 * std::get<1>(both)),
        (int)(two.first * two.second * (UINT64_C(0x100000000) >> 32)),
        std::max({v, 7, t}),
        std::clamp(v, 10, 20),
        few[0] + few[1] + few[2],
        (int)(std::lower_bound(x + 32, x + 64, v) - x),
    };
    std::copy(out, out + 8, y + 8 * t);
}"""
    x = np.random.Generator(np.random.PCG64(3)).integers(0, 64, 64).astype(np.int32)
    x[32:].sort()
    y = np.zeros((32, 8), np.int32)
    Kernel(source).simulate(x, y, grid=1, block=32)
    v, t = x[:32], np.arange(32)
    fours = v.reshape(8, 4)
    assert (y[:, 0] == np.repeat(fours.sum(axis=1), 4)).all()
    assert (y[:, 1] == np.repeat(np.bitwise_xor.reduce(fours[:, :3], axis=1), 4)).all()
    assert (y[:, 2] == v + t + 2).all()
    assert (y[:, 3] == 2 * v).all()
    assert (y[:, 4] == np.maximum(np.maximum(v, 7), t)).all()
    assert (y[:, 5] == np.clip(v, 10, 20)).all()
    assert (y[:, 6] == 3 * v).all()
    assert (y[:, 7] == 32 + np.searchsorted(x[32:], v)).all()


def test_traits_choose_types_and_storage():
    source = """#include <type_traits>
#include <cstdio>
template <class T, int N> struct Pack {
    using type = typename std::aligned_storage<N * sizeof(T), N * sizeof(T)>::type;
    static_assert(sizeof(type) == N * sizeof(T) && alignof(type) == N * sizeof(T));
    union { type storage; T element[N]; };
    void report() { fprintf(stderr, "%d", N); exit(EXIT_FAILURE); }
};
template <class T> __global__ void doubled(const T* x, T* y) {
    using Whole = std::conditional_t<std::is_floating_point_v<T>, int, std::make_unsigned_t<int>>;
    static_assert(std::is_same_v<std::common_type_t<T, Whole>, std::common_type_t<Whole, T>>);
    Pack<T, 4> pack;
    pack.storage = reinterpret_cast<const decltype(pack.storage)*>(x)[threadIdx.x];
    for (T& one : pack.element) one *= 2;
    reinterpret_cast<decltype(pack.storage)*>(y)[threadIdx.x] = pack.storage;
}
int main() { doubled<float><<<1, 32>>>(nullptr, nullptr); doubled<int><<<1, 32>>>(nullptr, nullptr); }
"""
    for name, dtype in (("float", np.float32), ("int", np.int32)):
        x = np.arange(128).astype(dtype)
        y = np.zeros_like(x)
        Kernel(source, name=f"doubled<{name}>").simulate(x, y, grid=1, block=32)
        assert (y == 2 * x).all()
