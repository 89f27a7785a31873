"""`kernels.attention_decode` on caches of every length, layout and page size."""

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
from tilewise.kernels.calls.decoding import _splits, choose

CASES = given(
    batch=st.integers(0, 3),
    kv_heads=st.integers(1, 3),
    share=st.sampled_from([1, 2, 3, 4, 8]),
    keys=extents(0, 300),
    d=st.sampled_from([128, 64, 1, 7, 80, 256]),
    ragged=st.booleans(),
    page=st.sampled_from([None, None, 1, 16]),
    memory=st.sampled_from(LAYOUTS),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 99),
)


def reference(q, k, v, lengths):
    """In FP64: zeros for a sequence without keys."""
    made = np.zeros(q.shape)
    share = q.shape[1] // k.shape[1]
    for b, h in np.ndindex(*q.shape[:2]):
        n = lengths[b]
        s = k[b, h // share, :n] @ q[b, h] * q.shape[-1] ** -0.5
        p = np.exp(s - s.max(initial=-np.inf))
        if n:
            made[b, h] = p @ v[b, h // share, :n] / p.sum()
    return made


def paged(cache, page, random):
    """The same cache in pages of a pool, in a random order, and its table."""
    batch, heads, keys, d = cache.shape
    count = -(-keys // page)
    table = random.permutation(batch * count).astype(np.int32).reshape(batch, count)
    pool = np.zeros((batch * count, heads, page, d), cache.dtype)
    for b, one in np.ndindex(batch, count):
        rows = cache[b, :, one * page : (one + 1) * page]
        pool[table[b, one], :, : rows.shape[1]] = rows
    return pool, table


def right_decoding(batch, kv_heads, share, keys, d, ragged, page, memory, kind, seed):
    random = np.random.default_rng(seed)
    q = stored(random.normal(size=(batch, kv_heads * share, d)), kind)
    k, v = (stored(random.normal(size=(batch, kv_heads, keys, d)), kind) for _ in range(2))
    every = np.full(batch, keys, np.int32)
    lengths = random.integers(0, keys + 1, batch).astype(np.int32) if ragged else every
    expected = reference(*(exact(one, kind) for one in (q, k, v)), lengths)
    table = None
    if page:
        state = random.bit_generator.state
        k, table = paged(k, page, random)
        random.bit_generator.state = state
        v, _ = paged(v, page, random)
    caches = [laid_out(one, memory) for one in (k, v)]
    given_lengths = lengths if ragged or page else None
    made = kernels.attention_decode(q, *caches, given_lengths, table, **named(kind))
    assert (made.shape, made.dtype) == (q.shape, q.dtype)
    assert np.all(np.abs(exact(made, kind) - expected) <= 4 * step_of(kind) + 5e-5)


@FEW
@CASES
def test_decoding_is_that_of_64_bits(**case):
    right_decoding(**case)


@sweep("decoding", texts=("general/decode", "general/decode_mma"))
@HEAVY
@CASES
def test_thousands_of_decodings(**case):
    right_decoding(**case)


@pytest.mark.parametrize("share", [1, 6, 18])
def test_tensor_cores_with_few_and_many_query_heads(share):
    right_decoding(2, 2, share, 301, 128, False, None, "plain", "bfloat16", 1)


def test_the_table_of_kernels():
    for more in ({}, {"d": 64}, {"kind": "float16"}, {"arch": 80}):
        assert choose(**{"d": 128, "kind": "bfloat16", "whole": True, "arch": 90, **more}).settings["D"] in (
            64,
            128,
        )
    for more in ({"d": 80}, {"kind": "float32"}, {"whole": False}, {"arch": 75}):
        given_ = {"d": 128, "kind": "bfloat16", "whole": True, "arch": 90, **more}
        assert choose(**given_).kernel == "general/decode"


def test_splits_fill_the_gpu_and_end_together():
    assert _splits(1, 32_768, 1, 128) > 30
    assert _splits(405, 10_560, 405, 128) > 1  # 396 blocks run at once: 9 would be left
    assert _splits(4000, 256, 4000, 128) == 1


@pytest.mark.parametrize(
    ("shapes", "lengths", "table", "message"),
    [
        ([(2, 4), (2, 4, 5, 8)], None, None, r'"q" has shape \(2, 4\)\. Pass \(batch, heads, d\)'),
        ([(2, 4, 8), (3, 4, 5, 8)], None, None, r'"k" has shape \(3, 4, 5, 8\)'),
        ([(2, 4, 8), (2, 3, 5, 8)], None, None, '"k" has 3 heads, which do not divide the 4 of q'),
        ([(2, 4, 8), (2, 4, 5, 8)], [5, 6], None, '"lengths" has values outside 0 to 5'),
        ([(2, 4, 8), (2, 4, 5, 8)], [5], None, r'"lengths" has shape \(1,\)\. Pass one for each of 2'),
        ([(2, 4, 8), (2, 4, 5, 8)], None, [[0], [1]], r'"table" has shape \(2, 1\)\. Pass'),
        ([(2, 4, 8), (2, 4, 5, 8)], [5, 3], [[0], [2]], '"table" names pages outside 0 to 1'),
    ],
)
def test_what_does_not_fit_is_refused_with_a_repair(shapes, lengths, table, message):
    q, k = (np.zeros(shape, np.float32) for shape in shapes)
    integers = [None if one is None else np.array(one, np.int32) for one in (lengths, table)]
    with pytest.raises(KernelError, match=f"^attention_decode: {message}"):
        kernels.attention_decode(q, k, k, *integers)
