"""The headers that CUDA files include, against NumPy."""

from typing import Any

import numpy as np
import pytest

from tests.simulator.kernels import simulate
from tilewise.errors import LessonError
from tilewise.simulator import HazardError

Array = np.ndarray[Any, Any]
GROUPS = "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"


def test_a_block_as_a_group():
    source = f"""{GROUPS}
extern "C" __global__ void kernel(const int* x, int* y) {{
    __shared__ int s[96];
    cg::thread_block block = cg::this_thread_block();
    unsigned r = block.thread_rank();
    s[r] = x[block.group_index().x * block.size() + r];
    block.sync();
    int v = s[block.num_threads() - 1 - r];
    auto token = block.barrier_arrive();
    block.barrier_wait(std::move(token));
    s[r] = v + block.thread_index().y + 10 * block.dim_threads().x;
    cg::sync(block);
    cg::thread_group any = block;
    cg::grid_group grid = cg::this_grid();
    y[grid.thread_rank()] = s[(r + 1) % any.size()] + (int)(grid.size() + grid.num_blocks());
}}"""
    x = np.arange(192, dtype=np.int32)
    y = np.zeros_like(x)
    simulate(source, x, y, grid=2, block=(16, 6))
    held = x.reshape(2, 96)[:, ::-1] + np.repeat(np.arange(6), 16) + 160
    assert (y.reshape(2, 96) == np.roll(held, -1, axis=1) + 192 + 2).all()


def test_tiles_of_a_block():
    source = f"""{GROUPS}
extern "C" __global__ void kernel(const int* x, int* y) {{
    cg::thread_block block = cg::this_thread_block();
    auto tile = cg::tiled_partition<8>(block);
    cg::thread_block_tile<4> small = cg::tiled_partition<4>(tile);
    int i = block.thread_rank(), v = x[i];
    int* out = y + i * 14;
    out[0] = tile.thread_rank(); out[1] = tile.size(); out[2] = tile.meta_group_rank();
    out[3] = tile.meta_group_size();
    out[4] = tile.shfl(v, 3); out[5] = tile.shfl_up(v, 1); out[6] = tile.shfl_down(v, 2);
    out[7] = tile.shfl_xor(v, 4); out[8] = tile.any(v > 60); out[9] = tile.all(v < 60);
    out[10] = tile.ballot(v & 1); out[11] = tile.match_any(v / 3);
    out[12] = small.meta_group_rank() * 100 + small.meta_group_size() * 10 + small.thread_rank();
    tile.sync();
    cg::thread_group later = cg::tiled_partition(block, 16);
    out[13] = later.size() * 100 + later.thread_rank();
}}"""
    x = np.random.Generator(np.random.PCG64(1)).integers(0, 64, 64).astype(np.int32)
    x[8:16] //= 2
    x[40:56] = 63
    y = np.zeros((64, 14), np.int32)
    simulate(source, x, y, block=64)
    rank, lane8 = np.arange(64), np.arange(64) % 8
    tiles = x.reshape(8, 8)
    parts = np.repeat(np.arange(8), 8)
    bits = 1 << np.arange(8)
    expected = [
        lane8, np.full(64, 8), parts, np.full(64, 8), tiles[parts, 3], np.where(lane8 >= 1, x[rank - 1], x),
        np.where(lane8 < 6, x[(rank + 2) % 64], x), x[rank ^ 4], np.any(tiles > 60, axis=1)[parts],
        np.all(tiles < 60, axis=1)[parts], ((tiles & 1) * bits).sum(1)[parts],
        ((tiles[parts] // 3 == (x // 3)[:, None]) * bits).sum(1), lane8 // 4 * 100 + 20 + rank % 4,
        1600 + rank % 16,
    ]  # fmt: skip
    for column, values in enumerate(expected):
        assert (y[:, column] == values).all(), column


@pytest.mark.parametrize(
    ("ctype", "dtype"), [("int", np.int32), ("unsigned", np.uint32), ("double", np.float64)]
)
def test_reductions_of_tiles_and_of_coalesced_threads(ctype, dtype):
    source = f"""#include <cooperative_groups/reduce.h>
{GROUPS}
extern "C" __global__ void kernel(const {ctype}* x, {ctype}* y) {{
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int i = threadIdx.x;
    y[i] = cg::reduce(tile, x[i], cg::plus<{ctype}>());
    y[64 + i] = cg::reduce(tile, x[i], cg::less<{ctype}>());
    y[128 + i] = cg::reduce(tile, x[i], [] __device__ ({ctype} a, {ctype} b) {{ return a > b ? a : b; }});
    y[192 + i] = 0; y[256 + i] = 0;
    if (i % 3 == 0) {{
        cg::coalesced_group some = cg::coalesced_threads();
        y[192 + i] = cg::reduce(some, x[i], cg::plus<{ctype}>());
        y[256 + i] = some.shfl(x[i], 2) + some.size() + some.thread_rank();
    }}
}}"""
    x = np.random.Generator(np.random.PCG64(2)).integers(0, 99, 64).astype(dtype)
    y = np.zeros((5, 64), dtype)
    simulate(source, x, y, block=64)
    tiles = x.reshape(4, 16)
    for row, fold in enumerate((np.add, np.minimum, np.maximum)):
        assert (y[row] == np.repeat(fold.reduce(tiles, axis=1), 16)).all()
    warps, chosen = x.reshape(2, 32), np.equal(np.arange(64) % 3, 0).reshape(2, 32)
    for warp in range(2):
        members = warps[warp][chosen[warp]]
        assert (y[3].reshape(2, 32)[warp] == np.where(chosen[warp], members.sum(), 0)).all()
        assert (
            y[4].reshape(2, 32)[warp][chosen[warp]] == members[2] + len(members) + np.arange(len(members))
        ).all()


def test_scans_and_partitions_by_value():
    source = f"""#include <cooperative_groups/scan.h>
{GROUPS}
extern "C" __global__ void kernel(const float* x, float* y) {{
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int i = threadIdx.x;
    y[i] = cg::inclusive_scan(warp, x[i]);
    y[32 + i] = cg::exclusive_scan(cg::tiled_partition<8>(warp), x[i], cg::plus<float>());
    auto half = cg::binary_partition(warp, x[i] > 4.0f);
    y[64 + i] = half.thread_rank() + 100.0f * half.size();
    y[96 + i] = cg::inclusive_scan(half, x[i]);
    auto same = cg::labeled_partition(warp, (int)x[i] % 3);
    y[128 + i] = same.size();
    y[160 + i] = half.shfl_up(x[i], 2);
    y[192 + i] = half.ballot((int)x[i] & 1);
}}"""
    x = np.random.Generator(np.random.PCG64(3)).integers(0, 9, 32).astype(np.float32)
    y = np.zeros((7, 32), np.float32)
    simulate(source, x, y)
    assert (y[0] == np.cumsum(x)).all()
    tiles = x.reshape(4, 8)
    assert (y[1].reshape(4, 8) == np.cumsum(tiles, axis=1) - tiles).all()
    for member in (x > 4, x <= 4):
        count = member.sum()
        assert (y[2][member] == np.arange(count) + 100 * count).all()
        assert (y[3][member] == np.cumsum(x[member])).all()
        assert (y[5][member] == np.concatenate([x[member][:2], x[member][:-2]])).all()
        assert (
            y[6][member] == ((x[member].astype(int) & 1) << np.arange(count)).sum().astype(np.float32)
        ).all()
    assert (y[4] == [(x % 3 == v % 3).sum() for v in x]).all()


def test_a_group_copies_and_waits():
    source = f"""#include <cooperative_groups/memcpy_async.h>
{GROUPS}
extern "C" __global__ void kernel(const float* x, float* y, int waits) {{
    __shared__ __align__(16) float s[2][100];
    cg::thread_block block = cg::this_thread_block();
    cg::memcpy_async(block, s[0], x, sizeof(float) * 100);
    cg::memcpy_async(block, s[1], 100, x + 101, 99);
    if (waits) cg::wait_prior<1>(block);
    y[threadIdx.x] = s[0][99 - threadIdx.x];
    cg::wait(block);
    if (threadIdx.x < 99) y[100 + threadIdx.x] = s[1][threadIdx.x];
}}"""
    x = np.arange(200, dtype=np.float32)
    y = np.zeros(199, np.float32)
    run = simulate(source, x, y, np.int32(1), block=100)
    assert (y[:100] == x[99::-1]).all() and (y[100:] == x[101:]).all()
    assert run.counts.global_load.requests == 1 + 4
    with pytest.raises(HazardError, match="undelivered"):
        simulate(source, x, y, np.int32(0), block=100)


def test_a_cluster_as_a_group():
    source = f"""{GROUPS}
extern "C" __global__ void __cluster_dims__(4, 1, 1) kernel(const int* x, int* y) {{
    __shared__ int s[32];
    cg::cluster_group cluster = cg::this_cluster();
    s[threadIdx.x] = x[blockIdx.x * 32 + threadIdx.x];
    cluster.sync();
    int* other = cluster.map_shared_rank(s, (cluster.block_rank() + 1) % cluster.num_blocks());
    y[blockIdx.x * 32 + threadIdx.x] = other[31 - threadIdx.x] + cluster.thread_rank();
    cluster.sync();
}}"""
    x = np.arange(256, dtype=np.int32) * 7
    y = np.zeros_like(x)
    simulate(source, x, y, grid=8)
    shown = np.roll(x.reshape(2, 4, 32), -1, axis=1)[:, :, ::-1].reshape(256)
    assert (y == shown + np.arange(256) % 128).all()


WMMA = """#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void kernel(const {T}* A, const {T}* B, const {C}* C, {D}* D) {{
    wmma::fragment<wmma::matrix_a, {M}, {N}, {K}, {E}, wmma::{la}_major> a;
    wmma::fragment<wmma::matrix_b, {M}, {N}, {K}, {E}, wmma::{lb}_major> b;
    wmma::fragment<wmma::accumulator, {M}, {N}, {K}, {C}> c;
    wmma::fragment<wmma::accumulator, {M}, {N}, {K}, {D}> d;
    wmma::load_matrix_sync(c, C, {N}, wmma::mem_row_major);
    wmma::load_matrix_sync(a, A, {la_step});
    wmma::load_matrix_sync(b, B, {lb_step});
    {convert}
    wmma::mma_sync(d, a, b, c);
    #pragma unroll
    for (int i = 0; i < d.num_elements; i++) d.x[i] = d.x[i] + d.x[i];
    wmma::store_matrix_sync(D, d, {M}, wmma::mem_col_major);
}}"""
FLOATS = {"half": np.float16, "float": np.float32, "signed char": np.int8, "int": np.int32}


@pytest.mark.parametrize(
    ("shape", "kind", "c", "d", "layouts"),
    [
        ((16, 16, 16), "half", "float", "float", "row row"),
        ((16, 16, 16), "half", "half", "half", "row col"),
        ((16, 16, 16), "half", "half", "float", "col row"),
        ((32, 8, 16), "half", "float", "float", "row col"),
        ((8, 32, 16), "half", "float", "float", "col col"),
        ((8, 32, 16), "__nv_bfloat16", "float", "float", "row row"),
        ((16, 16, 16), "__nv_bfloat16", "float", "float", "col col"),
        ((16, 16, 8), "float", "float", "float", "row col"),
        ((16, 16, 16), "signed char", "int", "int", "row col"),
        ((32, 8, 16), "signed char", "int", "int", "col row"),
        ((8, 32, 16), "signed char", "int", "int", "row row"),
    ],
)
def test_warp_matrices(shape, kind, c, d, layouts):
    (m, n, k), (la, lb) = shape, layouts.split()
    random = np.random.Generator(np.random.PCG64(4))
    a, b = random.integers(-8, 9, (m, k)), random.integers(-8, 9, (k, n))
    start = random.integers(-99, 99, (m, n)).astype(FLOATS[c])
    source = WMMA.format(
        T=kind, E="wmma::precision::tf32" if k == 8 else kind, C=c, D=d, M=m, N=n, K=k, la=la, lb=lb,
        la_step=k if la == "row" else m, lb_step=n if lb == "row" else k,
        convert="for (int i = 0; i < a.num_elements; i++) a.x[i] = wmma::__float_to_tf32(a.x[i]);"
        if k == 8 else "",
    )  # fmt: skip

    def laid(x: Array, layout: str) -> Array:
        x = x if layout == "row" else x.T
        if kind == "__nv_bfloat16":
            return (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)
        return np.ascontiguousarray(x.astype(FLOATS[kind]))

    result = np.zeros((n, m), FLOATS[d])
    simulate(source, laid(a, la), laid(b, lb), start, result)
    expected = 2 * (a @ b + start)
    assert np.array_equal(result.T, expected)


def test_wmma_over_tiles_in_shared_memory():
    source = """#include <mma.h>
using namespace nvcuda::wmma;
extern "C" __global__ void kernel(const half* A, const half* B, float* C, int K) {
    __shared__ half s[16 * 24];
    fragment<matrix_a, 16, 16, 16, half, row_major> a;
    fragment<matrix_b, 16, 16, 16, half, row_major> b[2];
    fragment<accumulator, 16, 16, 16, float> acc[2];
    for (int j = 0; j < 2; j++) fill_fragment(acc[j], 1.0f);
    for (int k = 0; k < K; k += 16) {
        for (int i = threadIdx.x; i < 256; i += 32) s[i / 16 * 24 + i % 16] = A[i / 16 * K + k + i % 16];
        __syncwarp();
        load_matrix_sync(a, s, 24);
        for (int j = 0; j < 2; j++) {
            load_matrix_sync(b[j], B + k * 32 + j * 16, 32);
            mma_sync(acc[j], a, b[j], acc[j]);
        }
        __syncwarp();
    }
    for (int j = 0; j < 2; j++) store_matrix_sync(C + j * 16, acc[j], 32, mem_row_major);
}"""
    random = np.random.Generator(np.random.PCG64(5))
    a = random.integers(-4, 5, (16, 64)).astype(np.float16)
    b = random.integers(-4, 5, (64, 32)).astype(np.float16)
    c = np.zeros((16, 32), np.float32)
    run = simulate(source, a, b, c, np.int32(64))
    assert run.counts.global_store.requests == 2 * 4  # two floats a lane
    assert (c == 1 + a.astype(np.float32) @ b.astype(np.float32)).all()


def _fp8_values(fraction: int, bias: int, special: int) -> Array:
    """Each of the 128 codes without a sign, by the format's definition; NaN and infinity from ``special``."""
    codes = np.arange(128)
    e, m = codes >> fraction, codes & ((1 << fraction) - 1)
    values: Array = np.where(e, 1 + m / 2**fraction, m / 2**fraction) * 2.0 ** (np.maximum(e, 1) - bias)
    values[special:] = np.nan
    if fraction == 2:
        values[special] = np.inf
    return values


@pytest.mark.parametrize(("name", "kind", "fraction", "bias", "special"), [
    ("e4m3", "__NV_E4M3", 3, 7, 127), ("e5m2", "__NV_E5M2", 2, 15, 124),
])  # fmt: skip
def test_floats_of_eight_bits(name, kind, fraction, bias, special):
    source = f"""#include <cuda_fp8.h>
extern "C" __global__ void kernel(const float* x, unsigned char* y, float* back, float* all, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 256) all[i] = __half2float(__half(__nv_cvt_fp8_to_halfraw(i, {kind})));
    if (i >= n) return;
    __nv_fp8_{name} one(x[i]);
    y[i] = one.__x;
    y[n + i] = __nv_cvt_float_to_fp8(x[i], __NV_NOSAT, {kind});
    y[2 * n + i] = __nv_fp8x2_{name}(make_float2(0.0f, x[i])).__x >> 8;
    y[3 * n + i] = __nv_fp8x4_{name}(make_float4(0.0f, 0.0f, x[i], 0.0f)).__x >> 16;
    y[4 * n + i] = __nv_fp8_{name}((double)x[i]).__x;
    back[i] = float(one);
}}"""
    values = _fp8_values(fraction, bias, special)
    finite = values[:special]
    middle = (finite[1:] + finite[:-1]) / 2
    x = np.concatenate([finite, middle, middle * (1 + 2**-20), middle * (1 - 2**-20), [1e9, np.inf, 3e-9]])
    x = np.concatenate([x, -x, [np.nan]]).astype(np.float32)
    n = len(x)
    y, back, every = np.zeros((5, n), np.uint8), np.zeros(n, np.float32), np.zeros(256, np.float32)
    simulate(source, x, y, back, every, np.int32(n), grid=(n + 255) // 256, block=256)
    assert np.array_equal(every[:128], values.astype(np.float32), equal_nan=True)
    assert np.array_equal(every[128 : special + 128], -values[:special].astype(np.float32))
    size = np.abs(x.astype(np.float64))
    distance = np.abs(finite[None, :] - np.where(np.isfinite(size), size, 1e9)[:, None])
    nearest = distance.min(axis=1, keepdims=True)
    code = np.argmax((distance == nearest) * (2 - np.arange(special) % 2), axis=1)  # ties to even
    last = finite[-1] + (finite[-1] - finite[-2]) / 2
    over = (size > last) | ((size == last) & (special % 2 == 0))
    sign = np.where(np.signbit(x), 128, 0)
    number = ~np.isnan(x)
    for row in (0, 2, 3, 4):
        assert (y[row][number] == (code + sign)[number]).all(), row
        assert (y[row][~number] == 0x7F).all()
    beyond = np.where(over, 0x7F if fraction == 3 else 0x7C, code) + sign
    assert (y[1][number] == beyond[number]).all()
    shown = values[code] * np.where(np.signbit(x), -1, 1)
    assert (back[number] == shown[number].astype(np.float32)).all() and np.isnan(back[~number]).all()


@pytest.mark.parametrize(("header", "t"), [("cuda_fp16.h", "__half"), ("cuda_bf16.h", "__nv_bfloat16")])
def test_more_functions_of_halves(header, t):
    name = "half" if t == "__half" else "bfloat16"
    two = "__half2" if t == "__half" else "__nv_bfloat162"
    source = f"""#include <{header}>
extern "C" __global__ void kernel(const float* x, const float* z, float* y) {{
    int i = threadIdx.x;
    {t} a = x[i], b = z[i];
    {two} p(a, b), q(b, a);
    {t}_raw raw = a;
    float* out = y + i * 16;
    out[0] = __hfma_relu(a, b, {t}(1.0f)); out[1] = __hadd_sat(a, b); out[2] = __hmax_nan(a, b);
    out[3] = __low2float(__hlt2(p, q)); out[4] = (float)__hgt2_mask(p, q); out[5] = __hbeq2(p, p);
    out[6] = __low2float(h2floor(p)); out[7] = {t}(raw);
    out[8] = __float2{name}_rz(x[i] * 1.0001f); out[9] = __float2{name}_rd(x[i] * 1.0001f);
    out[10] = __float2{name}_ru(x[i] * 1.0001f); out[11] = __{name}2short_rz(a);
    out[12] = __high2float(__shfl_down_sync(~0u, p, 1)); out[13] = p == q;
    out[14] = __high2float(__hmul2_rn(p, q)); out[15] = __low2float(__habs2(p));
}}"""
    random = np.random.Generator(np.random.PCG64(6))
    x, z = (random.integers(-64, 64, (2, 32)) / 16).astype(np.float32)
    z[5] = x[5]
    y = np.zeros((32, 16), np.float32)
    simulate(source, x, z, y)
    fraction = 10 if t == "__half" else 7

    def rounded(v: Array, how: Any) -> Array:
        unit = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(v), 2.0**-30))) - fraction)
        result: Array = (how(v / unit) * unit).astype(np.float32)
        return result

    scaled = (x * np.float32(1.0001)).astype(np.float64)
    wide = x.astype(np.float64) * z
    expected = [
        np.maximum(rounded(wide + 1, np.rint), 0), np.clip(x + z, 0, 1), np.maximum(x, z), x < z,
        np.where(x > z, 65535.0, 0) + np.where(z > x, 4294901760.0, 0), np.ones(32), np.floor(x), x,
        rounded(scaled, np.trunc), rounded(scaled, np.floor), rounded(scaled, np.ceil), np.trunc(x),
        np.append(z[1:], z[31]), x == z, rounded(wide, np.rint), np.abs(x),
    ]  # fmt: skip
    for column, values in enumerate(expected):
        assert (y[:, column] == np.asarray(values).astype(np.float32)).all(), column


def test_a_barrier_with_copies():
    source = f"""#include <cuda/barrier>
{GROUPS}
using barrier = cuda::barrier<cuda::thread_scope_block>;
extern "C" __global__ void kernel(const float* x, float* y, int waits) {{
    __shared__ barrier bar;
    __shared__ __align__(16) float s[128], t[128];
    auto block = cg::this_thread_block();
    if (block.thread_rank() == 0) init(&bar, block.size());
    block.sync();
    for (int round = 0; round < 3; round++) {{
        cuda::memcpy_async(block, s, x + round * 128, cuda::aligned_size_t<16>(sizeof(float) * 128), bar);
        if (waits) bar.arrive_and_wait();
        t[threadIdx.x] = s[127 - threadIdx.x];
        barrier::arrival_token token = bar.arrive();
        bar.wait(std::move(token));
        y[round * 128 + threadIdx.x] = t[threadIdx.x ^ 64];
        bar.arrive_and_wait();
    }}
}}"""
    x = np.arange(384, dtype=np.float32)
    y = np.zeros_like(x)
    simulate(source, x, y, np.int32(1), block=128)
    assert (y.reshape(3, 128) == x.reshape(3, 128)[:, ::-1][:, np.arange(128) ^ 64]).all()
    with pytest.raises(HazardError, match="undelivered"):
        simulate(source, x, y, np.int32(0), block=128)


@pytest.mark.parametrize("kind", ["thread", "block", "primitives", "roles"])
def test_pipelines(kind):
    copy = (
        "cuda::memcpy_async(s[j % 2] + threadIdx.x * 4, x + j * 256 + threadIdx.x * 4, sizeof(float4), pipe)"
    )
    whole = "cuda::memcpy_async(block, s[j % 2], x + j * 256, sizeof(float) * 256, pipe)"
    half = """for (int i = threadIdx.x; i < 64; i += 32)
        cuda::memcpy_async(s[j % 2] + i * 4, x + j * 256 + i * 4, 16, pipe)"""
    use = "for (int i = 0; i < 4; i++) y[j * 256 + threadIdx.x * 4 + i] = 2 * s[j % 2][threadIdx.x * 4 + i];"
    bodies = {
        "thread": f"""auto pipe = cuda::make_pipeline();
    for (int j = 0, next = 0; next < n; next++) {{
        for (; j < n && j < next + 2; j++) {{ pipe.producer_acquire(); {copy}; pipe.producer_commit(); }}
        pipe.consumer_wait();
        {use.replace("j", "next")}
        pipe.consumer_release();
    }}""",
        "block": f"""__shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipe = cuda::make_pipeline(block, &state);
    for (int j = 0, next = 0; next < n; next++) {{
        for (; j < n && j < next + 2; j++) {{ pipe.producer_acquire(); {whole}; pipe.producer_commit(); }}
        pipe.consumer_wait();
        {use.replace("j", "next").replace("threadIdx.x * 4", "(63 - threadIdx.x) * 4")}
        pipe.consumer_release();
    }}""",
        "primitives": f"""for (int j = 0; j < n; j++) {{
        __pipeline_memcpy_async(s[j % 2] + threadIdx.x * 4, x + j * 256 + threadIdx.x * 4, 16);
        __pipeline_commit();
        __pipeline_wait_prior(0);
        {use}
    }}""",
        "roles": f"""__shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto role = threadIdx.x < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
    auto pipe = cuda::make_pipeline(block, &state, role);
    if (role == cuda::pipeline_role::producer)
        for (int j = 0; j < n; j++) {{ pipe.producer_acquire(); {half}; pipe.producer_commit(); }}
    else
        for (int j = 0; j < n; j++) {{
            pipe.consumer_wait();
            for (int i = threadIdx.x - 32; i < 256; i += 32) y[j * 256 + i] = 2 * s[j % 2][i];
            pipe.consumer_release();
        }}""",
    }
    source = f"""#include <cuda/pipeline>
#include <cuda_pipeline.h>
{GROUPS}
extern "C" __global__ void kernel(const float* x, float* y, int n) {{
    __shared__ __align__(16) float s[2][256];
    auto block = cg::this_thread_block();
    {bodies[kind]}
}}"""
    x = np.arange(5 * 256, dtype=np.float32)
    y = np.zeros_like(x)
    simulate(source, x, y, np.int32(5), block=64)
    assert (y == 2 * x).all()


def test_atomics_as_objects():
    source = """#include <cuda/atomic>
#include <cuda/std/type_traits>
extern "C" __global__ void kernel(unsigned* y, int* order) {
    cuda::atomic_ref<unsigned, cuda::thread_scope_device> sum(y[0]), most(y[1]), tries(y[2]);
    static_assert(cuda::std::is_same<unsigned, decltype(sum.load())>::value, "");
    order[sum.fetch_add(1u, cuda::std::memory_order_relaxed)] = 1;
    most.fetch_max(threadIdx.x * 3);
    unsigned seen = tries.load(cuda::memory_order_relaxed);
    while (!tries.compare_exchange_weak(seen, seen + 2)) {}
}"""
    y, order = np.zeros(3, np.uint32), np.zeros(128, np.int32)
    simulate(source, y, order, grid=2, block=64)
    assert y.tolist() == [128, 189, 256] and order.all()


@pytest.mark.parametrize("block", [32, 100, 128, 256])
def test_block_reductions_and_scans(block):
    source = f"""#include <cub/cub.cuh>
struct Running {{
    int total;
    __device__ int operator()(int all) {{ int before = total; total += all; return before; }}
}};
extern "C" __global__ void kernel(const int* x, const float* z, int* y, float* most, int n) {{
    typedef cub::BlockReduce<int, {block}> Reduce;
    typedef cub::BlockScan<int, {block}, cub::BLOCK_SCAN_WARP_SCANS> Scan;
    __shared__ typename Reduce::TempStorage temp;
    __shared__ union {{ Scan::TempStorage scan; }} also;
    int i = threadIdx.x, out, all;
    int sum = Reduce(temp).Sum(x[i]);
    __syncthreads();
    int some = Reduce(temp).Reduce(x[i], cub::Min(), n);
    float greatest = cub::BlockReduce<float, {block}>().Reduce(z[i], [] __device__ (float a, float b) {{
        return a > b ? a : b; }});
    if (i == 0) {{ y[0] = sum; y[1] = some; *most = greatest; }}
    Scan(also.scan).InclusiveSum(x[i], out);
    y[2 + i] = out; __syncthreads();
    Scan(also.scan).ExclusiveSum(x[i], out, all);
    y[2 + {block} + i] = out + all; __syncthreads();
    Scan(also.scan).InclusiveScan(x[i], out, cub::Max());
    y[2 + 2 * {block} + i] = out; __syncthreads();
    Scan(also.scan).ExclusiveScan(x[i], out, -7, cub::Max());
    y[2 + 3 * {block} + i] = out; __syncthreads();
    Running running = {{1000}};
    for (int j = 0; j < 2; j++) {{
        Scan(also.scan).ExclusiveSum(x[i], out, running);
        __syncthreads();
    }}
    y[2 + 4 * {block} + i] = out;
    int items[3] = {{x[i], 1, 2}};
    Scan(also.scan).ExclusiveSum(items, items);
    y[2 + 5 * {block} + i] = items[2];
}}"""
    random = np.random.Generator(np.random.PCG64(7))
    x, z = random.integers(-99, 99, block).astype(np.int32), random.random(block).astype(np.float32)
    y, most = np.zeros(2 + 6 * block, np.int32), np.zeros(1, np.float32)
    n = block - 9
    simulate(source, x, z, y, most, np.int32(n), block=block)
    assert y[0] == x.sum() and y[1] == x[:n].min() and most[0] == z.max()
    rows, up = y[2:].reshape(6, block), np.cumsum(x)
    assert (rows[0] == up).all() and (rows[1] == up - x + x.sum()).all()
    assert (rows[2] == np.maximum.accumulate(x)).all()
    assert (rows[3] == np.maximum.accumulate(np.append(-7, x[:-1]))).all()
    assert (rows[4] == 1000 + x.sum() + up - x).all()
    assert (rows[5] == up + 3 * np.arange(block) + 1).all()


def test_warp_reductions_and_scans_and_block_copies():
    source = """#include <cub/block/block_load.cuh>
extern "C" __global__ void kernel(const int* x, int* y, int n) {
    typedef cub::WarpReduce<int, 8> Reduce;
    typedef cub::WarpScan<int> Scan;
    typedef cub::BlockLoad<int, 64, 4, cub::BLOCK_LOAD_TRANSPOSE> Load;
    typedef cub::BlockStore<int, 64, 4> Store;
    __shared__ Reduce::TempStorage temp[8];
    __shared__ Scan::TempStorage scan[2];
    __shared__ Load::TempStorage load;
    __shared__ Store::TempStorage store;
    int i = threadIdx.x, out, all;
    y[i] = Reduce(temp[i / 8]).Sum(x[i]);
    Scan(scan[i / 32]).ExclusiveSum(x[i], out, all);
    y[64 + i] = out; y[128 + i] = all;
    y[192 + i] = Reduce(temp[i / 8]).Reduce(x[i], cub::Max(), 5);
    int items[4];
    Load(load).Load(x, items, n, -1);
    for (int j = 0; j < 4; j++) items[j] *= 2;
    Store(store).Store(y + 256, items);
}"""
    x = np.random.Generator(np.random.PCG64(8)).integers(-99, 99, 256).astype(np.int32)
    y = np.zeros(512, np.int32)
    simulate(source, x, y, np.int32(250), block=64)
    first = x[:64]
    assert (y[:64:8] == first.reshape(8, 8).sum(1)).all()
    assert (y[192:256:8] == first.reshape(8, 8)[:, :5].max(1)).all()
    warps = first.reshape(2, 32)
    assert (y[64:128].reshape(2, 32) == np.cumsum(warps, axis=1) - warps).all()
    assert (y[128:192].reshape(2, 32) == warps.sum(1)[:, None]).all()
    assert (y[256:506] == 2 * x[:250]).all() and (y[506:] == -2).all()


def _philox(counter: tuple[int, ...], key: tuple[int, int]) -> list[int]:
    """Ten rounds of Philox4x32, as its authors publish it."""
    (a, b, c, d), (k, m), word = counter, key, 0xFFFFFFFF
    for _ in range(10):
        even, odd = 0xD2511F53 * a, 0xCD9E8D57 * c
        a, b, c, d = odd >> 32 ^ b ^ k, odd & word, even >> 32 ^ d ^ m, even & word
        k, m = (k + 0x9E3779B9) & word, (m + 0xBB67AE85) & word
    return [a, b, c, d]


def test_philox_is_the_published_one():
    assert _philox((0, 0, 0, 0), (0, 0)) == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    source = """#include <curand_kernel.h>
extern "C" __global__ void kernel(unsigned* y, float* u, float* v, double* d, unsigned long long seed) {
    int i = threadIdx.x;
    curandStatePhilox4_32_10_t state, later;
    curand_init(seed, i, 0, &state);
    for (int j = 0; j < 6; j++) y[i * 16 + j] = curand(&state);
    uint4 four = curand4(&state);
    y[i * 16 + 6] = four.x; y[i * 16 + 7] = four.y; y[i * 16 + 8] = four.z; y[i * 16 + 9] = four.w;
    curand_init(seed, i, 7, &later);
    y[i * 16 + 10] = curand(&later);
    skipahead(5, &later);
    y[i * 16 + 11] = curand(&later);
    u[i] = curand_uniform(&later);
    v[2 * i] = curand_normal(&state); v[2 * i + 1] = curand_normal(&state);
    d[i] = curand_uniform_double(&state);
}"""
    seed = 0x123456789ABCDEF
    y, u = np.zeros((32, 16), np.uint32), np.zeros(32, np.float32)
    v, d = np.zeros((32, 2), np.float32), np.zeros(32)
    simulate(source, y, u, v, d, np.uint64(seed))
    for i in range(32):
        whole = [w for c in range(5) for w in _philox((c, 0, i, 0), (seed & 0xFFFFFFFF, seed >> 32))]
        assert y[i, :12].tolist() == [*whole[:10], whole[7], whole[13]]
        assert u[i] == np.float32(whole[14] * 2.0**-32 + 2.0**-33)
        size = np.sqrt(-2 * np.log(whole[10] * 2.0**-32))
        angle = 2 * np.pi * whole[11] * 2.0**-32
        assert np.allclose(v[i], [size * np.sin(angle), size * np.cos(angle)], atol=1e-5)
        assert d[i] == (whole[12] ^ whole[13] << 21) * 2.0**-53 + 2.0**-54


def test_a_state_that_is_kept_and_its_distributions():
    source = """#include <curand_kernel.h>
extern "C" __global__ void start(curandState* states, unsigned long long seed) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curand_init(seed, i, 0, &states[i]);
}
extern "C" __global__ void kernel(curandState* states, float* u, float* v, float* p) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    curandState local = states[i];
    for (int j = 0; j < 16; j++) {
        u[i * 16 + j] = curand_uniform(&local);
        v[i * 16 + j] = curand_normal(&local);
        p[i * 16 + j] = curand_poisson(&local, 3.0);
    }
    states[i] = local;
}"""
    states = np.zeros(256 * 16, np.uint32)
    drawn = []
    simulate(source, states, np.uint64(5), grid=4, block=64, name="start")
    for _ in range(2):
        u, v, p = np.zeros((3, 256 * 16), np.float32)
        simulate(source, states, u, v, p, grid=4, block=64, name="kernel")
        drawn.append(u)
        assert u.min() > 0 and u.max() <= 1 and len(np.unique(u)) > 4050
        assert abs(u.mean() - 0.5) < 0.02 and abs(u.std() - 12**-0.5) < 0.01
        assert abs(v.mean()) < 0.06 and abs(v.std() - 1) < 0.05
        assert abs(p.mean() - 3) < 0.12 and abs(p.var() - 3) < 0.3
    assert not np.isin(drawn[0], drawn[1]).mean() > 0.01


def test_a_grid_that_waits_for_itself():
    source = f"""{GROUPS}
extern "C" __global__ void kernel(const int* x, int* sums, int* y, int waits) {{
    __shared__ int s[64];
    cg::grid_group grid = cg::this_grid();
    s[threadIdx.x] = x[grid.thread_rank()];
    __syncthreads();
    if (threadIdx.x == 0) {{
        int sum = 0;
        for (int i = 0; i < 64; i++) sum += s[i];
        sums[blockIdx.x] = sum;
    }}
    if (waits) grid.sync();
    int all = 0;
    for (int b = 0; b < gridDim.x; b++) all += sums[b];
    if (waits) cg::sync(grid);
    if (threadIdx.x == 0) sums[blockIdx.x] = all;
    y[grid.thread_rank()] = all - s[63 - threadIdx.x];
}}"""
    x = np.random.Generator(np.random.PCG64(9)).integers(-99, 99, 640).astype(np.int32)
    sums, y = np.zeros(10, np.int32), np.zeros(640, np.int32)
    simulate(source, x, sums, y, np.int32(1), grid=10, block=64)
    assert (sums == x.sum()).all()
    assert (y.reshape(10, 64) == x.sum() - x.reshape(10, 64)[:, ::-1]).all()
    with pytest.raises(HazardError, match="race"):
        simulate(source, x, sums, y, np.int32(0), grid=10, block=64)
    with pytest.raises(LessonError, match="waits for the whole grid, which has 129 blocks"):
        simulate(source, x, sums, y, np.int32(1), grid=129, block=64)


def test_a_block_sorts_and_exchanges():
    source = """#include <cub/block/block_radix_sort.cuh>
extern "C" __global__ void kernel(const int* x, int* y) {
    typedef cub::BlockRadixSort<int, 64, 4, int> Sort;
    typedef cub::BlockExchange<int, 64, 4> Exchange;
    __shared__ Sort::TempStorage sort;
    __shared__ Exchange::TempStorage exchange;
    int keys[4], values[4];
    cub::LoadDirectStriped<64>(threadIdx.x, x, keys);
    Exchange(exchange).StripedToBlocked(keys);
    for (int i = 0; i < 4; i++) values[i] = threadIdx.x * 4 + i;
    Sort(sort).Sort(keys, values);
    cub::StoreDirectBlocked(threadIdx.x, y, keys);
    cub::StoreDirectBlocked(threadIdx.x, y + 256, values);
}"""
    x = np.random.Generator(np.random.PCG64(10)).integers(-20, 20, 256).astype(np.int32)
    y = np.zeros((2, 256), np.int32)
    simulate(source, x, y, block=64)
    assert (y[0] == np.sort(x)).all() and (y[1] == np.argsort(x, kind="stable")).all()


def test_complex_numbers():
    source = """#include <cuComplex.h>
#include <math_constants.h>
extern "C" __global__ void kernel(const float* x, float* y) {
    const cuFloatComplex *z = (const cuFloatComplex *)x;
    cuFloatComplex a = z[threadIdx.x], b = z[(threadIdx.x + 1) % 32];
    cuFloatComplex *out = (cuFloatComplex *)y + threadIdx.x * 4;
    out[0] = cuCmulf(a, b); out[1] = cuCdivf(a, b);
    out[2] = cuCfmaf(a, cuConjf(b), make_cuComplex(1.0f, -1.0f));
    out[3] = make_cuFloatComplex(cuCabsf(a), cuCrealf(cuCsubf(a, b)));
}"""
    random = np.random.Generator(np.random.PCG64(11))
    a = (random.random(32) + 1 + 1j * random.random(32)).astype(np.complex64)
    y = np.zeros((32, 4), np.complex64)
    simulate(source, a.view(np.float32), y.view(np.float32))
    b = np.roll(a, -1)
    expected = [a * b, a / b, a * b.conj() + (1 - 1j), abs(a) + 1j * (a - b).real]
    assert np.allclose(y, np.stack(expected, axis=1), rtol=1e-5, atol=1e-6)
