"""Each puzzle is whole: one text for gaps and solution, and a budget that a solution needs."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tilewise.course.typed_numbers import faults
from tilewise.cuda.kernel_source import tokens
from tilewise.errors import LessonError
from tilewise.outputs import CollectingSink, installed
from tilewise.outputs.base import Context, decode, encode
from tilewise.puzzles.catalogue import NAMES, following, named
from tilewise.puzzles.judging import judge
from tilewise.puzzles.model import Limit, Puzzle
from tilewise.puzzles.output import PuzzleOutput, puzzle

LESSONS = Path(__file__).parents[2] / "lessons"
CONTEXT = Context("kernels/puzzles", 1, lambda suffix, content: "", lambda wanted: wanted)


def shown(name: str) -> PuzzleOutput:
    with installed(CollectingSink()) as sink:
        puzzle(name)
    (output,) = sink.outputs
    assert isinstance(output, PuzzleOutput)
    return output


@pytest.mark.parametrize("name", NAMES)
def test_the_solution_is_right_at_every_size_and_needs_most_of_the_budget(name):
    found = named(name)
    verdict = judge(found, found.solution, found.file)
    assert verdict.launches == len(found.trials) >= 5
    for one in verdict.spent:
        assert one.counted <= one.most <= 1.5 * one.counted, one


@pytest.mark.parametrize("name", NAMES)
def test_the_readers_file_lacks_the_solution_and_is_told_so(name):
    found = named(name)
    assert "gap" not in found.start
    assert "Your code: " in found.start
    kept = [line for line in found.gaps.splitlines() if not re.match(r"\s*// (Your code: |  )", line)]
    solved = found.solution.splitlines()
    assert all(line in solved for line in kept)
    missing = [line for line in solved if line not in kept]
    assert missing
    assert not any(line in found.start for line in missing if len(line.strip()) > 1)
    assert max(map(len, found.gaps.splitlines())) <= 82
    assert max(map(len, found.start.splitlines())) <= 100
    with pytest.raises(LessonError, match=r"the gaps are still empty\. Write your code here") as caught:
        judge(found, found.start, found.file)
    assert "Your code: " in found.start.splitlines()[caught.value.line - 1]


@pytest.mark.parametrize("name", [name for name in NAMES if named(name).plain])
def test_the_plain_kernel_is_right_and_over_budget(name):
    found = named(name)
    with pytest.raises(LessonError, match="over budget by"):
        judge(found, found.plain, found.file)
    unlimited = replace(found, limits=())
    assert judge(unlimited, found.plain, found.file).launches == len(found.trials)


@pytest.mark.parametrize("name", NAMES)
def test_some_size_does_not_divide_and_one_is_small(name):
    threads, elements = [], []
    for trial in named(name).trials:
        assert trial.case.grid and trial.case.block
        total = 1
        for blocks, one in zip(trial.case.grid, trial.case.block, strict=True):
            total *= blocks * one
        threads.append(total)
        elements.append(max(getattr(value, "size", 1) for value in trial.case.values.values()))
    if name != "kernels/map":
        assert any(count % one for count, one in zip(elements, threads, strict=True))
    assert min(elements) <= 64


@pytest.mark.parametrize("name", NAMES)
def test_a_page_shows_the_puzzle_and_folds_hints_and_solution(name):
    output = shown(name)
    assert decode(encode(output)) == output
    assert output.with_texts(output.texts()) == output
    page = output.markdown(CONTEXT)
    found = named(name)
    opened = page.split("??? hint")[0]
    for line in found.gaps.splitlines():
        assert line.strip() in opened
    assert f"tilewise puzzle start {name}" in opened
    assert page.count("??? hint") == len(found.hint_list) >= 3
    assert page.count("??? answer") == 1
    assert page.index("??? answer") > page.rindex("??? hint")
    assert page.startswith('!!! exercise puzzle "')
    assert "_[" not in output.text()
    assert not [fault for text in output.texts() for fault in faults(text)], "a measured number is typed"


def test_a_solution_over_its_budget_stops_the_page():
    found = named("kernels/guard")
    mean = replace(found, limits=(Limit("global_load.sectors", lambda v: 1, "of this test"),))
    with pytest.raises(
        LessonError, match=r"over budget by 249: .* the budget is 1\..* Why 1 is enough: of this test\."
    ):
        judge(mean, found.solution, found.file)


def test_names_lead_to_puzzles_and_a_wrong_one_is_told_the_nearest():
    assert all(isinstance(named(name), Puzzle) and named(name).part in name for name in NAMES)
    titles = Counter(named(name).title for name in NAMES)
    assert not [title for title, count in titles.items() if count > 1], "two puzzles have one title"
    assert [following(name) for name in NAMES] == [*NAMES[1:], ""]
    with pytest.raises(LessonError, match=r'no such puzzle\. Did you mean "kernels/guard"'):
        named("kernels/gard")


def test_every_puzzle_stands_on_its_parts_page_in_the_catalogues_order():
    parts = dict.fromkeys(name.split("/")[0] for name in NAMES)
    pages = [(LESSONS / part / "puzzles.py").read_text(encoding="utf-8") for part in parts]
    shown_there = [
        name for page in pages for name in re.findall(r'^puzzle\("([^"]+)"\)$', page, re.MULTILINE)
    ]
    assert shown_there == list(NAMES)


def test_an_answer_may_be_written_anew_around_the_same_kernel():
    found = named("kernels/guard")
    text = f"\n\n// mine\n__device__ float twice(float x) {{ return x + x; }}\n{found.solution}"
    text = text.replace("2.0f * a[i]", "twice(a[i])")
    assert tokens(text) != tokens(found.solution)
    assert judge(found, text, "mine.cu").launches == 5
    with pytest.raises(
        LessonError, match=r"^mine\.cu:9: out of bounds: thread 232 of block 3 reads a\[1000\]"
    ):
        judge(found, text.replace("if (i < n)", ""), "mine.cu")
