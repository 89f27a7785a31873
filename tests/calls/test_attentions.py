"""`kernels.attention` and its gradients on every length, width, layout and mask."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.calls.layouts import (
    FEW,
    HEAVY,
    KINDS,
    LAYOUTS,
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
from tilewise.kernels.calls import attentions, launching, plans
from tilewise.kernels.calls.attentions import Problem, choose, choose_backward

WIDTHS = (64, 128, 1, 7, 31, 32, 33, 63, 65, 80, 96, 100, 127, 129, 160, 192, 255, 256)
CASES = given(
    batch=st.integers(0, 2),
    kv_heads=st.integers(1, 2),
    share=st.sampled_from([1, 1, 2, 3]),
    queries=extents(0, 150),
    keys=extents(0, 150),
    d=st.sampled_from(WIDTHS),
    causal=st.booleans(),
    shift=st.sampled_from([None, None, 0, -20, 7]),
    layout=st.sampled_from(["BHSD", "BSHD"]),
    memory=st.sampled_from(LAYOUTS),
    kind=st.sampled_from(KINDS),
    stretch=st.sampled_from([1.0, 10.0]),
    seed=st.integers(0, 99),
)


def scores(q, k, causal, shift, scale):
    """Scores of each query head in FP64, and whether each pair is seen."""
    share = q.shape[1] // k.shape[1]
    s = q @ np.repeat(k, share, axis=1).swapaxes(-1, -2) * scale
    by = k.shape[2] - q.shape[2] if shift is None else shift
    i, j = np.indices(s.shape[-2:])
    return np.where((j <= i + by) | (not causal), s, -np.inf)


def reference(q, k, v, causal, shift, scale):
    """Output and log-sum-exp in FP64."""
    s = scores(q, k, causal, shift, scale)
    m = s.max(axis=-1, keepdims=True, initial=-np.inf)
    p = np.exp(s - np.where(m > -np.inf, m, 0.0))
    z = p.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        lse = (np.log(z) + np.where(m > -np.inf, m, 0.0))[..., 0]
    return p / np.where(z > 0, z, 1.0) @ np.repeat(v, q.shape[1] // v.shape[1], axis=1), lse


def gradients(dout, q, k, v, causal, shift, scale):
    """Those of q, k and v in FP64."""
    out, lse = reference(q, k, v, causal, shift, scale)
    s, share = scores(q, k, causal, shift, scale), q.shape[1] // k.shape[1]
    p = np.exp(s - np.where(lse > -np.inf, lse, 0.0)[..., None])
    wide = [np.repeat(one, share, axis=1) for one in (k, v)]
    ds = p * (dout @ wide[1].swapaxes(-1, -2) - (dout * out).sum(axis=-1, keepdims=True)) * scale
    grouped = (k.shape[0], k.shape[1], share, *k.shape[2:])
    dk, dv = (x.swapaxes(-1, -2) @ y for x, y in ((ds, q), (p, dout)))
    return ds @ wide[0], dk.reshape(grouped).sum(axis=2), dv.reshape(grouped).sum(axis=2)


def arrays(shapes, layout, memory, kind, stretch, seed):
    """What the caller passes, and the same as (batch, heads, length, d) in FP64."""
    random = np.random.default_rng(seed)
    passed, wide = [], []
    for number, shape in enumerate(shapes):
        values = stored(random.normal(size=shape) * (stretch if number == 0 else 1.0), kind)
        wide.append(exact(values, kind))
        order = attentions.LAYOUTS[layout]
        passed.append(laid_out(np.ascontiguousarray(values.transpose(order)), memory))
    return passed, wide


def called(batch, kv_heads, share, queries, keys, d, causal, shift, layout, memory, kind, stretch, seed):
    """q, k, v and dout as passed, and in FP64 with the mask and scale; how they were passed; the result."""
    shift = shift if causal else None
    q_shape, k_shape = (batch, kv_heads * share, queries, d), (batch, kv_heads, keys, d)
    passed, wide = arrays([q_shape, k_shape, k_shape, q_shape], layout, memory, kind, stretch, seed)
    how = {"causal": causal, "shift": shift, "layout": layout, **named(kind)}
    made = kernels.attention(*passed[:3], **how, return_lse=True)
    return passed, (*wide, causal, shift, d**-0.5), how, made


def right_attention(kind, layout, **case):
    passed, (*qkv, _, causal, shift, scale), _, (out, lse) = called(kind=kind, layout=layout, **case)
    assert (out.shape, out.dtype, lse.shape) == (passed[0].shape, passed[0].dtype, qkv[0].shape[:3])
    expected, sums = reference(*qkv, causal, shift, scale)
    got = exact(out, kind).transpose(attentions.LAYOUTS[layout])
    assert np.all(np.abs(got - expected) <= 4 * step_of(kind) + 5e-5)
    assert np.allclose(lse, sums, rtol=1e-4, atol=1e-3)


def right_gradients(kind, layout, **case):
    case["stretch"] = 1.0
    (q, k, v, dout), (*qkv, wide, causal, shift, scale), how, made = called(kind=kind, layout=layout, **case)
    found = kernels.attention_backward(dout, q, k, v, *made, **how)
    expected = gradients(wide, *qkv, causal, shift, scale)
    for name, array, right in zip("qkv", found, expected, strict=True):
        got = exact(array, kind).transpose(attentions.LAYOUTS[layout])
        room = (8 * step_of(kind) + 1e-4) * max(1.0, np.abs(right).max(initial=0.0))
        assert np.all(np.abs(got - right) <= room), name


@FEW
@CASES
def test_attention_is_that_of_64_bits(**case):
    right_attention(**case)


@FEW
@CASES
def test_gradients_are_those_of_64_bits(**case):
    right_gradients(**case)


@sweep("attentions", texts=("attention_*", "general/attention*"))
@HEAVY
@CASES
def test_thousands_of_attentions(**case):
    right_attention(**case)


@sweep("attentions", texts=("attention_*", "general/attention*", "general/backward_*"))
@HEAVY
@CASES
def test_thousands_of_gradients(**case):
    right_gradients(**case)


PLAIN = {
    **{"batch": 2, "kv_heads": 1, "share": 1, "queries": 130, "keys": 130, "d": 128, "causal": True},
    **{"shift": None, "layout": "BSHD", "memory": "plain", "kind": "bfloat16", "stretch": 1.0, "seed": 1},
}


@pytest.mark.parametrize("arch", [70, 80, 90])
@pytest.mark.parametrize(
    "more", [{}, {"d": 80, "share": 3, "keys": 200}, {"d": 64, "causal": False}, {"shift": -20}]
)
def test_bf16_on_each_generation(monkeypatch, arch, more):
    for module in (attentions, launching):
        monkeypatch.setattr(module, "capability", lambda: arch)
    right_attention(**{**PLAIN, **more})
    right_gradients(**{**PLAIN, **more})


@pytest.mark.parametrize(("d", "batch", "memory"), [(64, 1, "plain"), (48, 2, "permuted"), (32, 1, "offset")])
@pytest.mark.parametrize("n", [1, 64, 65, 200, 321])
@pytest.mark.parametrize("causal", [False, True])
def test_gradients_of_narrow_heads_on_hopper(d, batch, memory, n, causal):
    heads = 3 - batch
    assert choose_backward(problem(d=d, queries=n, keys=n, shift=n), 90).kernel == "general/backward_hopper"
    more = {"d": d, "batch": batch, "memory": memory, "queries": n, "keys": n, "causal": causal}
    right_gradients(**{**PLAIN, "kv_heads": heads, **more})


@pytest.mark.parametrize("more", [{"share": 3}, {"keys": 200}, {"shift": -20}, {"d": 60}])
def test_gradients_of_narrow_heads_that_the_fast_kernel_does_not_take(more):
    right_gradients(**{**PLAIN, "d": 64, **more})


def test_fp32_with_the_lessons_kernel():
    case = {**PLAIN, "kind": "float32", "causal": False, "keys": 201}
    right_attention(**case)
    right_gradients(**case)


def test_leading_axes_may_be_left_out_and_a_scale_given():
    q = np.random.default_rng(1).normal(size=(5, 7, 16)).astype(np.float32)
    out, lse = kernels.attention(q[0], q[1], q[2], scale=-2.0, return_lse=True)
    expected, sums = reference(*q[:3, None, None].astype(float), False, None, -2.0)
    assert (out.shape, lse.shape) == ((7, 16), (7,))
    assert np.allclose(out, expected[0, 0], atol=1e-5)
    assert np.allclose(lse, sums[0, 0], atol=1e-4)
    assert kernels.attention(q, q, q).shape == (5, 7, 16)


@pytest.mark.parametrize("split", [0, 1, 2, 4])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"d": 64, "queries": 70, "keys": 700, "causal": False},
        {"d": 40, "share": 2, "keys": 300, "shift": 7, "memory": "permuted"},
        {"keys": 1100, "queries": 65},
        {"shift": -20},
        {"shift": -200},
        {"queries": 1, "keys": 1},
    ],
)
def test_both_kernels_of_hopper_and_every_split(split, more, monkeypatch):
    monkeypatch.setattr(attentions, "_split", lambda *_: split)
    monkeypatch.setattr(plans, "_plans", {})
    right_attention(**{**PLAIN, **more})


@pytest.mark.parametrize(
    ("sizes", "split"), [((1, 1536), 4), ((1, 4224), 2), ((8, 4096), 0), ((1, 64), 0), ((200, 64), 0)]
)
def test_keys_are_split_where_queries_are_few(sizes, split):
    heads, n = sizes
    one = problem(batch=1, heads=heads, kv_heads=heads, queries=n, keys=n)
    assert choose(one, 90).settings.get("SPLIT", 0) == split


def problem(**more):
    sizes = {"batch": 2, "heads": 8, "kv_heads": 8, "queries": 1024, "keys": 1024, "d": 128}
    return Problem(**{**sizes, "kind": "bfloat16", "causal": False, "shift": 1024, "scale": 0.1, **more})


@pytest.mark.parametrize(
    ("more", "arch", "kernel"),
    [
        ({}, 90, "attention_hopper"),
        ({"d": 40, "batch": 8}, 90, "attention_hopper"),
        ({"heads": 1}, 90, "general/attention_split_hopper"),
        ({"heads": 1, "d": 40}, 90, "general/attention_split_hopper"),
        ({}, 80, "attention_mma"),
        ({}, 100, "attention_mma"),
        ({}, 75, "general/attention"),
        ({"d": 192}, 90, "general/attention"),
        ({"scale": -1.0}, 90, "general/attention"),
        ({"kind": "float16"}, 90, "general/attention"),
        ({"kind": "float32"}, 90, "attention_fp32"),
        ({"kind": "float32"}, 75, "general/attention"),
        ({"batch": 9000}, 80, "general/attention"),
        ({"batch": 9000}, 90, "attention_hopper"),
        ({"kind": "float32", "causal": True, "shift": 0}, 90, "general/attention"),
    ],
)
def test_the_table_of_kernels(more, arch, kernel):
    assert choose(problem(**more), arch).kernel == kernel


@pytest.mark.parametrize(
    ("more", "arch", "kernel"),
    [
        ({}, 90, "attention_backward_hopper"),
        ({"causal": True, "shift": 0}, 90, "attention_backward_hopper"),
        ({"causal": True, "shift": 3}, 90, "general/attention"),
        ({}, 80, "general/attention"),
        ({"kv_heads": 2}, 90, "general/attention"),
        ({"d": 64}, 90, "general/backward_hopper"),
        ({"d": 32}, 90, "general/backward_hopper"),
        ({"d": 72}, 90, "attention_backward_hopper"),
        ({"d": 60}, 90, "general/attention"),
        ({"batch": 9000}, 90, "general/attention"),
    ],
)
def test_the_table_of_kernels_for_gradients(more, arch, kernel):
    assert choose_backward(problem(**more), arch).kernel == kernel


@pytest.mark.parametrize(
    ("shapes", "more", "message"),
    [
        ([(2, 4, 5, 8), (2, 3, 5, 8)], {}, '"k" has 3 heads, which do not divide the 4 of q'),
        ([(2, 4, 5, 8), (1, 4, 5, 8)], {}, r'"k" has shape \(1, 4, 5, 8\), and "q" has'),
        ([(2, 4, 5, 300), (2, 4, 5, 300)], {}, '"q" has heads of 300 columns. Pass 1 to 256'),
        ([(4,), (4,)], {}, r'"q" has shape \(4,\). Pass 2 to 4 axes, the last of BHSD'),
        ([(5, 8), (5, 8)], {"layout": "BSHD"}, r'"q" has shape \(5, 8\). Pass 3 to 4 axes'),
        ([(5, 8), (5, 8)], {"layout": "SBHD"}, "layout is 'SBHD'. Pass 'BHSD' or 'BSHD'"),
        ([(5, 8), (5, 8)], {"scale": float("nan")}, "scale is nan. Pass a finite number"),
        ([(5, 8), (5, 8)], {"shift": 3}, "shift is 3, and causal is False"),
    ],
)
def test_what_does_not_fit_is_refused_with_a_repair(shapes, more, message):
    q, k = (np.zeros(shape, np.float32) for shape in shapes)
    with pytest.raises(KernelError, match=f"^attention: {message}"):
        kernels.attention(q, k, k, **more)


def test_values_and_types_that_differ_are_refused():
    q = np.zeros((5, 8), np.float32)
    with pytest.raises(
        KernelError, match=r'^attention: "v" has shape \(4, 8\)\. Pass one of k\'s shape \(5, 8\)'
    ):
        kernels.attention(q, q, q[:4])
    with pytest.raises(KernelError, match=r'^attention: "k" has dtype float16, and "q" has float32'):
        kernels.attention(q, q.astype(np.float16), q)
    with pytest.raises(KernelError, match=r'^attention: "out" shares memory with "v"'):
        kernels.attention(q.copy(), q.copy(), q[:], out=q)
    with pytest.raises(
        KernelError, match=r'^attention_backward: "lse" has shape \(4,\)\. Pass what attention'
    ):
        kernels.attention_backward(q, q, q, q, q, np.zeros(4, np.float32))
