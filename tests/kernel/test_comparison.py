"""`check` and `agree`: what they accept, what they refuse and in which words."""

import numpy as np
import pytest

from tilewise.cuda.cases import case, integers, normal, output
from tilewise.cuda.difference import difference
from tilewise.errors import LessonError
from tilewise.kernel.comparison import CheckError, agree, check
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.launches import does_not_divide
from tilewise.kernel.pseudocode import parallel
from tilewise.kernel.pseudocode_source import place_of
from tilewise.outputs import AgreeOutput, CollectingSink, installed

ROW_SUMS = Kernel(r"""
extern "C" __global__ void row_sums(const float* a, float* out, int rows, int cols) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float sum = 0;
    for (int col = 0; col < cols; ++col) sum += a[row * cols + col];
    out[row] = sum;
}
""")
CASES = [
    case(a=normal(rows, cols), out=output(rows), rows=rows, cols=cols, grid=-(-rows // 32), block=32)
    for rows, cols in [(33, 7), (50, 3), (64, 8)]
]


def row_sums(a, out):
    for row in parallel(len(a)):
        total = np.float32(0)
        for value in a[row]:
            total += value
        out[row] = total


@pytest.fixture(autouse=True)
def simulated(monkeypatch):
    monkeypatch.setenv("TILEWISE_BACKEND", "simulator")


@pytest.fixture
def shown():
    sink = CollectingSink()
    with installed(sink):
        yield sink


def test_a_failed_check_names_place_and_both_values(shown):
    actual = np.array([[1.0, 2.0], [3.0, np.nan]], np.float32)
    with pytest.raises(CheckError) as caught:
        check(actual, [[1.0, 2.5], [3.0, 4.0]], rtol=1e-3, atol=1e-6, name="out")
    assert str(caught.value) == (
        "out: 2 of 4 values are off by more than rtol 0.001 + atol 1e-06. "
        "Largest error inf at [1, 1]: nan, expected 4.0."
    )
    assert isinstance(caught.value, AssertionError)
    with pytest.raises(CheckError, match=r"^result has shape \(2, 2\) and its reference \(4,\)"):
        check(actual, actual.reshape(-1))
    assert list(shown.outputs) == []


@pytest.mark.parametrize(
    ("actual", "expected", "rtol", "atol", "wrong"),
    [
        ([np.nan], [np.nan], 0, 0, 0),
        ([np.inf, -np.inf], [np.inf, np.inf], 1, 1, 1),
        ([np.inf], [1.0], 1e30, 1e30, 1),
        ([1.0], [np.nan], 1, 1, 1),
        ([0.0], [-0.0], 0, 0, 0),
        ([2**63], [2**63 - 1], 0, 0, 1),
        ([101], [100], 0.01, 0, 0),
        ([True, False], [True, True], 0, 0, 1),
        ([], [], 0, 0, 0),
    ],
)
def test_values_are_compared_without_losing_nan_infinity_or_large_integers(
    actual, expected, rtol, atol, wrong
):
    kind = np.uint64 if actual == [2**63] else None
    found = difference(np.array(actual, kind), np.array(expected, kind), rtol, atol)
    assert (found.count, found.wrong) == (len(actual), wrong)


def test_pseudocode_and_kernel_that_agree_are_shown_as_a_pair(shown):
    agree(row_sums, ROW_SUMS, CASES)
    assert list(shown.outputs) == [
        AgreeOutput(
            "row_sums",
            "row_sums",
            ("a 33 x 7, out 33", "a 50 x 3, out 50", "a 64 x 8, out 64"),
            ("out",),
            0.0,
            0.0,
        )
    ]


def test_a_disagreement_names_case_array_index_and_both_values(shown):
    def forgets_the_last_row(a, out):
        for row in range(len(a)):
            out[row] = 0 if row == 49 else sum(a[row])

    with pytest.raises(CheckError) as caught:
        agree(forgets_the_last_row, ROW_SUMS, CASES, rtol=1e-5)
    expected = CASES[1].make()["a"][49]
    value = float((expected[0] + expected[1]) + expected[2])
    assert str(caught.value) == (
        'pseudocode forgets_the_last_row and kernel "row_sums" differ in case 2 (a 50 x 3, out 50): '
        f"out[49] is 0.0 by the pseudocode and {value} by the kernel; "
        "1 of 50 values are off by more than rtol 1e-05."
    )
    assert list(shown.outputs) == []


def test_pseudocode_that_needs_an_order_fails(shown):
    kernel = Kernel(
        'extern "C" __global__ void sums(const int* x, int* out, int n) { '
        "int total = 0; for (int i = 0; i < n; ++i) out[i] = total += x[i]; }"
    )
    cases = [
        case(x=integers(n, low=1, high=9), out=output(n, dtype="int32"), n=n, grid=1, block=1) for n in (5, 7)
    ]

    def in_order(x, out):
        for i in range(len(x)):
            out[i] = x[i] + (out[i - 1] if i else 0)

    def in_any_order(x, out):
        for i in parallel(len(x)):
            out[i] = x[i] + (out[i - 1] if i else 0)

    agree(in_order, kernel, cases)
    with pytest.raises(CheckError):
        agree(in_any_order, kernel, cases)


def refusal(pseudocode, kernel, cases, below=0):
    with pytest.raises(LessonError) as caught:
        agree(pseudocode, kernel, cases)
    path, line = place_of(pseudocode)
    start = f"{path}:{line + below}: "
    assert str(caught.value).startswith(start)
    return str(caught.value)[len(start) :]


def test_two_sizes_that_do_not_divide_are_needed(shown):
    for cases in ([], CASES[:1], [CASES[0], CASES[0]], [CASES[0], CASES[2]]):
        assert refusal(row_sums, ROW_SUMS, cases).endswith(
            " of the cases have a size of their own that the block does not divide; two are needed, since "
            "mistakes at the edge show at such sizes only. Add cases with other sizes, such as primes."
        )


def blind(a):
    pass


def wants_more(a, out, scale):
    pass


def returns(a, out):
    return a.sum(axis=1)


def flat(a, out, rows, cols):
    for row in parallel(rows):
        out[row] = a[row * cols + 0]


@pytest.mark.parametrize(
    ("pseudocode", "below", "message"),
    [
        (blind, 0, 'agree(blind, kernel "row_sums"): the pseudocode does not take "out", which the kernel'),
        (
            wants_more,
            0,
            'pseudocode wants_more takes "scale", which the case does not name. The case has',
        ),
        (returns, 0, "pseudocode returns returns a value, and a kernel cannot. Write into the output arrays"),
        (flat, 2, 'pseudocode "flat" flattens an index: a[row * cols + 0].'),
    ],
)
def test_pseudocode_that_cannot_be_compared_is_refused(shown, pseudocode, below, message):
    assert refusal(pseudocode, ROW_SUMS, CASES, below).startswith(message)


def test_a_pair_that_writes_nothing_has_not_been_compared(shown):
    kernel = Kernel('extern "C" __global__ void idle(float* a) {}')
    cases = [case(a=normal(n), grid=1, block=32) for n in (5, 7)]
    assert refusal(blind, kernel, cases).startswith(
        'pseudocode blind and kernel "idle" leave a as it was in every case, so nothing was compared. '
    )


@pytest.mark.parametrize(
    ("shape", "grid", "block", "ragged"),
    [
        ((100,), 4, 32, True),
        ((128,), 4, 32, False),
        ((64, 48), (3, 4), (16, 16), False),
        ((64, 50), (4, 4), (16, 16), True),
        ((63, 48), (3, 4), (16, 16), True),
        ((128, 7), 4, 32, False),
        ((5, 1000), 5, 128, True),
        ((5, 1024), 5, 128, True),
        ((8, 1024), 8, 8, False),
        ((7,), 1, 1, True),
        ((8,), 1, 1, False),
        ((8, 1), 8, 1, False),
        ((8, 5), 8, 1, True),
    ],
)
def test_which_launches_do_not_divide(shape, grid, block, ragged):
    kernel = Kernel('extern "C" __global__ void f(float* x) {}')
    assert does_not_divide(kernel.on(case(x=output(*shape), grid=grid, block=block))) is ragged
