"""Bugs planted into the kernels of the lessons: 60 % of each lesson's sample are caught, and 90 % of all."""

from collections import Counter

import pytest

from .operators import Mutant
from .planting import LESSONS, SWEEP, Outcome, Subject, from_lesson, outcome, planted

ELSEWHERE = ("matmul/register_tiles_banks", "matmul/register_tiles_sizes")
"""Further pages whose kernels are those of their lesson, where bugs are planted into them."""
LESSONS_WITH_KERNELS = [
    pytest.param(name, id=name, marks=pytest.mark.sweep(f"lessons/{name}.py"))
    for name in (file.relative_to(LESSONS).with_suffix("").as_posix() for file in LESSONS.glob("*/*.py"))
    if "Kernel(" in (LESSONS / f"{name}.py").read_text(encoding="utf-8") and name not in ELSEWHERE
]
MOST = 6
"""Bugs planted into a kernel of a lesson; of more, every so many-th."""
LEAST, LEAST_OF_ALL = 0.6, 0.9
"""The fraction of planted bugs that is caught under the right name and line, or by the output: of a lesson,
and of all."""


def _by_text(lesson: str) -> dict[str, list[tuple[Subject, ...]]]:
    """A lesson's kernels by text: those that differ in defines stand together, the most launched first.

    A kernel with one other line, as a lesson shows what the line is for, is the same kernel.
    """
    found: dict[tuple[str | None, str], tuple[str, list[tuple[Subject, ...]]]] = {}
    for name, subjects in from_lesson(lesson).items():
        text = subjects[0].source.rpartition("#line 1\n")[2]
        entry = subjects[0].launch.kernel.name
        if any(_one_line_apart(text, other) for other_entry, other in found if other_entry == entry):
            continue
        found.setdefault((entry, text), (name, []))[1].append(subjects)
    return {name: sorted(variants, key=len, reverse=True) for name, variants in found.values()}


def _one_line_apart(text: str, other: str) -> bool:
    lines, others = text.split("\n"), other.split("\n")
    return len(lines) == len(others) and sum(one != two for one, two in zip(lines, others, strict=True)) == 1


def _of_lesson(variants: list[tuple[Subject, ...]]) -> list[tuple[Mutant, Outcome]]:
    """Of each bug that compiles: what it does, where it does anything, in any launch of its kernel.

    A variant with other defines gets the bugs that the ones before had no place for.
    """
    found, names = [], set()
    for subjects in variants:
        fresh = [mutant for mutant in planted(subjects[0]) if mutant.name not in names]
        names |= {mutant.name for mutant in fresh}
        for mutant in fresh[:: max(1, -(-len(fresh) // MOST))]:
            if (one := _of_launches(subjects, mutant)) is not None:
                found.append((mutant, one))
    return found


def _of_launches(subjects: tuple[Subject, ...], mutant: Mutant) -> Outcome | None:
    one = None
    for subject in subjects:
        one = outcome(subject, mutant)
        if one is None or one.kind != "survived":
            break
    return one


@SWEEP
@pytest.mark.sweep(at_least=LEAST_OF_ALL)
@pytest.mark.parametrize("lesson", LESSONS_WITH_KERNELS)
def test_bugs_planted_into_the_kernels_of_a_lesson(lesson, record_property):
    """Prints those that nothing shows, or that have an unexpected name or line: pytest --all -rP."""
    tally: Counter[str] = Counter()
    for name, variants in _by_text(lesson).items():
        for subject in (one for subjects in variants for one in subjects):
            run, wrong = subject.run()
            assert not run.hazards and not wrong, name
        for mutant, found in _of_lesson(variants):
            tally[found.kind] += 1
            if found.kind not in ("hazard", "check"):
                print(f"{lesson}: {name}: {mutant.name}: {found}")
    caught = tally["hazard"] + tally["check"]
    print(f"{caught} of {tally.total()} bugs in kernels of {lesson} are caught: {dict(tally)}")
    record_property("tally", f"{caught}/{tally.total()}")
    assert tally.total() > 0
    assert caught >= LEAST * tally.total()
