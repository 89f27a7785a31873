"""References for attention agree with the definition, and with each other."""

import numpy as np

from tilewise.cuda.cases import case
from tilewise.measurements.attention import (
    KERNELS,
    attention,
    attention_so_far,
    bf16_inputs,
    right_answer,
    shifted_attention,
    stored_attention,
)

RANDOM = np.random.default_rng(1)
Q, K, V = (RANDOM.normal(size=(1, rows, 4)) for rows in (5, 7, 7))


def test_attention_is_the_definition():
    weights = np.exp(0.5 * Q[0] @ K[0].T)
    expected = weights @ V[0] / weights.sum(axis=1, keepdims=True)
    assert np.allclose(attention(Q, K, V, 0.0, 0.5)["O"][0], expected)


def test_every_matrix_can_be_had():
    made = stored_attention(Q[0], K[0], V[0], 0.5)
    assert np.allclose(made["S"], 0.5 * Q[0] @ K[0].T)
    assert np.allclose(made["P"].sum(axis=1), 1)
    assert np.allclose(made["O"], attention(Q, K, V, 0.0, 0.5)["O"][0])


def test_a_query_without_a_key_gets_zeros():
    hidden = np.where(np.arange(5)[:, None] == 2, -np.inf, np.zeros((5, 7)))
    found = attention(Q, K, V, hidden, 0.5)["O"][0]
    assert (found[2] == 0).all()
    assert np.isfinite(found).all()


def test_a_shifted_mask_is_a_bias():
    i, j = np.ogrid[:5, :7]
    found = shifted_attention(Q, K, V, 1, -2, 0.5)
    expected = attention(Q, K, V, np.where(j > i - 2, -np.inf, 0.0), 0.5)["O"]
    assert np.allclose(found["O"], expected)
    assert np.isneginf(found["L"][0, :2]).all()
    assert np.isfinite(found["L"][0, 2:]).all()


def test_heads_of_keys_are_shared():
    arrays = case(**bf16_inputs(N=6, d=8, M=9, heads=4, share=2)).make()
    assert np.shape(arrays["K"]) == (2, 9, 8)
    assert arrays["shift"] == 9
    assert right_answer(arrays)["O"].shape == (4, 6, 8)


def test_the_table_of_attention_kernels_finds_every_record():
    for kernels in range(1, len(KERNELS) + 1):
        *rows, last = attention_so_far(kernels).rows
        assert [row[0].text.split(":")[0] for row in rows[:kernels]] == [
            f"Kernel {number}" for number in range(1, kernels + 1)
        ]
        assert last[0].text.startswith("torch")
        missing = [(row[0].text, at) for row in (*rows, last) for at in (2, 3) if not row[at].text]
        assert missing == [("Kernel 1: one thread", 3)]
