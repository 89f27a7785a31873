"""wgmma: shapes, types, layouts in shared memory, registers, signs, and when its results may be touched."""

import re

import numpy as np
import pytest

from tests.simulator.hopper import DEVICE, OPTIONS, bf16, line_of, wgmma
from tests.simulator.kernels import meets
from tilewise.cuda.kernel_source import KernelError
from tilewise.cuda.tensor_map import tensor_map
from tilewise.kernel.kernel import Kernel
from tilewise.simulator import HazardError, Run
from tilewise.simulator.frontend import LessonError

SWIZZLE_NUMBER = {0: 0, 128: 1, 64: 2, 32: 3}


def image(rows: np.ndarray, turned: bool, swizzle: int) -> tuple[np.ndarray, int, int]:
    """A matrix of `rows x 32 bytes along K`, as wgmma finds it in shared memory; leading and stride offsets.

    Written from the PTX ISA's canonical layouts: 8 x 16-byte cores, which a swizzle spreads over rows of
    `swizzle` bytes. `turned` is the layout in which neighbours along the rows' own axis lie side by side.
    """
    raw = np.ascontiguousarray(rows).view(np.uint8).reshape(*rows.shape, rows.itemsize)
    count, k, size = raw.shape
    span = swizzle or 16
    if not turned:
        lead, stride = (128, 256) if not swizzle else (16, 8 * swizzle)
    else:
        lead, stride = (16 * count, 128) if not swizzle else (16 * swizzle, 8 * swizzle)
    out = np.zeros(64 * 1024, np.uint8)
    for row in range(count):
        for at in range(k):
            if not turned:
                byte = at * size
                place = (
                    row // 8 * stride + row % 8 * span + (byte if swizzle else byte // 16 * lead + byte % 16)
                )
            elif not swizzle:
                place = row // 8 * stride + at // 8 * lead + at % 8 * 16 + row % 8 * size
            else:
                chunk = swizzle // size
                place = row // chunk * lead + at // 8 * stride + at % 8 * span + row % chunk * size
            if swizzle:
                place ^= (place >> 7 & (swizzle // 16 - 1)) << 4
            out[place : place + size] = raw[row, at]
    return out, lead, stride


KERNEL = r"""
extern "C" __global__ void kernel(const uint4* a, const uint4* b, RESULT* c, int a_lead, int a_stride,
        int a_swizzle, int b_lead, int b_stride, int b_swizzle, int scale) {
    extern __shared__ __align__(1024) uint4 s[];
    for (int i = threadIdx.x; i < 4096; i += 128) { s[i] = a[i]; s[i + 4096] = b[i]; }
    fence_async();
    __syncthreads();
    RESULT d[COUNT];
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) d[i] = c[i * 128 + threadIdx.x];
    wgmma_fence();
    multiply(d, descriptor(s, a_lead, a_stride, a_swizzle),
        descriptor(s + 4096, b_lead, b_stride, b_swizzle), scale);
    wgmma_commit();
    wgmma_wait<0>();
    #pragma unroll
    for (int i = 0; i < COUNT; ++i) c[i * 128 + threadIdx.x] = d[i];
}
"""


def kernel_of(n: int, kind: str, k: int, results: str, immediates: str) -> Kernel:
    count = n // (4 if results == "f16" else 2)
    result = {"f32": "float", "f16": "unsigned", "s32": "int"}[results]
    device = wgmma(n, kind, k, results, immediates)
    if results == "s32":
        device = device.replace("unsigned", "int")
    return Kernel(DEVICE + device + KERNEL, defines={"COUNT": count, "RESULT": result}, options=OPTIONS)


def places(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Row and column of each thread's registers, ``(n / 2, 128)``."""
    register, thread = np.mgrid[: n // 2, :128]
    row = thread // 32 * 16 + thread % 32 // 4 + register // 2 % 2 * 8
    return row, register // 4 * 8 + thread % 4 * 2 + register % 2


def multiply(
    a: np.ndarray,
    b: np.ndarray,
    kind: str = "bf16",
    layouts: tuple[bool, int, bool, int] = (False, 128, False, 128),
    start: np.ndarray | None = None,
    scale: int = 1,
    signs: tuple[int, int] = (1, 1),
) -> np.ndarray:
    """A (64 x K) times the transpose of B (N x K) plus `start`, in float32."""
    n, k = b.shape
    turn_a, swizzle_a, turn_b, swizzle_b = layouts
    immediates = f"{signs[0]}, {signs[1]}, {int(turn_a)}, {int(turn_b)}"
    stored = {"bf16": bf16, "f16": np.float16, "tf32": np.float32}[kind]
    first, a_lead, a_stride = image(stored(a), turn_a, swizzle_a)
    second, b_lead, b_stride = image(stored(b), turn_b, swizzle_b)
    row, column = places(n)
    c = np.zeros((64, n), np.float32) if start is None else start
    held = np.ascontiguousarray(c[row, column])
    made = kernel_of(n, kind, k, "f32", immediates if kind != "tf32" else f"{signs[0]}, {signs[1]}")
    made.simulate(
        first.view(np.uint32), second.view(np.uint32), held.reshape(-1),
        a_lead, a_stride, SWIZZLE_NUMBER[swizzle_a], b_lead, b_stride, SWIZZLE_NUMBER[swizzle_b], scale,
        grid=1, block=128, shared_bytes=128 * 1024,
    )  # fmt: skip
    out = np.full((64, n), np.nan, np.float32)
    out[row, column] = held
    return out


def whole(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(-8, 9, shape).astype(np.float32)


@pytest.mark.parametrize("n", [8, 24, 64, 136, 256])
def test_any_number_of_columns(n):
    a, b = whole(64, 16), whole(n, 16, seed=1)
    assert np.array_equal(multiply(a, b), a @ b.T)


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
@pytest.mark.parametrize("turned", [False, True])
def test_layouts_of_both_operands(turned, swizzle):
    a, b = whole(64, 16), whole(128, 16, seed=1)
    assert np.array_equal(multiply(a, b, layouts=(turned, swizzle, False, 128)), a @ b.T)
    assert np.array_equal(multiply(a, b, layouts=(False, 64, turned, swizzle)), a @ b.T)


def test_signs_and_what_is_added_to():
    a, b, c = whole(64, 16), whole(16, 16, seed=1), whole(64, 16, seed=2)
    assert np.array_equal(multiply(a, b, start=c), c + a @ b.T)
    assert np.array_equal(multiply(a, b, start=c, scale=0), a @ b.T)
    assert np.array_equal(multiply(a, b, start=c, signs=(-1, 1)), c - a @ b.T)
    assert np.array_equal(multiply(a, b, start=c, signs=(1, -1)), c - a @ b.T)
    assert np.array_equal(multiply(a, b, start=c, signs=(-1, -1)), c + a @ b.T)


REGISTERS = r"""
extern "C" __global__ void kernel(const unsigned* a, const uint4* b, float* c, int lead, int stride) {
    __shared__ __align__(1024) uint4 s[512];
    for (int i = threadIdx.x; i < 512; i += 128) s[i] = b[i];
    fence_async();
    __syncthreads();
    unsigned f[4];
    #pragma unroll
    for (int i = 0; i < 4; ++i) f[i] = a[i * 128 + threadIdx.x];
    float d[8];
    wgmma_fence();
    asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7}, "
        "{%8, %9, %10, %11}, %12, 0, 1, 1, TURN;" : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]),
        "=f"(d[4]), "=f"(d[5]), "=f"(d[6]), "=f"(d[7]) : "r"(f[0]), "r"(f[1]), "r"(f[2]), "r"(f[3]),
        "l"(descriptor(s, lead, stride, 1)));
    wgmma_commit();
    wgmma_wait<0>();
    #pragma unroll
    for (int i = 0; i < 8; ++i) c[i * 128 + threadIdx.x] = d[i];
}
"""


@pytest.mark.parametrize("turned", [False, True])
def test_a_from_registers(turned):
    a, b = whole(64, 16), whole(16, 16, seed=1)
    register, thread = np.mgrid[:4, :128]
    row = thread // 32 * 16 + thread % 32 // 4 + register % 2 * 8
    column = thread % 4 * 2 + register // 2 * 8
    bits = bf16(a).astype(np.uint32)
    held = bits[row, column] | bits[row, column + 1] << 16
    second, lead, stride = image(bf16(b), turned, 128)
    c = np.zeros((8, 128), np.float32)
    made = Kernel(DEVICE + REGISTERS.replace("TURN", str(int(turned))), options=OPTIONS)
    made.simulate(
        held.reshape(-1), second.view(np.uint32)[:2048], c.reshape(-1), lead, stride, grid=1, block=128
    )
    where = places(16)
    assert np.array_equal(c, (a @ b.T)[where])


ORDER = (
    DEVICE
    + wgmma(8)
    + r"""
extern "C" __global__ void kernel(float* y) {
    __shared__ __align__(1024) unsigned s[2048];
    for (int i = threadIdx.x; i < 2048; i += 128) s[i] = 0x3f803f80;
    fence_async();
    __syncthreads();
    float d[4] = {1, 1, 1, 1};
    u64 m = descriptor(s, 16, 1024, 1);
    wgmma_fence();
    multiply(d, m, m, 1);
    multiply(d, m, m, 1);
    wgmma_commit();
    wgmma_wait<0>();
    y[threadIdx.x] = d[0];
    wgmma_fence();
    multiply(d, m, m, 1);
    wgmma_commit();
    wgmma_wait<0>();
    y[threadIdx.x + 128] = d[1];
    s[threadIdx.x] = 0;
}
"""
)


ONCE = "    multiply(d, m, m, 1);\n"
LAST = "    wgmma_wait<0>();\n    y[threadIdx.x + 128] = d[1];\n"


def order(source: str = ORDER, block: int = 128) -> np.ndarray:
    y = np.zeros(256, np.float32)
    Kernel(source, options=OPTIONS).simulate(y, grid=1, block=block)
    return y


def test_products_in_a_row():
    assert order().tolist() == [33.0] * 128 + [49.0] * 128


@pytest.mark.parametrize(
    ("find", "put", "number", "kind", "line_with", "at"),
    [
        ("    wgmma_wait<0>();\n", "", 0, "accumulator", "y[threadIdx.x] = d[0]", 0),
        ("    wgmma_wait<0>();\n", "", 1, "accumulator", "y[threadIdx.x + 128] = d[1]", 0),
        ("wgmma_wait<0>();", "wgmma_wait<1>();", 0, "accumulator", "y[threadIdx.x] = d[0]", 0),
        ("    wgmma_commit();\n", "", 0, "accumulator", "y[threadIdx.x] = d[0]", 0),
        ("    wgmma_fence();\n", "", 0, "accumulator", "multiply(d, m, m, 1);", 0),
        ("    wgmma_fence();\n", "", 1, "accumulator", "multiply(d, m, m, 1);", 2),
        ("    fence_async();\n", "", 0, "proxy", "multiply(d, m, m, 1);", 0),
        ("    __syncthreads();\n", "", 0, "race", "multiply(d, m, m, 1);", 0),
        ("    wgmma_commit();\n    wgmma_wait<0>();\n", "    d[2] += 1;\n", 0, "accumulator", "d[2] += 1", 0),
        (LAST, "", 0, "overwritten", "s[threadIdx.x] = 0", 0),
        (ONCE, ONCE.replace("    ", "    if (threadIdx.x < 96) "), 0, "deadlock", "multiply", 0),
        (ONCE, ONCE.replace("    ", "    if (threadIdx.x != 5) "), 0, "shuffle", "multiply", 0),
        ("descriptor(s, 16,", "descriptor(s + 32, 16,", 0, "misaligned", "multiply(d, m, m, 1);", 0),
        ("descriptor(s, 16,", "descriptor(s + 1536, 16,", 0, "out of bounds", "multiply(d, m, m, 1);", 0),
    ],
)  # fmt: skip
def test_planted_bugs_in_products(find, put, number, kind, line_with, at):
    start = ORDER.index("extern")
    found = [match.start() for match in re.finditer(re.escape(find), ORDER) if match.start() > start][number]
    source = ORDER[:found] + put + ORDER[found + len(find) :]
    body = source.index('extern "C"')
    lines = [line_of(source, line_with, which) for which in range(source.count(line_with))]
    first = source[:body].count("\n")
    with meets(kind, [line for line in lines if line >= first][at]):
        order(source)


def test_a_warpgroup_that_lacks_a_warp_is_named_with_its_warps():
    begin = ORDER.index("extern")
    with pytest.raises(HazardError) as caught:
        order(ORDER[:begin] + ORDER[begin:].replace(ONCE, f"    if (threadIdx.x < 96) {ONCE.strip()}\n", 1))
    assert "waits for its warpgroup, warps 0 to 3, and warp 3 never comes" in caught.value.message
    assert caught.value.repair.endswith("The number of a warpgroup's first warp is a multiple of 4.")


BOXED = """
#include "hopper.cuh"
extern "C" __global__ void kernel(const __grid_constant__ TensorMap map, float* y) {
    __shared__ __align__(1024) unsigned char s[16384];
    __shared__ u64 full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init_fence();
        mbarrier_arrive_expect_tx(&full, 16384);
        tma_load_2d(s, &map, 0, 0, &full);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    float acc[64];
    wgmma_fence();
    wgmma_m64n128k16(acc, descriptor(s, 16, 1024), descriptor(s, 16, 1024), 0);
    wgmma_commit();
    wgmma_wait<0>(acc);
    y[threadIdx.x] = acc[0];
}
"""


@pytest.mark.parametrize("swizzle", [0, 64, 128])
def test_a_descriptor_names_the_swizzle_of_the_tensor_map(swizzle):
    wide = 32 if swizzle == 64 else 64
    box = tensor_map(
        np.zeros((256, wide), np.uint16), box=(8192 // wide, wide), swizzle=swizzle, dtype="bfloat16"
    )
    kernel = Kernel(BOXED, options=OPTIONS)
    if swizzle == 128:
        assert kernel.simulate(box, np.zeros(128, np.float32), grid=1, block=128).hazards == ()
        return
    with pytest.raises(HazardError) as caught:
        kernel.simulate(box, np.zeros(128, np.float32), grid=1, block=128)
    brought = "a 64-byte swizzle" if swizzle else "no swizzle"
    assert "tensor map: thread 96 of block 0 has a wgmma read byte 0 of s" in caught.value.message
    assert "with a 128-byte swizzle, and the TMA load at line" in caught.value.message
    assert f"stored it with {brought}" in caught.value.message
    assert "the same swizzle in tensor_map" in caught.value.repair


def test_what_a_thread_has_rewritten_has_the_swizzle_that_it_says():
    box = tensor_map(np.zeros((128, 64), np.uint16), box=(128, 64), dtype="bfloat16")
    again = "for (int i = threadIdx.x; i < 4096; i += 128) ((unsigned*)s)[i] = 0; fence_proxy_async();"
    source = BOXED.replace("    float acc", f"    {again}\n    __syncthreads();\n    float acc")
    run = Kernel(source, options=OPTIONS).simulate(box, np.zeros(128, np.float32), grid=1, block=128)
    assert run.hazards == ()


REGISTERS_OF_GROUPS = """
extern "C" __global__ void __launch_bounds__(384, 1) kernel(float* y) {
    if (threadIdx.x < 128) { DEC }
    else asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    y[threadIdx.x] = 1;
}
"""


@pytest.mark.parametrize(
    "dec", ["", 'if (threadIdx.x < 32) asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");']
)
def test_registers_that_nobody_gave_back(dec):
    def run(text: str) -> Run:
        source = REGISTERS_OF_GROUPS.replace("DEC", text)
        return Kernel(source, options=OPTIONS).simulate(np.zeros(384, np.float32), grid=1, block=384)

    assert run('asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");').hazards == ()
    with pytest.raises(HazardError, match=r"deadlock: .* asks for registers") as caught:
        run(dec)
    assert "setmaxnreg.dec" in caught.value.repair


def test_sm_90a_has_to_be_named():
    with pytest.raises(KernelError, match="Compile it for sm_90a"):
        Kernel(ORDER, options=("-std=c++17",)).simulate(np.zeros(256, np.float32), grid=1, block=128)


def test_a_wgmma_that_did_not_wait_for_its_operands_is_told_of_bytes_and_descriptors():
    source = """
#include "hopper.cuh"
extern "C" __global__ void kernel(const __grid_constant__ TensorMap map, float* y) {
    __shared__ __align__(1024) unsigned char s[2][8192];
    __shared__ u64 full[2];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2; ++i) mbarrier_init(&full[i], 1);
        mbarrier_init_fence();
        for (int i = 0; i < 2; ++i) {
            mbarrier_arrive_expect_tx(&full[i], 8192);
            tma_load_2d(s[i], &map, 0, 0, &full[i]);
        }
    }
    __syncthreads();
    mbarrier_wait(&full[0], 0);
    float acc[64];
    wgmma_fence();
    wgmma_m64n128k16(acc, descriptor(s[0], 16, 1024), descriptor(s[0], 16, 1024), 0);  // 128 rows
    wgmma_commit();
    wgmma_wait<0>(acc);
    y[threadIdx.x] = acc[0];
    mbarrier_wait(&full[1], 0);
}
"""
    given = tensor_map(np.zeros((64, 64), np.uint16), box=(64, 64), swizzle=128, dtype="bfloat16")
    with pytest.raises(HazardError) as caught:
        Kernel(source, options=OPTIONS).simulate(given, np.zeros(128, np.float32), grid=1, block=128)
    assert "undelivered: thread 96 of block 0 reads byte 8192 of s," in caught.value.message
    assert "If these bytes belong to another tile, correct the descriptor." in caught.value.repair
    right = Kernel(
        source.replace(
            "mbarrier_wait(&full[0], 0);", "mbarrier_wait(&full[0], 0), mbarrier_wait(&full[1], 0);"
        ),
        options=OPTIONS,
    )
    assert right.simulate(given, np.zeros(128, np.float32), grid=1, block=128).hazards == ()


@pytest.mark.parametrize("shape", ["m64n12k16", "m64n264k16", "m64n8k8", "m32n8k16"])
def test_shapes_that_are_none(shape):
    source = ORDER.replace("m64n8k16", shape)
    with pytest.raises(LessonError, match="does not carry out"):
        order(source)
