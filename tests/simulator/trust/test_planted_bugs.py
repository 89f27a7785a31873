"""Bugs planted by operators into right kernels: each is caught by name and line, or changes the output.

Those that are not stand in `SURVIVORS` with the reason; one that is not listed fails the test, and so
does one that is listed and has since been caught.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.simulator.kernels import ORIGIN
from tilewise.gpu.kernel_source import KernelError
from tilewise.simulator import CompileError, HazardError

from .corpus import OWN, Subject
from .lesson_kernels import LESSONS, from_lesson
from .operators import OPERATORS, Mutant, mutants, shared_names

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
def _outcomes(number: int) -> tuple[tuple[Mutant, str, str], ...]:
    """Of each bug that compiles: hazard, elsewhere, misnamed, check or survived, and what was said."""
    subject = SUBJECTS[number]
    found = ((mutant, _outcome(subject, mutant)) for mutant in _mutants(subject))
    return tuple((mutant, *outcome) for mutant, outcome in found if outcome is not None)


def _outcome(subject: Subject, mutant: Mutant) -> tuple[str, str] | None:
    """What a bug does in a launch, and what was said; None where it does not compile, or does not fit."""
    try:
        run, wrong = subject.run(mutant.source, mutant.without)
    except (CompileError, KernelError):
        return None
    except HazardError as error:
        hazard = error.hazard
        assert error.line == ORIGIN[1] + hazard.line - 1
        where = "hazard" if {hazard.line, hazard.caller} & mutant.lines else "elsewhere"
        outcome = where if hazard.kind in mutant.kinds else "misnamed"
        return outcome, f"{hazard.kind} at line {hazard.line}: {hazard.source_line.strip()}"
    assert not run.hazards
    return ("check" if wrong else "survived"), ", ".join(wrong)


def _mutants(subject: Subject) -> list[Mutant]:
    given = subject.make(np.random.Generator(np.random.PCG64(11)))
    arrays = tuple(
        name
        for name in subject.parameters or given
        if isinstance(given[name], np.ndarray) and given[name].ndim and given[name].size > 1
    )
    return mutants(subject.source, arrays, subject.shared_bytes, subject.entry)


ALL = pytest.mark.parametrize("number", range(len(SUBJECTS)), ids=[one.name for one in SUBJECTS])


@ALL
def test_a_right_kernel_raises_no_alarm(number: int) -> None:
    run, wrong = SUBJECTS[number].run()
    assert not run.hazards and not wrong


@ALL
def test_planted_bugs_are_caught(number: int) -> None:
    subject = SUBJECTS[number]
    faults = []
    for mutant, outcome, said in _outcomes(number):
        key = (subject.name, mutant.name)
        reason = SURVIVORS.get(key)
        if outcome == "survived" and reason is None:
            faults.append(f"survived: {mutant.name}")
        if outcome != "survived" and reason is not None and reason not in MAY_BE_FOUND:
            faults.append(f"is no survivor any more: {mutant.name} ({outcome}: {said})")
        if outcome == "elsewhere" and key not in ELSEWHERE:
            faults.append(f"named elsewhere than at {sorted(mutant.lines)}: {mutant.name} ({said})")
        if outcome == "hazard" and key in ELSEWHERE:
            faults.append(f"is named at the right line now: {mutant.name}")
        if outcome == "misnamed":
            faults.append(f"is none of {sorted(mutant.kinds)}: {mutant.name} ({said})")
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


def test_survivors_are_bugs_that_are_planted() -> None:
    planted = {
        (subject.name, mutant.name)
        for number, subject in enumerate(SUBJECTS)
        for mutant, _, _ in _outcomes(number)
    }
    assert set(SURVIVORS) | set(ELSEWHERE) <= planted


def test_there_are_enough_of_them() -> None:
    tally: Counter[tuple[str, str]] = Counter()
    for number in range(len(SUBJECTS)):
        for mutant, outcome, _ in _outcomes(number):
            tally[mutant.operator, outcome] += 1
    outcomes = ("hazard", "elsewhere", "check", "survived")
    print(f"\n{'planted bugs':32}" + "".join(f"{one:>10}" for one in outcomes))
    for operator in OPERATORS:
        print(f"{operator:32}" + "".join(f"{tally[operator, one]:10}" for one in outcomes))
    print(f"{'in all':32}" + "".join(f"{sum(tally[o, one] for o in OPERATORS):10}" for one in outcomes))
    assert len(SUBJECTS) >= 12
    assert tally.total() >= 450
    for operator in OPERATORS:
        assert any(tally[operator, outcome] for outcome in outcomes), operator
    caught = sum(count for (_, outcome), count in tally.items() if outcome == "hazard")
    assert caught >= 0.85 * tally.total()


LESSONS_WITH_KERNELS = [
    file.relative_to(LESSONS).with_suffix("").as_posix()
    for file in sorted(LESSONS.glob("*/*.py"))
    if "Kernel(" in file.read_text(encoding="utf-8")
]
MOST = 24
"""Bugs planted into a kernel of a lesson; of more, every so many-th."""
LEAST, LEAST_OF_ALL = 0.7, 0.9
"""The share of planted bugs that is caught under the right name and line, or by the output: of a lesson, and
of all."""
PLANTED = "bugs planted"
NOT_CAUGHT = Path(__file__).with_name("lesson_bugs.txt")


def _by_text(lesson: str) -> dict[str, list[tuple[Subject, ...]]]:
    """A lesson's kernels by text: those that differ in defines stand together, the most launched first."""
    found: dict[tuple[str | None, str], tuple[str, list[tuple[Subject, ...]]]] = {}
    for name, subjects in from_lesson(lesson).items():
        text = subjects[0].source.rpartition("#line 1\n")[2]
        found.setdefault((subjects[0].entry, text), (name, []))[1].append(subjects)
    return {name: sorted(variants, key=len, reverse=True) for name, variants in found.values()}


def _of_lesson(variants: list[tuple[Subject, ...]]) -> list[tuple[Mutant, str, str]]:
    """As `_outcomes`, of a kernel with several launches: a bug is caught where any of them shows it.

    A variant with other defines gets the bugs that the ones before had no place for.
    """
    found, names = [], set()
    for subjects in variants:
        fresh = [mutant for mutant in _mutants(subjects[0]) if mutant.name not in names]
        names |= {mutant.name for mutant in fresh}
        found += _of_launches(subjects, fresh[:: max(1, -(-len(fresh) // MOST))])
    return found


def _of_launches(subjects: tuple[Subject, ...], planted: list[Mutant]) -> list[tuple[Mutant, str, str]]:
    found = []
    for mutant in planted:
        outcome: tuple[str, str] | None = None
        for subject in subjects:
            outcome = _outcome(subject, mutant)
            if outcome is None or outcome[0] != "survived":
                break
        if outcome is not None:
            found.append((mutant, *outcome))
    return found


@pytest.mark.parametrize("lesson", LESSONS_WITH_KERNELS)
def test_bugs_planted_into_the_kernels_of_a_lesson(lesson: str, golden: Callable[[Path, str], None]) -> None:
    """Those that nothing shows, or that have an unexpected name or line, stand by name in a golden file."""
    tally: Counter[str] = Counter()
    kept = []
    for name, variants in _by_text(lesson).items():
        for subject in (one for subjects in variants for one in subjects):
            run, wrong = subject.run()
            assert not run.hazards and not wrong, name
        for mutant, outcome, said in _of_lesson(variants):
            tally[outcome] += 1
            if outcome not in ("hazard", "check"):
                kept.append(f"{name}: {mutant.name}: {outcome}{': ' * bool(said)}{said}")
    print(f"\n{tally.total()} bugs in kernels of {lesson}: {dict(tally)}")
    golden(NOT_CAUGHT, _with_lines_of(lesson, [f"{lesson}: {tally.total()} {PLANTED}", *kept]))
    assert tally.total() > 0
    assert tally["hazard"] + tally["check"] >= LEAST * tally.total()


def _with_lines_of(lesson: str, kept: list[str]) -> str:
    """The golden file, in the order of the lessons, with these lines for one of them."""
    lines = NOT_CAUGHT.read_text(encoding="utf-8").splitlines()
    others = [line for line in lines if line.partition(":")[0] != lesson]
    return "".join(f"{line}\n" for line in sorted([*others, *kept], key=lambda line: line.partition(":")[0]))


def test_nine_in_ten_of_all_bugs_planted_into_lessons_are_caught() -> None:
    """By the golden file, which the tests of the lessons hold to what they find."""
    lines = NOT_CAUGHT.read_text(encoding="utf-8").splitlines()
    tallies = [line for line in lines if line.endswith(PLANTED)]
    planted = sum(int(line.split()[-3]) for line in tallies)
    assert {line.partition(":")[0] for line in lines} == set(LESSONS_WITH_KERNELS)
    assert len(tallies) == len(LESSONS_WITH_KERNELS)
    assert planted - (len(lines) - len(tallies)) >= LEAST_OF_ALL * planted
