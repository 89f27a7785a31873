"""Right answers that several lessons compare with."""

import numpy as np

from tilewise import bf16
from tilewise.measurements.references import bf16_product, matrix_product


def test_a_product_is_right():
    A, B = np.arange(6.0).reshape(2, 3), np.ones((3, 2))  # noqa: N806 - as in the lessons
    assert (matrix_product(A, B)["C"] == A @ B).all()
    bits = {name: bf16.bits(array) for name, array in (("A", A), ("B", B))}
    assert (bf16_product(bits) == A @ B).all()
