"""Instructions that need other lanes, atomics, and loads and stores of every width, against NumPy."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.simulator.kernels import on_threads, simulate

from .edges import F32, S32, U32, U64
from .table import C_TYPES, Array

LANES = np.arange(32)
VALUES = np.resize(S32, 32)


def _source(form: str, by: Array, width: int) -> Array:
    """The lane from which each lane takes its value; its own where the one named lies outside."""
    first = LANES // width * width
    if form == "idx":
        return first + by % width
    other = {"up": LANES - by, "down": LANES + by, "xor": LANES ^ by}[form]
    inside = {"up": other >= first, "down": other < first + width, "xor": other < first + width}[form]
    return np.where(inside, other, LANES)


@pytest.mark.parametrize("form", ["idx", "up", "down", "xor"])
@pytest.mark.parametrize("width", [32, 16, 8, 2, 1])
def test_shuffles(form, width):
    name = "__shfl_sync" if form == "idx" else f"__shfl_{form}_sync"
    for amount in (0, 1, 3, 8, 16, 31):
        out = np.zeros(32, np.int32)
        source = on_threads(f"y[i] = {name}(0xffffffff, x[i], by, {width});", "const int* x, int* y, int by")
        simulate(source, VALUES, out, np.int32(amount))
        assert np.array_equal(out, VALUES[_source(form, np.full(32, amount), width)]), amount


def test_shuffles_among_some_lanes():
    out = np.zeros(32, np.int32)
    source = on_threads(
        "if (i % 4 == 1) y[i] = __shfl_xor_sync(0x22222222, x[i], 4);", "const int* x, int* y"
    )
    simulate(source, VALUES, out)
    assert np.array_equal(out, np.where(LANES % 4 == 1, VALUES[LANES ^ 4], 0))


@pytest.mark.parametrize("threshold", [-1, 0, 5, 31, 32])
@pytest.mark.parametrize("mask", [0xFFFFFFFF, 0x0F0F0F0F, 0x80000000, 1])
def test_votes(threshold, mask):
    source = on_threads(
        "if (mask >> i & 1) { int p = i < least;"
        " y[i] = __ballot_sync(mask, p); z[i] = __any_sync(mask, p) + 2 * __all_sync(mask, p); }",
        "unsigned* y, int* z, unsigned mask, int least",
    )
    y, z = np.zeros(32, np.uint32), np.zeros(32, np.int32)
    simulate(source, y, z, np.uint32(mask), np.int32(threshold))
    named = (mask >> LANES & 1).astype(bool)
    on = named & (threshold > LANES)
    assert np.array_equal(y, np.where(named, (on.astype(np.uint64) << LANES.astype(np.uint64)).sum(), 0))
    said = int(on.any()) + 2 * int(on[named].all())
    assert np.array_equal(z, np.where(named, said, 0))


@pytest.mark.parametrize(
    ("op", "dtype"),
    [
        *((op, dtype) for op in ("add", "min", "max") for dtype in ("int32", "uint32")),
        *((op, "uint32") for op in ("and", "or", "xor")),
    ],
)
def test_reductions_of_a_warp(op, dtype):
    x = VALUES.view(dtype) | np.array(8, dtype)  # a bit that all have
    y = np.zeros(32, dtype)
    kind = C_TYPES[dtype]
    simulate(on_threads(f"y[i] = __reduce_{op}_sync(0xffffffff, x[i]);", f"const {kind}* x, {kind}* y"), x, y)
    bits = {"and": np.bitwise_and.reduce, "or": np.bitwise_or.reduce, "xor": np.bitwise_xor.reduce}
    whole = int(bits[op](x)) if op in bits else {"add": sum, "min": min, "max": max}[op](map(int, x))
    assert set(y) == {np.array(whole % 2**32, np.uint32).view(dtype)[()]}


def _int(function: Callable[[int, int], int]) -> Callable[[int, int, str], int]:
    def stepped(old: int, v: int, dtype: str) -> int:
        bits = 8 * np.dtype(dtype).itemsize
        return int(np.array(function(old, v) % 2**bits, f"u{bits // 8}").view(dtype)[()])

    return stepped


ATOMICS: dict[str, tuple[tuple[str, ...], Callable[[int, int, str], int]]] = {
    "atomicAdd(p, v)": (("int32", "uint32", "uint64"), _int(lambda old, v: old + v)),
    "atomicSub(p, v)": (("int32", "uint32"), _int(lambda old, v: old - v)),
    "atomicMin(p, v)": (("int32", "uint32"), _int(min)),
    "atomicMax(p, v)": (("int32", "uint32"), _int(max)),
    "atomicExch(p, v)": (("int32", "uint32", "uint64"), _int(lambda _, v: v)),
    "atomicAnd(p, v)": (("int32", "uint32"), _int(int.__and__)),
    "atomicOr(p, v)": (("int32", "uint32"), _int(int.__or__)),
    "atomicXor(p, v)": (("int32", "uint32"), _int(int.__xor__)),
    "atomicInc(p, v)": (("uint32",), _int(lambda old, v: 0 if old >= v else old + 1)),
    "atomicDec(p, v)": (("uint32",), _int(lambda old, v: v if old == 0 or old > v else old - 1)),
    "atomicCAS(p, 5, v)": (("int32", "uint32", "uint64"), _int(lambda old, v: v if old == 5 else old)),
}


@pytest.mark.parametrize(
    ("call", "dtype"), [(call, dtype) for call, (dtypes, _) in ATOMICS.items() for dtype in dtypes]
)
@pytest.mark.parametrize("where", ["global", "shared"])
def test_atomics_return_what_was_there_and_wrap(call, dtype, where):
    edge = {"int32": S32, "uint32": U32, "uint64": U64}[dtype]
    x = np.resize(edge, 32)
    y, before = np.array([5], dtype), np.zeros(32, dtype)
    kind = C_TYPES[dtype]
    body = f"{kind}* p = y; {kind} v = x[i]; old[i] = {call};"
    if where == "shared":
        body = (
            f"__shared__ {kind} s; if (i == 0) s = y[0]; __syncthreads(); {kind}* p = &s; {kind} v = x[i];"
            f" old[i] = {call}; __syncthreads(); if (i == 0) y[0] = s;"
        )
    simulate(on_threads(body, f"const {kind}* x, {kind}* y, {kind}* old"), x, y, before)
    # Any order is legal: the values returned and the last one must be those of one order, here by lanes.
    now, expected = 5, []
    for v in x:
        expected.append(now)
        now = ATOMICS[call][1](now, int(v), dtype)
    assert before.tolist() == expected and int(y[0]) == now


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_atomic_sums_of_floats(dtype):
    x = (np.arange(64) * 0.25 - 3).astype(dtype)
    y, kind = np.zeros(1, dtype), C_TYPES[dtype]
    simulate(on_threads("atomicAdd(y, x[i]);", f"const {kind}* x, {kind}* y"), x, y, block=64)
    assert y[0] == x.sum()


WIDTHS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float32", "float64"]


@pytest.mark.parametrize("dtype", WIDTHS)
@pytest.mark.parametrize("where", ["global", "shared", "local"])
def test_loads_and_stores_keep_every_bit(dtype, where):
    bits = np.resize(F32.view(np.uint8), 32 * np.dtype(dtype).itemsize)
    x, kind = bits.view(dtype), C_TYPES[dtype]
    y = np.zeros(32, dtype)
    wide = np.zeros(32, "int64" if x.dtype.kind in "iu" else dtype)
    body = {
        "global": "y[i] = x[i];",
        "shared": f"__shared__ {kind} s[32]; s[31 - i] = x[i]; __syncthreads(); y[i] = s[31 - i];",
        "local": f"{kind} a[4]; for (int k = 0; k < 4; ++k) a[k] = x[(i + k) % 32]; y[i] = a[(i * n) % 4];",
    }[where]
    source = on_threads(
        body + " z[i] = x[i];", f"const {kind}* x, {kind}* y, {C_TYPES[wide.dtype.name]}* z, int n"
    )
    simulate(source, x, y, wide, np.int32(4))
    assert y.tobytes() == x.tobytes()
    np.testing.assert_array_equal(wide, x.astype(wide.dtype))


@pytest.mark.parametrize(
    ("ctype", "dtype", "width"),
    [
        ("float2", "float32", 2),
        ("float4", "float32", 4),
        ("int4", "int32", 4),
        ("uint2", "uint32", 2),
        ("double2", "float64", 2),
        ("longlong2", "int64", 2),
        ("short4", "int16", 4),
        ("uchar4", "uint8", 4),
        ("char2", "int8", 2),
    ],
)
@pytest.mark.parametrize("where", ["global", "shared"])
def test_vectors_keep_every_bit(ctype, dtype, width, where):
    x = np.resize(F32.view(np.uint8), 32 * width * np.dtype(dtype).itemsize).view(dtype)
    y = np.zeros_like(x)
    body = "y[i] = x[i];"
    if where == "shared":
        body = f"__shared__ {ctype} s[32]; s[31 - i] = x[i]; __syncthreads(); y[i] = s[31 - i];"
    run = simulate(on_threads(body, f"const {ctype}* x, {ctype}* y"), x, y)
    assert y.tobytes() == x.tobytes()
    assert run.counts.global_load.requests == run.counts.global_store.requests == 1
    assert run.counts.global_load.useful_bytes == x.nbytes
