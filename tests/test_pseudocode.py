"""Pseudocode's three words, the check against flat indices, and mistakes made on purpose."""

from __future__ import annotations

import inspect

import pytest

from tests.mutation import LoopLimitError, mutants
from tilewise.errors import LessonError
from tilewise.pseudocode import lanes, parallel, shuffle_seed, tiles
from tilewise.pseudocode_source import check_no_flat_index, place_of


def test_parallel_gives_every_index_once_in_another_order():
    given = list(parallel(100))
    assert sorted(given) == list(range(100))
    assert given != list(range(100))


def test_parallel_over_two_extents_gives_pairs():
    given = list(parallel(7, 11))
    assert sorted(given) == [(i, j) for i in range(7) for j in range(11)]
    assert given != sorted(given)
    assert sorted(parallel(2, 1, 2)) == [(0, 0, 0), (0, 0, 1), (1, 0, 0), (1, 0, 1)]


def test_parallel_over_nothing_runs_no_step():
    assert list(parallel(0)) == []
    assert list(parallel(3, 0)) == []


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


def test_pseudocode_without_readable_source_is_refused():
    namespace: dict = {}
    exec("def gone(x):\n    x[0] = 1\n", namespace)
    with pytest.raises(LessonError, match=r'the source of pseudocode "gone" cannot be read'):
        check_no_flat_index(namespace["gone"])


def halve(x, out):
    total = 0.0
    for i in range(len(x)):
        if i < 2 and not x[i] == 3:  # noqa: SIM201 - a mutant drops the "not"
            total += max(x[i], 0.5)
    out[0, 1] = -total if total > 1 else total


def test_each_mutant_differs_in_one_place_and_names_it():
    _, line = place_of(halve)
    found = [(one.line - line, one.change) for one in mutants(halve)]
    assert sorted(found) == sorted(
        [
            (1, "without: total = 0.0"),
            (1, "0.0 -> 1.0"),
            (2, "without: for i in range(len(x)):"),
            (2, "range(len(x)) -> range(len(x) - 1)"),
            (3, "without: if i < 2 and (not x[i] == 3):"),
            (3, "i < 2 and (not x[i] == 3) -> i < 2 or not x[i] == 3"),
            (3, "i < 2 -> i <= 2"),
            (3, "2 -> 3"),
            (3, "not x[i] == 3 -> x[i] == 3"),
            (3, "x[i] == 3 -> x[i] != 3"),
            (3, "x[i] -> x[i - 1]"),
            (3, "3 -> 4"),
            (4, "total += max(x[i], 0.5) -> total -= max(x[i], 0.5)"),
            (4, "total += max(x[i], 0.5) -> total = max(x[i], 0.5)"),
            (4, "without: total += max(x[i], 0.5)"),
            (4, "max(x[i], 0.5) -> min(x[i], 0.5)"),
            (4, "x[i] -> x[i - 1]"),
            (4, "0.5 -> 1.5"),
            (5, "without: out[0, 1] = -total if total > 1 else total"),
            (5, "-total if total > 1 else total -> total if total > 1 else -total"),
            (5, "total > 1 -> total >= 1"),
            (5, "1 -> 2"),
            (5, "-total -> total"),
            (5, "out[0, 1] -> out[1, 0]"),
            (5, "out[0, 1] -> out[0 - 1, 1]"),
            (5, "out[0, 1] -> out[0, 1 - 1]"),
            (5, "0 -> 1"),
            (5, "1 -> 2"),
        ]
    )


def test_a_mutant_runs_with_its_mistake_and_the_original_stays():
    before = inspect.getsource(halve)
    written = {}
    for one in mutants(halve):
        if one.change == "without: total = 0.0":
            with pytest.raises(UnboundLocalError):
                one.function([1.0, 2.0], {})
        if one.change in ("i < 2 -> i <= 2", "max(x[i], 0.5) -> min(x[i], 0.5)"):
            out: dict = {}
            one.function([0.25, 0.125, 0.0625], out)
            written[one.change] = out
    assert written == {
        "i < 2 -> i <= 2": {(0, 1): -1.5},
        "max(x[i], 0.5) -> min(x[i], 0.5)": {(0, 1): 0.375},
    }
    out = {}
    halve([0.25, 0.125, 0.0625], out)
    assert out == {(0, 1): 1.0}
    assert inspect.getsource(halve) == before


def countdown(out, n):
    while n > 0:
        n -= 1
    out[0] = n


def test_a_mutant_that_does_not_end_is_stopped():
    endless = next(one for one in mutants(countdown) if one.change == "without: n -= 1")
    with pytest.raises(LoopLimitError, match="more than 1000000 turns"):
        endless.function([0], 3)


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
