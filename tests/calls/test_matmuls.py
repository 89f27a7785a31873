"""`kernels.matmul` on every size, layout and element type."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.calls.layouts import (
    FEW,
    KINDS,
    LAYOUTS,
    MANY,
    exact,
    extents,
    laid_out,
    named,
    step_of,
    stored,
    sweep,
)
from tilewise import kernels
from tilewise.cuda.kernel_source import KernelError
from tilewise.kernels.calls import matmul_choices, matmuls
from tilewise.kernels.calls.launching import Choice
from tilewise.kernels.calls.matmul_choices import FP32_TILES, MMA_TILES, WGMMA_TILES, choose
from tilewise.kernels.calls.matmuls import ACTIVATIONS

CASES = given(
    leading=st.sampled_from([((), ()), ((3,), (3,)), ((2, 1), (3,)), ((), (2, 2)), ((0,), (0,))]),
    m=extents(0, 150),
    n=extents(0, 150),
    k=extents(0, 100),
    layouts=st.tuples(st.sampled_from(LAYOUTS), st.sampled_from(LAYOUTS)),
    kind=st.sampled_from(KINDS),
    activation=st.sampled_from([None, *ACTIVATIONS]),
    with_bias=st.booleans(),
    seed=st.integers(0, 99),
)


def activated(x, name):
    if name == "relu":
        return np.maximum(x, 0)
    if name == "gelu":
        return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    return x / (1 + np.exp(-x)) if name == "silu" else x


def right_matmul(leading, m, n, k, layouts, kind, activation, with_bias, seed):
    random = np.random.default_rng(seed)
    a = stored(random.normal(size=(*leading[0], m, k)), kind)
    b = stored(random.normal(size=(*leading[1], k, n)), kind)
    bias = stored(random.normal(size=n), kind) if with_bias else None
    views = [laid_out(one, layout) for one, layout in zip((a, b), layouts, strict=True)]
    made = kernels.matmul(*views, bias, activation, **named(kind))
    wide = [exact(one, kind) for one in (a, b)]
    product = wide[0] @ wide[1] + (exact(bias, kind) if with_bias else 0.0)
    assert (made.shape, made.dtype) == (product.shape, a.dtype)
    room = 1e-6 * (np.abs(wide[0]) @ np.abs(wide[1])) + 2 * step_of(kind) * (np.abs(product) + 1.0)
    assert np.all(np.abs(exact(made, kind) - activated(product, activation)) <= 2 * room)


@FEW
@CASES
def test_a_product_is_that_of_64_bits(**case):
    right_matmul(**case)


@sweep("matmuls", texts=("matmul_*", "general/matmul*", "general/pad"))
@MANY
@CASES
def test_thousands_of_products(**case):
    right_matmul(**case)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("m", "n", "k"), [(260, 131, 65), (128, 520, 72), (5, 300, 1)])
@pytest.mark.parametrize("layouts", [("plain", "plain"), ("permuted", "offset"), ("padded", "permuted")])
def test_the_fast_kernels_on_sizes_that_no_tile_divides(m, n, k, layouts, kind):
    right_matmul(((), ()), m, n, k, layouts, kind, "relu", True, 1)


@pytest.mark.parametrize("tile", range(len(WGMMA_TILES)))
def test_every_tile_of_wgmma(monkeypatch, tile):
    one = WGMMA_TILES[tile]
    settings = {**one.settings, "SPLIT": one.splits[-1]}
    monkeypatch.setattr(
        matmul_choices, "_tiles", lambda *sizes: Choice("general/matmul_hopper", "", settings)
    )
    right_matmul(((), ()), 150, 70, 140, ("plain", "plain"), "bfloat16", "relu", True, 1)
    layouts = ("plain" if one.settings["TRANSPOSED"] else "permuted", "permuted")
    right_matmul(((), ()), 72, 264, 64 * one.splits[-1], layouts, "float16", None, False, 1)
    right_matmul(((), ()), 170, 71, 200, layouts, "bfloat16", "gelu", True, 1)


@pytest.mark.parametrize("rows", [1, 2, 8])
def test_tiles_in_bands_of_rows_that_do_not_divide_them(monkeypatch, rows):
    one = next(one for one in WGMMA_TILES if one.settings["CLUSTER_M"] * one.settings["CLUSTER_N"] == 4)
    choice = Choice("general/matmul_hopper", "", {**one.settings, "SPLIT": 1})
    monkeypatch.setattr(matmul_choices, "_tiles", lambda *sizes: choice)
    monkeypatch.setattr(matmuls, "_band", lambda columns: rows)
    right_matmul(
        ((), ()), 5 * one.high + 3, 3 * one.wide + 1, 70, ("plain", "plain"), "bfloat16", None, True, 1
    )


def test_a_band_has_some_32_blocks_and_1_to_8_rows():
    assert [matmuls._band(columns) for columns in (1, 4, 8, 16, 32, 200)] == [8, 8, 4, 2, 1, 1]


@pytest.mark.parametrize("tile", range(len(MMA_TILES)))
def test_every_tile_of_mma(monkeypatch, tile):
    one = MMA_TILES[tile]
    for at, split in enumerate((1, one.splits[-1])):
        settings = {**one.settings, "SPLIT": split}
        choice = Choice("general/matmul_mma", "", settings, {"pads": 0})
        monkeypatch.setattr(matmul_choices, "_tiles", lambda *sizes, choice=choice: choice)
        right_matmul(((), ()), 150, 71, 330, ("plain", "offset"), "bfloat16", "silu", True, at)
        right_matmul(((3,), ()), 38, 132, 66, ("permuted", "permuted"), "float16", None, False, at)
        right_matmul(((2,), (2,)), 40, 72, 128, ("padded", "plain"), "float16", "gelu", True, at)


@pytest.mark.parametrize("past", range(8))
@pytest.mark.parametrize(
    ("kernel", "tile"),
    [("general/matmul_mma", MMA_TILES[0]), *(("general/matmul_hopper", WGMMA_TILES[at]) for at in (1, 11))],
)
def test_a_result_may_begin_at_any_element(monkeypatch, kernel, tile, past):
    choice = Choice(kernel, "", {**tile.settings, "SPLIT": 1}, {"pads": 0})
    monkeypatch.setattr(matmul_choices, "_tiles", lambda *sizes: choice)
    a, b = (np.random.default_rng(one).integers(-3, 4, (2, 35, 35)).astype(np.float16) for one in (1, 2))
    room = np.full(2 * 35 * 35 + 16, 7, np.float16)
    kernels.matmul(a, b, out=room[past:][: 2 * 35 * 35].reshape(2, 35, 35))
    assert np.array_equal(room[past:][: 2 * 35 * 35].reshape(2, 35, 35), (a.astype(int) @ b.astype(int)))
    assert np.all(room[:past] == 7) and np.all(room[past + 2 * 35 * 35 :] == 7)


@pytest.mark.parametrize(("layout", "transposed"), [("plain", 1), ("padded", 1), ("permuted", 0)])
def test_tiles_that_compute_the_transpose_take_a_first_factor_with_rows(layout, transposed):
    choice = choose(288, 1792, 1024, "float16", arch=90, a_rows=layout != "permuted")
    assert choice.settings["TRANSPOSED"] == transposed
    right_matmul(((), ()), 288, 1792, 1024, (layout, "plain"), "float16", "relu", True, 1)


def test_a_stack_of_odd_rows_is_copied_into_wide_ones():
    sizes = {"matrices": 100, "arch": 90, "loads": (2, 2)}
    assert choose(129, 67, 131, "float16", **sizes, pads=True).launch["pads"] == 1
    assert choose(129, 67, 131, "float16", **sizes).launch["pads"] == 0
    right_matmul(((20,), (20,)), 39, 67, 131, ("plain", "plain"), "float16", "relu", True, 1)
    right_matmul(((20,), ()), 39, 67, 131, ("plain", "plain"), "bfloat16", None, False, 1)


def test_infinities_and_nans_stay_in_their_rows_and_columns():
    a, b = (np.ones(shape, np.float16) for shape in ((40, 70), (70, 50)))
    a[3, 69], b[0, 7] = np.inf, np.nan
    made = kernels.matmul(a, b)
    assert np.all(np.isinf(made[3, np.arange(50) != 7]))
    assert np.all(np.isnan(made[:, 7]))
    assert np.isfinite(made).sum() == 39 * 49


@pytest.mark.parametrize("tile", range(len(FP32_TILES)))
@pytest.mark.parametrize("split", [1, 8])
def test_every_tile_in_fp32(monkeypatch, tile, split):
    settings = {**FP32_TILES[tile].settings, "SPLIT": split}
    choice = Choice("general/matmul_fp32", "", settings)
    monkeypatch.setattr(matmul_choices, "_tiles_fp32", lambda *sizes: choice)
    right_matmul(((), ()), 70, 67, 100, ("plain", "offset"), "float32", "gelu", True, 1)
    right_matmul(((), ()), 33, 72, 40, ("plain", "plain"), "float32", None, False, 1)


@pytest.mark.parametrize(
    ("sizes", "kind", "more", "kernel"),
    [
        ((4096, 4096, 4096), "bfloat16", {}, "matmul_bf16"),
        ((4096, 4096, 4096), "bfloat16", {"arch": 80}, "general/matmul_mma"),
        ((4096, 4096, 4096), "bfloat16", {"arch": 75}, "general/matmul"),
        ((4096, 4096, 4096), "bfloat16", {"matrices": 64}, "general/matmul_mma"),
        ((4096, 4096, 4096), "bfloat16", {"loads": (0, 16)}, "general/matmul"),
        ((4096, 4096, 4096), "float16", {}, "general/matmul_hopper"),
        ((90, 330, 32), "bfloat16", {"plain": False, "loads": (16, 4)}, "general/matmul_mma"),
        ((4096, 4096, 4096), "float32", {}, "matmul_fp32"),
        ((1000, 1000, 999), "float32", {}, "general/matmul_fp32"),
        ((30, 30, 4096), "float32", {}, "general/matmul_fp32"),
        ((30, 30, 64), "bfloat16", {}, "general/matmul_hopper"),
        ((500, 500, 2048), "bfloat16", {}, "general/matmul_hopper"),
        ((4096, 4095, 4096), "bfloat16", {"plain": False}, "general/matmul_hopper"),
        ((1000, 1000, 1000), "float32", {"arch": 75}, "general/matmul"),
    ],
)
def test_the_table_of_kernels(sizes, kind, more, kernel):
    assert choose(*sizes, kind, **{"arch": 90, **more}).kernel == kernel


@pytest.mark.parametrize(
    ("a", "b", "more", "message"),
    [
        (
            (3, 4),
            (5, 6),
            {},
            '"b" has 5 rows, and "a" has 4 columns. Pass matrices whose inner extents agree',
        ),
        ((4,), (4, 6), {}, r'"a" has shape \(4,\). Pass two axes or more'),
        ((2, 3, 4), (3, 4, 6), {}, r'"b" has shape \(3, 4, 6\), and "a" has \(2, 3, 4\). Make leading axes'),
        ((3, 4), (4, 6), {"activation": "tanh"}, "activation is 'tanh'. Pass None"),
        ((3, 4), (4, 6), {"bias": np.zeros(5, np.float32)}, r'"bias" has shape \(5,\). Pass 6 elements'),
        ((3, 4), (4, 6), {"bias": np.zeros(6, np.float16)}, '"bias" has dtype float16, and "a" has float32'),
    ],
)
def test_what_does_not_fit_is_refused_with_a_repair(a, b, more, message):
    with pytest.raises(KernelError, match=f"^matmul: {message}"):
        kernels.matmul(np.zeros(a, np.float32), np.zeros(b, np.float32), **more)
