"""Cases: declarative inputs, fresh arrays, stable fingerprints."""

import numpy as np
import pytest

from tilewise.cuda.cases import case, constant, integers, normal, output, uniform


def test_a_case_makes_equal_but_separate_arrays_each_time():
    made = case(x=normal(3, 5), y=output(3), n=3)
    first, second = made.make(), made.make()
    assert np.array_equal(first["x"], second["x"])
    assert not np.shares_memory(first["x"], second["x"])
    assert first["x"].shape == (3, 5)
    assert first["x"].dtype == np.float32
    assert first["n"] == 3


def test_a_recipe_makes_the_bits_that_numpy_makes():
    expected = np.random.Generator(np.random.PCG64(7)).standard_normal((2, 3), dtype=np.float32)
    assert np.array_equal(normal(2, 3, seed=7).make(), expected)
    assert np.array_equal(normal(2, 3, seed=7, scale=4).make(), expected * np.float32(4))


def test_every_kind_keeps_its_bounds_and_dtype():
    drawn = uniform(1000, low=-2, high=3, dtype="float64").make(1)
    assert (drawn.dtype, drawn.min() >= -2, drawn.max() < 3) == (np.float64, True, True)
    whole = integers(1000, low=-1, high=2, dtype="int8").make(1)
    assert (whole.dtype, sorted(set(whole.tolist()))) == (np.int8, [-1, 0, 1])
    assert constant(2, 2, value=1.5, dtype="float16").make().tolist() == [[1.5, 1.5], [1.5, 1.5]]
    assert normal(4, dtype="float16").make(1).dtype == np.float16


def test_outputs_are_poisoned():
    assert np.isnan(output(2, 2).make()).all()
    assert np.isnan(output(2, dtype="float16").make()).all()
    assert output(2, dtype="uint32").make().tolist() == [0xA5A5A5A5, 0xA5A5A5A5]
    assert case(a=normal(1), b=output(1), c=output(2)).outputs == ("b", "c")


def test_an_array_in_a_case_is_copied_when_given_and_when_made():
    given = np.arange(3)
    made = case(x=given)
    given[:] = 9
    made.make()["x"][:] = 7
    assert made.make()["x"].tolist() == [0, 1, 2]


def test_a_huge_case_has_a_fingerprint_without_an_array():
    huge = case(x=normal(1 << 40), grid=5, block=(8, 8))
    assert huge.fingerprint() == (
        "grid=(5, 1, 1) block=(8, 8, 1) shared_bytes=0\n"
        "x=normal (1099511627776,) <f4 seed=None [('scale', '1.0')]"
    )


@pytest.mark.parametrize(
    "other",
    [
        case(x=normal(4, seed=1), n=3, grid=1, block=2),
        case(x=normal(4), n=4, grid=1, block=2),
        case(x=normal(4), n=3.0, grid=1, block=2),
        case(x=normal(4), n=np.int32(3), grid=1, block=2),
        case(x=normal(4, dtype="float64"), n=3, grid=1, block=2),
        case(x=normal(2, 2), n=3, grid=1, block=2),
        case(x=np.zeros(4, np.float32), n=3, grid=1, block=2),
        case(x=normal(4), n=3, grid=2, block=1),
        case(x=normal(4), n=3, grid=1, block=2, shared_bytes=1),
        case(y=normal(4), n=3, grid=1, block=2),
    ],
    ids=str,
)
def test_cases_that_differ_have_different_fingerprints(other):
    base = case(x=normal(4), n=3, grid=1, block=2)
    assert base.fingerprint() == case(n=3, x=normal(4), grid=(1,), block=(2, 1)).fingerprint()
    assert base.fingerprint() != other.fingerprint()


def test_what_is_neither_recipe_nor_array_nor_number_is_refused():
    with pytest.raises(
        TypeError, match=r'^case: "x" is a list. Give a recipe .* or None for a null pointer\.$'
    ):
        case(x=[1, 2])


@pytest.mark.parametrize("grid", ["2", (), (1, 2, 3, 4), 1.5, True, (1, None)])
def test_a_grid_is_one_to_three_whole_numbers(grid):
    with pytest.raises(ValueError, match=r"^grid is .* Give a whole number or a tuple of one to three"):
        case(grid=grid)
