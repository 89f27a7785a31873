"""Writes a project of synthetic lessons, as large as a test of a site wants them.

In: a folder and a number of lessons. Out: mkdocs.yml, docs/, lessons/ and a module that lessons import. For
tests of the site and of the browser.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_TEXT = """a thread reads one number and writes another while its neighbours do the same with theirs so that
the memory sees whole lines and the block waits for the slowest of them before the next tile is taken from the
matrix and the sum grows by what two rows have in common until nothing of either is left to read"""
_WORDS = _TEXT.split()
_EXERCISE = """# %%
from tilewise import exercise

exercise("One more", "What is one more than two?", explanation="Three.")"""


@dataclass(frozen=True)
class Size:
    """How much a synthetic lesson holds."""

    words: int = 60
    code_cells: int = 1
    tab_sets: int = 1
    footnotes: int = 2


SMALL = Size()


def write_project(folder: Path, lessons: int, size: Size = SMALL) -> list[str]:
    """Write a project that plain ``mkdocs serve`` and ``mkdocs build`` work in.

    Returns:
        The lessons' ids in reading order.
    """
    names = [f"part_{index // 6 + 1}/lesson_{index + 1:02}" for index in range(lessons)]
    (folder / "docs").mkdir(parents=True, exist_ok=True)
    (folder / "docs" / "index.md").write_text("# Course\n\n{{ course.map }}\n", encoding="utf-8")
    (folder / "docs" / "glossary.md").write_text("# Glossary\n\n{{ course.glossary }}\n", encoding="utf-8")
    (folder / "docs" / "errors.md").write_text("# Errors\n\n::: tilewise.errors\n", encoding="utf-8")
    for part in sorted({name.split("/")[0] for name in names}):
        module = folder / "lessons" / part / "_scale.py"
        module.parent.mkdir(parents=True, exist_ok=True)
        module.write_text('"""A number that this part\'s lessons import."""\n\nSCALE = 3\n', encoding="utf-8")
    for index, name in enumerate(names):
        write_lesson(folder, name, index, names[index - 1] if index else "", size)
    write_config(folder, names)
    return names


def write_config(folder: Path, names: list[str]) -> None:
    """Write mkdocs.yml: the project's own, with another nav and without what only tilewise's docs have."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    nav = ["nav:", "  - index.md", "  - Lessons:", *(f"      - lessons/{name}.py" for name in names)]
    nav += ["  - glossary.md", "  - errors.md"]
    text = re.sub(r"^nav:\n(?:[ #].*\n|\n(?=[ ]))*", "\n".join(nav) + "\n", text, flags=re.MULTILINE)
    text = re.sub(r"^watch:\n(?:  .*\n)*", "watch:\n  - lessons\n", text, flags=re.MULTILINE)
    text = re.sub(r"^  favicon: .*\n", "", text, flags=re.MULTILINE)
    text = text.replace("paths: [src]", f"paths: [{ROOT.as_posix()}/src]")
    (folder / "mkdocs.yml").write_text(text, encoding="utf-8")


def write_lesson(folder: Path, name: str, index: int, need: str, size: Size = SMALL) -> Path:
    """Write one lesson and return its file."""
    file = folder / "lessons" / f"{name}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(lesson_text(index, need, size), encoding="utf-8")
    return file


def lesson_text(index: int, need: str, size: Size = SMALL) -> str:
    """A lesson in percent format, the same for the same arguments."""
    draw = random.Random(index)
    needs = f"[{need}]" if need else "[]"
    header = [
        "# ---",
        f"# title: Synthetic lesson {index + 1}",
        f"# needs: {needs}",
        f'# summary: "What does lesson number {index + 1} count?"',
        "# ---",
    ]
    cells = [_prose(_opening(index, need))]
    sections = max(size.code_cells, size.tab_sets, 1)
    notes = [f"n{number}" for number in range(1, size.footnotes + 1)]
    for section in range(sections):
        here = notes[section::sections]
        words = size.words // sections + 1
        cells.append(_prose(_section(section, words, here, draw)))
        if section < size.code_cells:
            cells.append(_code(section, index))
        if section < size.tab_sets:
            cells += [_prose(["Two ways to write it:"]), *_tabs(section)]
    facts = [f"- Lesson {index + 1} counts {what}." for what in ("what it names", "all of it", "it once")]
    cells += [_prose(["## Takeaways", "", *facts]), _EXERCISE]
    return "\n".join(header) + "\n\n" + "\n\n".join(cells) + "\n"


def _opening(index: int, need: str) -> list[str]:
    back = f" It goes on from [the lesson before](../{need}.py)." if need else ""
    lines = [f"This lesson counts to {index + 1}, which $n = {index + 1}$ says shorter.{back}", ""]
    lines += [
        f'??? definition "Quantity{index + 1:02}"',
        f"    What lesson {index + 1} counts, in whole numbers.",
    ]
    return lines


def _section(section: int, words: int, notes: list[str], draw: random.Random) -> list[str]:
    lines = [f"## Section {section + 1}", ""]
    text = [draw.choice(_WORDS) for _ in range(words)]
    for at, note in enumerate(notes):
        text[(at + 1) * words // (len(notes) + 1)] += f"[^{note}]"
    for start in range(0, words, 60):
        part = text[start : start + 60]
        lines += [" ".join(part).capitalize() + ".", ""]
    lines += [r"$$", r"O_i = \sum_{j=1}^{N} \frac{e^{s_{ij} - m_i}}{\ell_i} V_j", r"$$", ""]
    for note in notes:
        lines += [f"[^{note}]: " + " ".join(draw.choice(_WORDS) for _ in range(8)).capitalize() + ".", ""]
    return lines[:-1]


def _code(section: int, index: int) -> str:
    lines = ["# %%"]
    if section == 0:
        lines += [
            "import numpy as np",
            "",
            "from _scale import SCALE",
            "",
            "from tilewise import Table, show",
            "",
        ]
    if section == 0:
        lines += ["from tilewise.figures import Series, line_chart", ""]
    lines += [
        f"values_{section} = np.arange(8) * SCALE + {index}",
        f"rows_{section} = [[int(value), int(value) ** 2] for value in values_{section}]",
        f'show(Table(["value", "square"], rows_{section}, caption="Squares, section {section + 1}"))',
    ]
    if section == 0:
        lines += [
            "show(",
            "    line_chart(",
            f'        [Series("square", values_{section}, values_{section} ** 2, role="measured")],',
            f'        title="The square outgrows its side in section {section + 1}",',
            '        caption="Squares of eight values.",',
            '        x="value",',
            '        y="square",',
            "    )",
            ")",
        ]
    return "\n".join(lines)


def _tabs(section: int) -> list[str]:
    loop = [
        f"looped_{section} = 0",
        f"for value in values_{section}:" if section == 0 else "for value in range(9):",
    ]
    return [
        "\n".join(['# %% tab="Loop"', *loop, f"    looped_{section} = looped_{section} + int(value)"]),
        "\n".join(['# %% tab="Sum"', f"summed_{section} = int(sum(range(9)))"]),
    ]


def _prose(lines: list[str]) -> str:
    return "\n".join(["# %% [markdown]", *(f"# {line}".rstrip() for line in lines)])
