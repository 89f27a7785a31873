"""Writes a project of synthetic lessons, large enough to time a site with and dull enough to compare.

In: a folder and a number of lessons. Out: mkdocs.yml, docs/, lessons/ and a module that lessons import; and,
for comparison, the same lessons for stock mkdocs-jupyter. Each lesson has at least 1,200 words, 8 code cells,
8 sets of tabs, 20 footnotes, 3 figures and one simulated kernel. Used by ``site.py`` and by ``tests/site``.
"""

from __future__ import annotations

import random
import re
import shutil
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

    words: int = 1200
    code_cells: int = 8
    tab_sets: int = 8
    footnotes: int = 20
    figures: int = 3
    kernel: bool = True


FULL = Size()
SMALL = Size(words=60, code_cells=1, tab_sets=1, footnotes=2, figures=1, kernel=False)


def write_project(folder: Path, lessons: int = 24, size: Size = FULL) -> list[str]:
    """Write a project that plain ``mkdocs serve`` and ``mkdocs build`` work in.

    Returns:
        The lessons' ids in reading order.
    """
    names = [f"part_{index // 6 + 1}/lesson_{index + 1:02}" for index in range(lessons)]
    (folder / "docs").mkdir(parents=True, exist_ok=True)
    (folder / "docs" / "index.md").write_text(
        "# Course\n\n{{ course.map }}\n\n{{ course.lessons }}\n", encoding="utf-8"
    )
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


def write_stock(folder: Path, names: list[str]) -> None:
    """Beside a project, write ``stock/``: the same lessons as stock mkdocs-jupyter takes them."""
    stock = folder / "stock"
    for name in names:
        page = stock / "docs" / f"{name}.py"
        page.parent.mkdir(parents=True, exist_ok=True)
        text = (folder / "lessons" / f"{name}.py").read_text(encoding="utf-8")
        page.write_text(re.sub(r'^(# %%) tab=".*"$', r"\1", text, flags=re.MULTILINE), encoding="utf-8")
    for module in (folder / "lessons").glob(
        "*/_scale.py"
    ):  # a kernel finds modules in the folder MkDocs runs in
        shutil.copy(module, stock)
    (stock / "docs" / "index.md").write_text("# Course\n", encoding="utf-8")
    nav = "\n".join(["  - index.md", *(f"  - {name}.py" for name in names)])
    (stock / "mkdocs.yml").write_text(
        "site_name: Stock\nsite_url: http://127.0.0.1:8000/\n"
        f"nav:\n{nav}\n"
        "theme:\n  name: material\n  font: false\n"
        "plugins:\n  - search\n  - mkdocs-jupyter:\n      execute: true\n      allow_errors: false\n",
        encoding="utf-8",
    )


def write_lesson(folder: Path, name: str, index: int, need: str, size: Size = FULL) -> Path:
    """Write one lesson and return its file."""
    file = folder / "lessons" / f"{name}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(lesson_text(index, need, size), encoding="utf-8")
    return file


def lesson_text(index: int, need: str, size: Size = FULL) -> str:
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
            cells.append(_code(section, index, size))
        if section < size.tab_sets:
            cells += [_prose(["Two ways to write it:"]), *_tabs(section)]
    if size.kernel:
        cells += [_prose(["## The kernel", "", "One block of 64 threads over 100 numbers."]), _kernel(index)]
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


def _code(section: int, index: int, size: Size) -> str:
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
    if section == 0 and size.figures:
        lines += ["from tilewise.figures import Series, line_chart", ""]
    lines += [
        f"values_{section} = np.arange(8) * SCALE + {index}",
        f"rows_{section} = [[int(value), int(value) ** 2] for value in values_{section}]",
        f'show(Table(["value", "square"], rows_{section}, caption="Squares, section {section + 1}"))',
    ]
    if section < size.figures:
        lines += [
            "show(",
            "    line_chart(",
            f'        [Series("square", values_{section}, values_{section} ** 2, role="measured")],',
            f'        title="The square outgrows its side in section {section + 1}",',
            '        caption="Squares of eight numbers.",',
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


def _kernel(index: int) -> str:
    return "\n".join(
        [
            "# %%",
            "from tilewise import Kernel, agree, case, ceil_div, normal, output, parallel",
            "",
            'ADD = Kernel(r"""',
            'extern "C" __global__ void add(const float* a, float* out, int n) {',
            "    int i = blockIdx.x * blockDim.x + threadIdx.x;",
            f"    if (i < n) out[i] = a[i] + {index + 1}.0f;",
            "}",
            '""")',
            "",
            "def add(a, out):",
            "    for i in parallel(len(a)):",
            f"        out[i] = a[i] + {index + 1}.0",
            "",
            "def numbers(n):",
            "    return case(a=normal(n), out=output(n), n=n, grid=ceil_div(n, 64), block=64)",
            "",
            "agree(add, ADD, [numbers(n) for n in (90, 100)], atol=1e-5)",
        ]
    )


def _prose(lines: list[str]) -> str:
    return "\n".join(["# %% [markdown]", *(f"# {line}".rstrip() for line in lines)])
