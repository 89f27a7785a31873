"""Wrong answers, more than ten a puzzle: each is turned down, and told what is wrong, where, and what to do.

The answers stand in ``wrong/<puzzle>.txt`` as edits of the solution. What is said of each stands beside it in
``.said.txt``, and changes only with ``pytest --update``.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.sweeps import SIMULATOR
from tilewise.errors import LessonError
from tilewise.puzzles.catalogue import NAMES, named
from tilewise.puzzles.judging import judge

HERE = Path(__file__).parent / "wrong"


@dataclass(frozen=True)
class Wrong:
    """A wrong answer to a puzzle."""

    title: str
    edits: tuple[tuple[str, str], ...]

    def of(self, solution: str) -> str:
        """The solution with the edits, each of which fits one place."""
        text = solution
        for old, new in self.edits:
            assert text.count(old) == 1, f"{self.title}: {old!r} stands {text.count(old)} times in\n{text}"
            text = text.replace(old, new)
        return text


def wrong_answers(name: str) -> list[Wrong]:
    """What ``wrong/<name>.txt`` holds: a title behind ``===``, then edits, lines with ``-`` and ``+``."""
    found = []
    for entry in re.split(r"^=== ", (HERE / f"{name}.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)[
        1:
    ]:
        title, _, body = entry.partition("\n")
        edits: list[tuple[list[str], list[str]]] = []
        for line in body.splitlines():
            if line.startswith("-"):
                if not edits or edits[-1][1]:
                    edits.append(([], []))
                edits[-1][0].append(line[2:])
            elif line.startswith("+"):
                edits[-1][1].append(line[2:])
            else:
                assert not line.strip(), f"{name}: {title}: a line that is no edit: {line}"
        found.append(Wrong(title, tuple(("\n".join(old), "\n".join(new)) for old, new in edits)))
    return found


def said(name: str) -> dict[str, str]:
    """What the judge says of each wrong answer, by title."""
    puzzle = named(name)
    found = {}
    for wrong in wrong_answers(name):
        try:
            judge(puzzle, wrong.of(puzzle.solution), "answer.cu")
        except LessonError as error:
            found[wrong.title] = str(error)
        else:
            found[wrong.title] = "SOLVED"
    return found


def _sweep(name: str) -> object:
    """A puzzle with its wrong answers, and what is said of them."""
    files = (
        f"src/tilewise/puzzles/{name}.py",
        *(f"tests/puzzles/wrong/{name}{end}.txt" for end in ("", ".said")),
    )
    return pytest.param(name, marks=pytest.mark.sweep(*files))


@pytest.mark.sweep(
    *SIMULATOR, "src/tilewise/errors.py", "src/tilewise/puzzles/*.py", packages=["numpy", "ziglang"]
)
@pytest.mark.parametrize("name", [_sweep(name) for name in NAMES])
def test_each_wrong_answer_is_turned_down_with_its_reason(name, golden):
    found = said(name)
    assert len(found) >= 10
    assert not [title for title, message in found.items() if message == "SOLVED"]
    text = "\n\n".join(f"=== {title}\n{message}" for title, message in found.items())
    golden(HERE / f"{name}.said.txt", f"{text}\n")


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_names_a_line_or_an_element_and_a_size(name):
    for entry in re.split(
        r"^=== ", (HERE / f"{name}.said.txt").read_text(encoding="utf-8"), flags=re.MULTILINE
    )[1:]:
        message = entry.partition("\n")[2].strip()
        if any(text in message for text in ("does not compile", "The puzzle launches", "left nothing of")):
            continue
        at_line = re.match(r"answer\.cu:\d+: ", message)
        at_element = re.match(r"answer\.cu: wrong value: \w+\[", message)
        assert at_line or at_element, message
        assert re.search(r" blocks? of \d+ ", message), message
        assert not message.endswith("…"), message


def test_there_are_wrong_answers_for_every_puzzle_and_for_no_other():
    files = {file.relative_to(HERE).with_suffix("").as_posix() for file in HERE.glob("*/*.txt")}
    assert {name for name in files if not name.endswith(".said")} == set(NAMES)
    assert {name.removesuffix(".said") for name in files if name.endswith(".said")} == set(NAMES)
