"""Values that nobody made are a hazard where they are used, not where they are read."""

import numpy as np
import pytest

from tests.simulator.kernels import meets, on_threads, simulate
from tilewise import Kernel
from tilewise.simulator import HazardError, Run

HALF_A_TILE = "__shared__ {kind} s[64]; if (i < 20) s[i] = i;\n__syncthreads();\n"


def _floats(count: int = 64) -> np.ndarray:
    return np.zeros(count, np.float32)


def _fails(source: str, *arguments: object, block: int = 32, **options: object) -> HazardError:
    with pytest.raises(HazardError) as caught:
        simulate(source, *arguments, block=block, **options)
    return caught.value


def test_a_word_that_is_read_and_not_used_is_no_hazard():
    source = on_threads(
        HALF_A_TILE.format(kind="float") + "float v = s[i] * 2 + 1;\nif (i < n) y[i] = v;", "float* y, int n"
    )
    y = _floats()
    assert simulate(source, y, np.int32(20)).hazards == ()
    assert np.array_equal(y[:21], [*(2 * np.arange(20) + 1), 0])


@pytest.mark.parametrize(
    ("use", "where"),
    [
        ("if (i < n) y[i] = v;", "a store at line 6 (`if (i < n) y[i] = v;`)"),
        ("if (i < n) y[v & 31] = 1;", "an address at line 6"),
        ("if (i < n && v > 3) y[i] = 1;", "a branch at line 6"),
        ("if (i < n) atomicAdd(y + 1, v);", "an atomic at line 6"),
        ("if (i < n) y[i] = i == 20 ? sqrtf(abs(v)) : 1;", "a store at line 6"),
        ('if (i < n) printf("%d", v);', "printf or a copy at line 6"),
        ("y[i] = __any_sync(0xffffffff, i < n ? v > 3 : 0) ? 1 : 2;", "a store of thread 0 at line 6"),
        ("y[i] = __ballot_sync(0xffffffff, i < n ? v > 3 : 0);", "a store"),
        ("y[i] = __reduce_add_sync(0xffffffff, i < n ? v : 0);", "a store"),
        ("if (i == 0) y[i] = __shfl_sync(1, v, 0);", ""),
        ("v = __shfl_sync(0xffffffff, v, n - 1); if (i == 0) y[i] = v;", "a store of thread 0 at line 6"),
    ],
)
def test_where_a_value_is_used_it_is_one(use, where):
    source = on_threads(HALF_A_TILE.format(kind="int") + f"int v = s[i];\n{use}", "float* y, int n")
    assert simulate(source, _floats(), np.int32(20)).hazards == ()
    if not where:
        assert simulate(source, _floats(), np.int32(21)).hazards == ()
        return
    error = _fails(source, _floats(), np.int32(21))
    assert (error.hazard.kind, error.hazard.line) == ("uninitialised", 5)
    assert f"thread 20 of block 0 reads s[20], which nobody wrote; the value reaches {where}" in str(
        error.hazard
    )


def test_a_choice_is_made_of_what_is_chosen():
    source = on_threads(
        HALF_A_TILE.format(kind="float") + "float v = s[i], w = i < n ? v : -1.0f;\ny[i] = fmaxf(w, 0.0f);",
        "float* y, int n",
    )
    y = _floats()
    assert simulate(source, y, np.int32(20)).hazards == ()
    assert np.array_equal(y[:32], [*range(20), *[0] * 12])
    assert "s[20]" in str(_fails(source, _floats(), np.int32(21)))


def test_it_travels_through_local_memory():
    source = on_threads(
        "__shared__ float s[32]; if (i < 3) s[i] = i + 1;\n__syncthreads(); float a[4];\n"
        "for (int k = 0; k < 4; ++k) a[k] = s[k + i % 2];\ny[i] = a[n] + a[0];",
        "float* y, int n",
    )
    y = _floats()
    assert simulate(source, y, np.int32(1)).hazards == ()
    assert np.array_equal(y[:2], [3, 5])
    assert "thread 1 of block 0 reads s[3]" in str(_fails(source, _floats(), np.int32(2)))


def test_vectors_and_halves_are_followed_by_their_parts():
    source = on_threads(
        "__shared__ __align__(16) float s[128]; s[4 * i] = i; s[4 * i + 1] = 2 * i; s[4 * i + n] = 5;\n"
        "__syncthreads();\nfloat4 v = *(float4*)(s + 4 * i); y[i] = v.x + v.y + v.z;",
        "float* y, int n",
    )
    y = _floats()
    assert simulate(source, y, np.int32(2)).hazards == ()
    assert np.array_equal(y[:32], 3 * np.arange(32) + 5)
    assert "s[2]" in str(_fails(source, _floats(), np.int32(3)))


WMMA = """
#include <mma.h>
using namespace nvcuda;
extern "C" __global__ void product(const half* x, float* y, int rows) {
    __shared__ __align__(32) half a[256], b[256];
    __shared__ __align__(32) float c[256];
    for (int k = threadIdx.x; k < 256; k += 32) {
        b[k] = x[k];
        if (k / 16 < rows) a[k] = x[256 + k];
    }
    __syncwarp();
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    wmma::load_matrix_sync(fa, a, 16);
    wmma::load_matrix_sync(fb, b, 16);
    wmma::mma_sync(fc, fa, fb, fc);
    for (int k = 0; k < fc.num_elements; ++k) {
        int row = threadIdx.x / 4 + 8 * (k / 2 % 2), col = threadIdx.x % 4 * 2 + k % 2 + 8 * (k / 4);
        if (row < 5) y[row * 16 + col] = fc.x[k];
    }
}
"""


def test_rows_of_a_product_are_followed_apart():
    x = np.random.default_rng(1).standard_normal((2, 16, 16)).astype(np.float16)
    y = _floats(256)
    product = Kernel(WMMA)
    product.simulate(x, y, 5, grid=1, block=32)
    truth = x[1].astype(np.float32) @ x[0].astype(np.float32)
    assert np.allclose(y.reshape(16, 16)[:5], truth[:5], atol=1e-2)
    with pytest.raises(HazardError, match=r"reads a\[\d+\], which nobody wrote; the value reaches a store"):
        product.simulate(x, y, 4, grid=1, block=32)


WARP_SUM = on_threads(
    "float v = x[i];\nif (i >= n) return;\n"
    "for (int d = 16; d; d /= 2)\nv += __shfl_down_sync(0xffffffff, v, d);\nif (i == 0) y[0] = v;",
    "const float* x, float* y, int n",
)


def test_an_absent_source_lane_is_named_where_its_value_counts():
    x, y = np.arange(32, dtype=np.float32), _floats(1)
    assert simulate(WARP_SUM, x, y, np.int32(32)).hazards == ()
    assert y[0] == x.sum()
    error = _fails(WARP_SUM, x, y, np.int32(20))
    assert (error.hazard.kind, error.hazard.line) == ("shuffle", 6)
    assert "thread 4 of block 0 takes a value from lane 20, which has exited" in str(error)
    assert "the value reaches a store of thread 0 at line 7" in str(error.hazard)
    assert simulate(WARP_SUM.replace("i == 0", "n < 0"), x, y, np.int32(20)).hazards == ()


def test_a_lane_that_the_mask_names_and_that_does_not_come():
    source = on_threads(
        "int v = i;\nif (i < 16) v = __shfl_xor_sync(0xffffffff, v, 1);\ny[i] = v;", "float* y"
    )
    assert "names lane 16 in the mask 0xffffffff, and that lane does not come here" in str(
        _fails(source, _floats())
    )
    source = on_threads("int v = i;\nv = __shfl_xor_sync(0xffff, v, 1);\ny[i] = v;", "float* y")
    assert "thread 16 of block 0, lane 16, is not named in the mask 0x0000ffff" in str(
        _fails(source, _floats())
    )


def test_a_launch_may_pass_over_them():
    kernel = Kernel(
        on_threads(HALF_A_TILE.format(kind="float") + "y[i] = s[i];", "float* y").replace("kernel(", "loose(")
    )
    y = _floats(32)
    with pytest.raises(HazardError):
        kernel.simulate(y, grid=1, block=32)
    assert kernel.simulate(y, grid=1, block=32, ignore=("uninitialised",)).hazards == ()
    assert np.array_equal(y[:20], np.arange(20))
    with pytest.raises(ValueError, match="it can have uninitialised, race, shuffle"):
        kernel.simulate(y, grid=1, block=32, ignore=("barrier",))
    with pytest.raises(ValueError, match="ignore is 'race'"):
        kernel.simulate(y, grid=1, block=32, ignore="race")


def test_an_address_of_null_says_so():
    source = (
        'extern "C" __global__ void kernel(const float* x, const float* bias, float* y) {\n'
        "int i = threadIdx.x;\n"
    )
    wrong = Kernel(source + "float b = bias[i];\ny[i] = x[i] + (bias ? b : 0.0f); }")
    right = Kernel(source + "float b = 0.0f;\nif (bias) b = bias[i];\ny[i] = x[i] + b; }")
    x, bias, y = np.arange(32, dtype=np.float32), np.full(32, 0.5, np.float32), _floats(32)
    for given, added in ((bias, 0.5), (None, 0.0)):
        assert right.simulate(x, given, y, grid=1, block=32).hazards == ()
        assert np.array_equal(y, x + added)
    wrong.simulate(x, bias, y, grid=1, block=32)
    assert np.array_equal(y, x + 0.5)
    with meets("null", 3, "reads byte 0 from a null pointer, and bias was passed as None"):
        wrong.simulate(x, None, y, grid=1, block=32)


def test_a_test_of_a_pointer_behind_its_use_stays():
    kernel = Kernel(
        'extern "C" __global__ void late(const float* x, float* y) {\n'
        "float v = threadIdx.x < 16 ? x[threadIdx.x] : 0.0f;\n"
        "if (x == nullptr) v = -1.0f;\ny[threadIdx.x] = v; }"
    )
    y = _floats(32)
    with pytest.raises(HazardError, match="null"):
        kernel.simulate(None, y, grid=1, block=32)


def _twice(x: np.ndarray, y: np.ndarray) -> Run:
    kernel = Kernel(
        'extern "C" __global__ void twice(const float4* x, float4* y) {\n'
        "float4 v = x[threadIdx.x];\nv.x *= 2; v.y *= 2; v.z *= 2; v.w *= 2;\ny[threadIdx.x] = v; }"
    )
    return kernel.simulate(x, y, grid=1, block=8)


def test_a_view_begins_where_it_begins():
    x, y = np.arange(64, dtype=np.float32), _floats(32)
    for first in (0, 4, 8):
        _twice(x[first : first + 32], y)
        assert np.array_equal(y, 2 * x[first : first + 32])
    with meets("misaligned", 2, "x was passed as a part of an array, 4 bytes past a multiple of 16"):
        _twice(x[1:33], y)
    with pytest.raises(HazardError, match=r"writes 16 bytes .* y was passed as a part"):
        _twice(x[:32], np.zeros(64, np.float32)[2:34])


def test_a_step_back_to_an_aligned_address_is_aligned():
    kernel = Kernel(
        'extern "C" __global__ void back(const float* x, float4* y) {\n'
        "y[threadIdx.x] = *(const float4*)(x - 1 + 4 * (threadIdx.x + 1)); }"
    )
    x, y = np.arange(64, dtype=np.float32), _floats(16)
    kernel.simulate(x[1:], y, grid=1, block=4)
    assert np.array_equal(y, x[4:20])


def test_warps_may_meet_at_different_places():
    source = on_threads(
        "__shared__ int s[64]; s[i] = i;\nif (i < 32) {\n__syncthreads(); y[i] = s[i + 32];\n} else {\n"
        "__syncthreads(); y[i] = s[i - 32]; }",
        "float* y",
    )
    y = _floats()
    assert simulate(source, y, block=64).hazards == ()
    assert np.array_equal(y, np.roll(np.arange(64), 32))
    error = _fails(source.replace("i < 32", "i < 40").replace("[i + 32]", "[0]"), y, block=64)
    assert error.hazard.kind == "barrier" and "thread 40 of the same warp at line 7" in str(error.hazard)


WARP_SYNCHRONOUS = """\
extern "C" __global__ void reduce(const float* x, float* y) {
    __shared__ float s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    volatile float* v = s;
    if (t < 32) {
        v[t] += v[t + 32]; SYNC
        for (int h = 16; h > 0; h /= 2) {
            if (t < h)
                v[t] += v[t + h];
            SYNC
        }
    }
    if (t == 0) y[0] = s[0];
}
"""


def test_code_for_warps_in_lockstep_is_a_race():
    x, y = np.arange(64, dtype=np.float32), _floats(1)
    assert simulate(WARP_SYNCHRONOUS.replace("SYNC", "__syncwarp();"), x, y, block=64).hazards == ()
    assert y[0] == x.sum()
    error = _fails(WARP_SYNCHRONOUS.replace("SYNC", ""), x, y, block=64)
    assert (error.hazard.kind, error.hazard.line) == ("race", 11)
    assert "of its warp touched at line 8" in str(error.hazard) and "no __syncwarp" in str(error)
