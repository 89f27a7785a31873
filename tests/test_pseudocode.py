"""Pseudocode's three words and the check against flat indices."""

import pytest

from tilewise.errors import LessonError
from tilewise.kernel.pseudocode import lanes, parallel, shuffle_seed, tiles
from tilewise.kernel.pseudocode_source import check_no_flat_index, place_of


def test_parallel_gives_every_index_once_in_another_order():
    given = list(parallel(100))
    assert sorted(given) == list(range(100))
    assert given != list(range(100))


def test_parallel_over_two_extents_gives_pairs():
    given = list(parallel(7, 11))
    assert sorted(given) == [(i, j) for i in range(7) for j in range(11)]
    assert given != sorted(given)
    assert sorted(parallel(2, 1, 2)) == [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]


def test_one_seed_gives_one_order_and_the_next_run_another():
    with shuffle_seed(3):
        first = list(parallel(50))
        second = list(parallel(50))
    with shuffle_seed(3):
        again = list(parallel(50))
    assert first == again
    assert first != second


def test_lanes_are_those_of_one_warp():
    assert sorted(lanes()) == list(range(32))
    assert sorted(lanes(5)) == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match=r"^lanes\(33\): a warp has 32 lanes"):
        lanes(33)


def test_tiles_cover_all_and_the_last_may_be_shorter():
    assert list(tiles(10, 4)) == [range(0, 4), range(4, 8), range(8, 10)]
    assert list(tiles(0, 4)) == []
    with pytest.raises(ValueError, match="a tile holds at least one element"):
        tiles(3, 0)


def test_extents_are_checked():
    with pytest.raises(TypeError, match="needs at least one extent"):
        parallel()
    with pytest.raises(ValueError, match="an extent is negative"):
        parallel(-1)
    with pytest.raises(TypeError):
        parallel(2.5)


def flat_read(a, b, n):
    for i, j in parallel(n, n):
        b[i, j] = a[i * n + j]


def flat_slice(a, b, n):
    for i in parallel(n):
        b[i] = a[i * n : i * n + n]


def flat_minus(a, b, n):
    for i in parallel(n):
        b[i] = a[i * n - 1, 0]


def shaped(a, b, n):
    for i, j in parallel(n, n):
        b[i, j] = a[j + 1, 2 * i] * n + a[(j + 1) * 2, i]


@pytest.mark.parametrize(
    ("function", "written", "below"),
    [
        (flat_read, "a[i * n + j]", 2),
        (flat_slice, "a[i * n:i * n + n]", 2),
        (flat_minus, "a[i * n - 1, 0]", 2),
    ],
)
def test_a_flattened_index_is_an_error_with_its_line(function, written, below):
    path, line = place_of(function)
    with pytest.raises(LessonError) as caught:
        check_no_flat_index(function)
    assert str(caught.value) == (
        f'{path}:{line + below}: pseudocode "{function.__name__}" flattens an index: {written}. '
        "Give the array its shape in the case and index it as a[row, column]."
    )


def test_arithmetic_that_flattens_nothing_passes():
    check_no_flat_index(shaped)


def flat_by_name(a, b, n):
    i, j = 0, 0
    row = i * n
    at = row + j
    b[0] = a[at]


def flat_by_a_typed_name(a, b, n):
    for i in range(n):
        at: int = i * n + 1
        b[i] = a[at]


def gathered(a, b, n):
    first = a[0] * n + a[1]
    total = 0
    total = total * n + first
    for i in range(n):
        step = i + 1
        b[i] = total + a[step]
        where = a[i] * 2
        b[where] = first


@pytest.mark.parametrize(("function", "line"), [(flat_by_name, 4), (flat_by_a_typed_name, 3)])
def test_a_flattened_index_under_a_name_is_an_error_too(function, line):
    with pytest.raises(LessonError, match="flattens an index: a\\[") as caught:
        check_no_flat_index(function)
    assert caught.value.line == place_of(function)[1] + line


def test_names_that_change_and_values_that_were_read_are_no_flat_index():
    check_no_flat_index(gathered)
