"""mma.sync, ldmatrix and stmatrix against NumPy, and their fragments one element at a time."""

from typing import Any

import numpy as np
import pytest

from tests.simulator.kernels import meets, on_threads, simulate

Array = np.ndarray[Any, Any]
SHAPES = [
    ("f16", 8, "f32"), ("f16", 16, "f32"), ("f16", 8, "f16"), ("f16", 16, "f16"), ("bf16", 8, "f32"),
    ("bf16", 16, "f32"), ("tf32", 4, "f32"), ("tf32", 8, "f32"), ("s8", 16, "s32"), ("s8", 32, "s32"),
    ("u8", 32, "s32"),
]  # fmt: skip
PER = {"f16": 2, "bf16": 2, "tf32": 1, "s8": 4, "u8": 4}


def _names(first: int, count: int) -> str:
    return "{" + ", ".join(f"%{number}" for number in range(first, first + count)) + "}"


def _multiply(kind: str, k: int, result: str, a: Array, b: Array, c: Array, extra: str = "") -> Array:
    """One warp's mma on fragments, each an array of (32, registers) words."""
    widths = (c.shape[1], a.shape[1], b.shape[1], c.shape[1])
    starts = np.cumsum([0, *widths])
    d_text, a_text, b_text, c_text = (_names(s, w) for s, w in zip(starts, widths, strict=False))
    outs = ", ".join(f'"=r"(d[{n}])' for n in range(widths[0]))
    ins = ", ".join(
        f'"r"({name}_[i * {width} + {n}])'
        for name, width in zip("abc", widths[1:], strict=True)
        for n in range(width)
    )
    source = on_threads(
        f"unsigned d[{widths[0]}];\n"
        f'asm volatile("mma.sync.aligned.m16n8k{k}.row.col{extra}.{result}.{kind}.{kind}.{result} '
        f'{d_text}, {a_text}, {b_text}, {c_text};" : {outs} : {ins});\n'
        f"for (int n = 0; n < {widths[0]}; ++n) d_[i * {widths[0]} + n] = d[n];",
        "const unsigned* a_, const unsigned* b_, const unsigned* c_, unsigned* d_",
    )
    d = np.zeros_like(c)
    simulate(source, a, b, c, d)
    return d


def _words(values: Array, kind: str) -> Array:
    """Elements of a register's parts, last axis, as one word each."""
    if kind == "bf16":
        return np.ascontiguousarray((values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)).view(
            np.uint32
        )
    dtype = {"f16": np.float16, "tf32": np.float32, "f32": np.float32, "s32": np.int32}.get(kind)
    dtype = dtype or {"s8": np.int8, "u8": np.uint8}[kind]
    return np.ascontiguousarray(values.astype(dtype)).view(np.uint32)


def _place_a(lane: int, register: int, i: int, per: int) -> tuple[int, int]:
    """Row and column of an element of A, as the PTX ISA tabulates them."""
    group, number = lane >> 2, lane % 4
    return group + 8 * (register % 2), number * per + i + 4 * per * (register // 2)


def _fragments(kind: str, k: int, result: str, a: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
    per = PER[kind]
    lanes = range(32)
    fa = [
        [[a[_place_a(lane, r, i, per)] for i in range(per)] for r in range(k // (2 * per))] for lane in lanes
    ]
    fb = [
        [[b[lane % 4 * per + i + 4 * per * r, lane >> 2] for i in range(per)] for r in range(k // (4 * per))]
        for lane in lanes
    ]
    fc = [[c[(lane >> 2) + 8 * (i // 2), lane % 4 * 2 + i % 2] for i in range(4)] for lane in lanes]
    return (
        _words(np.array(fa), kind)[..., 0],
        _words(np.array(fb), kind)[..., 0],
        _words(np.array(fc), result),
    )


def _result(d: Array, result: str) -> Array:
    dtype = {"f16": np.float16, "f32": np.float32, "s32": np.int32}[result]
    values = d.view(dtype).reshape(32, 4)
    found = np.zeros((16, 8), dtype)
    for lane in range(32):
        for i in range(4):
            found[(lane >> 2) + 8 * (i // 2), lane % 4 * 2 + i % 2] = values[lane, i]
    return found


def _random(kind: str, shape: tuple[int, int], seed: int) -> Array:
    generator = np.random.default_rng(seed)
    if kind in ("s8", "u8", "s32"):
        low, high = {"s8": (-128, 128), "u8": (0, 256), "s32": (-1000, 1000)}[kind]
        return generator.integers(low, high, shape)
    values = generator.standard_normal(shape).astype(np.float32)
    if kind == "f16":
        return values.astype(np.float16).astype(np.float32)
    if kind in ("bf16", "tf32"):
        return (values.view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return values


@pytest.mark.parametrize(("kind", "k", "result"), SHAPES)
def test_products_of_random_matrices(kind, k, result):
    a, b, c = _random(kind, (16, k), 1), _random(kind, (k, 8), 2), _random(result, (16, 8), 3)
    found = _result(_multiply(kind, k, result, *_fragments(kind, k, result, a, b, c)), result)
    exact = a.astype(np.float64) @ b.astype(np.float64) + c
    if result == "s32":
        assert np.array_equal(found, exact)
    elif result == "f32":
        np.testing.assert_array_max_ulp(found, exact.astype(np.float32), maxulp=1)
    else:
        np.testing.assert_array_max_ulp(found, exact.astype(np.float16), maxulp=1)


def test_tf32_drops_the_lower_bits_of_the_multiplicands():
    a = np.full((16, 8), 1 + 2.0**-11, np.float32)
    b = np.full((8, 8), 1.0, np.float32)
    c = np.zeros((16, 8))
    assert (_result(_multiply("tf32", 8, "f32", *_fragments("tf32", 8, "f32", a, b, c)), "f32") == 8.0).all()


def test_mma_needs_the_whole_warp():
    text = (
        'unsigned d0, d1;\nif (i < 16) asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16'
        ' {%0, %1}, {%2, %2}, {%2}, {%2, %2};" : "=r"(d0), "=r"(d1) : "r"(0)); y[i] = d0;'
    )
    with meets("shuffle", 4):
        simulate(on_threads(text, "unsigned* y"), np.zeros(32, np.uint32))


def _load(count: int, trans: str) -> str:
    outs = ", ".join(f'"=r"(r[{n}])' for n in range(count))
    return on_threads(
        "__shared__ __align__(16) unsigned short s[256];\nfor (int k = i; k < 256; k += 32) s[k] = x[k];\n"
        "__syncthreads();\nunsigned p = __cvta_generic_to_shared(&s[8 * (i % " + str(8 * count) + ")]);\n"
        f"unsigned r[{count}];\n"
        f'asm volatile("ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {_names(0, count)}, '
        f'[%{count}];" : {outs} : "r"(p));\n'
        f"for (int n = 0; n < {count}; ++n) y[i * {count} + n] = r[n];",
        "const unsigned short* x, unsigned* y",
    )


@pytest.mark.parametrize("trans", ["", ".trans"])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix(count, trans):
    x = np.arange(256, dtype=np.uint16) * 7 + 3
    y = np.zeros((32, count), np.uint32)
    run = simulate(_load(count, trans), x, y)
    for m in range(count):
        matrix = x.reshape(-1, 8, 8)[m]
        matrix = matrix.T if trans else matrix
        expected = np.ascontiguousarray(matrix.reshape(32, 2)).view(np.uint32)[:, 0]
        assert np.array_equal(y[:, m], expected)
    line = run.lines[8].shared_load
    assert (line.requests, line.wavefronts, line.useful_bytes) == (1, count, 128 * count)


def test_ldmatrix_of_rows_in_one_bank_takes_eight_passes():
    source = (
        _load(1, "")
        .replace("s[256]", "s[1024]")
        .replace("k < 256", "k < 1024")
        .replace("8 * (i %", "64 * (i %")
    )
    run = simulate(source, np.zeros(1024, np.uint16), np.zeros(32, np.uint32))
    assert run.lines[8].shared_load.wavefronts == 8


@pytest.mark.parametrize("trans", ["", ".trans"])
def test_stmatrix_undoes_ldmatrix(trans):
    source = on_threads(
        "__shared__ __align__(16) unsigned short s[256], t[256];\n"
        "for (int k = i; k < 256; k += 32) s[k] = x[k];\n__syncthreads();\n"
        "unsigned p = __cvta_generic_to_shared(&s[8 * i]), q = __cvta_generic_to_shared(&t[8 * i]);\n"
        "unsigned a, b, c, d;\n"
        f'asm volatile("ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {_names(0, 4)}, [%4];"'
        ' : "=r"(a), "=r"(b), "=r"(c), "=r"(d) : "r"(p));\n'
        f'asm volatile("stmatrix.sync.aligned.m8n8.x4{trans}.shared::cta.b16 [%0], {_names(1, 4)};"'
        ' :: "r"(q), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");\n'
        "__syncthreads(); for (int k = i; k < 256; k += 32) y[k] = t[k];",
        "const unsigned short* x, unsigned short* y",
    )
    x, y = np.arange(256, dtype=np.uint16) * 11, np.zeros(256, np.uint16)
    run = simulate(source, x, y)
    assert np.array_equal(x, y)
    assert run.lines[9].shared_store.wavefronts == 4


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        (_load(1, "").replace("__syncthreads();", "if (i < 3) return;"), "shuffle"),
        (_load(4, "").replace("&s[8 * (i % 32)]", "&s[8 * i + 4]"), "misaligned"),
        (_load(4, "").replace("&s[8 * (i % 32)]", "&s[8 * i + 8]"), "out of bounds"),
        (_load(1, "").replace("k < 256", "k < 60"), "uninitialised"),
    ],
)
def test_wrong_ldmatrix(source, kind):
    with meets(kind, 8):
        simulate(source, np.zeros(256, np.uint16), np.zeros(128, np.uint32))
