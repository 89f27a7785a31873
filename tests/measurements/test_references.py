"""Right answers that several lessons compare with."""

import numpy as np

from tilewise import bf16
from tilewise.cuda.cases import case
from tilewise.measurements.references import bf16_product, matrix_product, product_inputs


def test_a_product_is_right():
    A, B = np.arange(6.0).reshape(2, 3), np.ones((3, 2))  # noqa: N806 - as in the lessons
    assert (matrix_product(A, B)["C"] == A @ B).all()
    bits = {name: bf16.bits(array) for name, array in (("A", A), ("B", B))}
    assert (bf16_product(bits) == A @ B).all()


def test_a_product_of_its_inputs_has_a_standard_deviation_of_1() -> None:
    arrays = case(**product_inputs(50, 40, 300)).make()
    product = matrix_product(arrays["A"], arrays["B"])["C"]
    assert product.shape == np.shape(arrays["C"]) == (50, 40)
    assert abs(product.std() - 1) < 0.1
