"""Bugs planted by operators into right kernels: each is caught by name and line, or changes the output.

Those that are not stand in `SURVIVORS` with the reason; one that is not listed fails the test, and so
does one that is listed and has since been caught.
"""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from .corpus import OWN
from .operators import OPERATORS, Mutant, mutants, shared_names
from .planting import SWEEP, Outcome, outcome, planted

SUBJECTS = OWN
SAME = "every thread that writes writes the same value"
NO_EFFECT_HERE = "at these sizes the condition decides nothing"
OVERWRITTEN = "the second warp writes the other half of the array, which is filled again before it is read"
TAIL = "an arrival that nobody waits for at the end of a kernel is not found"

SURVIVORS: dict[tuple[str, str], str] = {
    ("tiled", "comparison: int k = 0; k < K; k + -> <= in `for (int k = 0; k < K; k += T) {`"): (
        "one more tile, of zeros, at most"
    ),
    ("tree_sum", "drop a guard: if (t == 0) in `if (t == 0) y[blockIdx.x] = s[0];`"): SAME,
    ("tree_sum", "widened access: s[0] in `if (t == 0) y[blockIdx.x] = s[0];`"): "s[0] is aligned",
    ("softmax_block", "drop a guard: if (lane == 0) in `if (lane == 0) most[warp] = m;`"): SAME,
    ("softmax_block", "drop a guard: if (lane == 0) in `if (lane == 0) total[warp] = z;`"): SAME,
    ("scan", "comparison: int d = 1; d < 96; d -> <= in `for (int d = 1; d < 96; d *= 2) {`"): (
        "d takes powers of two, of which 96 is none"
    ),
    ("stencil", "widened access: x[i + 1] in `if (t == 63) s[65] = i + 1 < n ? x[i + 1] : 0.0f;`"): (
        "thread 63 reads x[64], which is aligned"
    ),
    ("compact", "array too small: kept of the launch"): "the last place stays free with this input",
    (
        "pipeline",
        'drop a guard: if (k + 2 < tiles) in `if (k + 2 < tiles) asm volatile("bar.arrive %0, 64;" '
        ':: "r"(3 + k % 2) : "memory");`',
    ): TAIL,
    (
        "pipeline",
        'comparison: if (k + 2 < tiles) -> <= in `if (k + 2 < tiles) asm volatile("bar.arrive %0, 64;" '
        ':: "r"(3 + k % 2) : "memory");`',
    ): TAIL,
    (
        "double_buffer",
        "drop a guard: if (threadIdx.x < 32) in `if (threadIdx.x < 32) part[0][threadIdx.x] = "
        "threadIdx.x < cols ? x[threadIdx.x] : 0.0f;`",
    ): OVERWRITTEN,
    (
        "double_buffer",
        "drop a guard: threadIdx.x < cols ? x[threadIdx.x] : 0.0f in `if (threadIdx.x < 32) "
        "part[0][threadIdx.x] = threadIdx.x < cols ? x[threadIdx.x] : 0.0f;`",
    ): NO_EFFECT_HERE,
    (
        "double_buffer",
        "comparison: (threadIdx.x < 32) pa -> <= in `if (threadIdx.x < 32) part[0][threadIdx.x] = "
        "threadIdx.x < cols ? x[threadIdx.x] : 0.0f;`",
    ): OVERWRITTEN,
    (
        "double_buffer",
        "comparison: threadIdx.x < cols ? -> <= in `if (threadIdx.x < 32) part[0][threadIdx.x] = "
        "threadIdx.x < cols ? x[threadIdx.x] : 0.0f;`",
    ): NO_EFFECT_HERE,
    (
        "double_buffer",
        "comparison: int k = 0; k < cols; -> <= in `for (int k = 0; k < cols; k += 32) {`",
    ): "one more pass, over nothing, at most",
}
"""Planted bugs that neither a hazard nor the output shows, and why."""

MAY_BE_FOUND = frozenset((TAIL,))
"""Reasons that are gaps of the simulator; where it learns to see them, the entry may go."""

MOVED = "clang moves the loads of `total` into the branch behind them and drops their line"
SECOND = "`z = total[0] + total[1] + total[2];`"
ELSEWHERE: dict[tuple[str, str], str] = {
    ("softmax_block", name): MOVED
    for name in (
        "drop a barrier: __syncthreads(); in `__syncthreads();` (2)",
        f"index off by one: [0] - 1 in {SECOND}",
        f"index off by one: [2] + 1 in {SECOND}",
        f"widened access: total[0] in {SECOND}",
        f"widened access: total[1] in {SECOND}",
        f"widened access: total[2] in {SECOND}",
    )
}
"""Caught under the right name, one line further down."""


@cache
def _outcomes(number: int) -> tuple[tuple[Mutant, Outcome], ...]:
    """Of each bug that compiles."""
    found = ((mutant, outcome(SUBJECTS[number], mutant)) for mutant in planted(SUBJECTS[number]))
    return tuple((mutant, one) for mutant, one in found if one is not None)


ALL = pytest.mark.parametrize("number", range(len(SUBJECTS)), ids=[one.name for one in SUBJECTS])


@ALL
def test_a_right_kernel_raises_no_alarm(number: int) -> None:
    run, wrong = SUBJECTS[number].run()
    assert not run.hazards and not wrong


@SWEEP
@ALL
def test_planted_bugs_are_caught(number: int) -> None:
    subject = SUBJECTS[number]
    faults = []
    for mutant, found in _outcomes(number):
        key = (subject.name, mutant.name)
        reason = SURVIVORS.get(key)
        if found.kind == "survived" and reason is None:
            faults.append(f"survived: {mutant.name}")
        if found.kind != "survived" and reason is not None and reason not in MAY_BE_FOUND:
            faults.append(f"is no survivor any more: {mutant.name} ({found})")
        if found.kind == "elsewhere" and key not in ELSEWHERE:
            faults.append(f"named elsewhere than at {sorted(mutant.lines)}: {mutant.name} ({found})")
        if found.kind == "hazard" and key in ELSEWHERE:
            faults.append(f"is named at the right line now: {mutant.name}")
        if found.kind == "misnamed":
            faults.append(f"is none of {sorted(mutant.kinds)}: {mutant.name} ({found})")
    assert not faults, "\n".join(faults)


TWO_OF_A_SOURCE = """
#define ME threadIdx.x
__device__ float mine(const float* x) { return x[ME]; }
template <int N> static __device__ float twice(const float* x) { return N * mine(x) + x[0]; }
extern "C" __global__
void first(const float* x, float* y, int n) {
    if (ME < n) {
        y[ME] = twice<2>(x);
    }
}
extern "C" __global__ void __launch_bounds__(64) second(const float* x, float* y, int n) {
    if (ME < n) y[ME] = x[ME];  // unlike first
}"""


def test_bugs_are_planted_into_the_kernel_that_is_launched_and_into_its_helpers() -> None:
    lines = {
        entry: {mutant.line for mutant in mutants(TWO_OF_A_SOURCE, entry=entry)}
        for entry in ("first", "second", None)
    }
    assert lines == {"first": {3, 4, 7, 8}, "second": {12}, None: {3, 4, 7, 8, 12}}


def test_what_is_shared_is_known_behind_an_alignment_and_without_brackets() -> None:
    source = (
        "__shared__ __align__(8) u64 whole, full[STAGES], free[2][N];\n__shared__ float s[4];\nint other[3];"
    )
    assert shared_names(source) == {"whole", "full", "free", "s"}


TWO_TEXTS_IN_ONE = """#define TEAM 4
#line 1
#define WIDE (TEAM * 2)
extern "C" __global__ void k(float* x, int n) {
#if WIDE > 4 && !defined(OLD)
    x[threadIdx.x] = 1.0f;
#elif TEAM == 4
    x[threadIdx.x] = 2.0f;
#else
    x[threadIdx.x] = 3.0f;
#endif
#ifdef OLD
    x[threadIdx.x] = 4.0f;
#endif
}"""


@pytest.mark.parametrize(
    ("team", "old", "lines"), [(4, False, {4}), (1, False, {8}), (4, True, {6, 11}), (1, True, {8, 11})]
)
def test_no_bug_is_planted_into_text_that_the_preprocessor_drops(
    team: int, old: bool, lines: set[int]
) -> None:
    source = TWO_TEXTS_IN_ONE.replace("TEAM 4", f"TEAM {team}" + old * "\n#define OLD")
    assert {one.line for one in mutants(source, entry="k")} == lines


@pytest.mark.parametrize(
    ("line", "accessed"),
    [
        ("float4 v[4];", []),
        ("const float a[2][8], b[C / 4] = {x[i], y[j]}, z = w[k];  // w[k] again", ["[i]", "[j]", "[k]"]),
        ("extern __shared__ __align__(16) unsigned char store[N];", []),
        ("struct Map { unsigned long long words[16]; };", []),
        ("__device__ void add(float (&to)[8][4], const float* from, int at[2]) {", []),
        ("else s[i] = ((const float4*)x)[k].x;", ["[i]", "[k]"]),
        ("ALL s[2 * r + 1][c] += a[r] * b[c];", ["[2 * r + 1]", "[c]", "[r]", "[c]"]),
        ("return word[row[i]];", ["[row[i]]"]),
        ("int i = x[3], j = y[2];", ["[3]", "[2]"]),
    ],
)
def test_no_array_is_declared_with_another_length_as_if_that_were_an_index(
    line: str, accessed: list[str]
) -> None:
    planted = [one.was for one in mutants(line) if one.operator == "index off by one"]
    assert [was.partition(" in ")[0] for was in planted if "] + 1" in was] == [f"{at} + 1" for at in accessed]


@SWEEP
def test_survivors_are_bugs_that_are_planted() -> None:
    planted = {
        (subject.name, mutant.name)
        for number, subject in enumerate(SUBJECTS)
        for mutant, _ in _outcomes(number)
    }
    assert set(SURVIVORS) | set(ELSEWHERE) <= planted


@SWEEP
def test_there_are_enough_of_them() -> None:
    tally: Counter[tuple[str, str]] = Counter()
    for number in range(len(SUBJECTS)):
        for mutant, found in _outcomes(number):
            tally[mutant.operator, found.kind] += 1
    outcomes = ("hazard", "elsewhere", "check", "survived")
    print(f"\n{'planted bugs':32}" + "".join(f"{one:>10}" for one in outcomes))
    for operator in OPERATORS:
        print(f"{operator:32}" + "".join(f"{tally[operator, one]:10}" for one in outcomes))
    print(f"{'in all':32}" + "".join(f"{sum(tally[o, one] for o in OPERATORS):10}" for one in outcomes))
    assert len(SUBJECTS) >= 12
    assert tally.total() >= 450
    for operator in OPERATORS:
        assert any(tally[operator, kind] for kind in outcomes), operator
    caught = sum(count for (_, kind), count in tally.items() if kind == "hazard")
    assert caught >= 0.85 * tally.total()
