"""Writes a project of synthetic lessons for tests of the site.

In: a folder and a number of lessons. Out: mkdocs.yml, docs/, lessons/ and a module that lessons import.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_LESSON = r"""# ---
# title: Synthetic lesson NUMBER
# needs: [NEEDS]
# summary: "What does lesson number NUMBER count?"
# ---

# %% [markdown]
# This lesson counts to NUMBER, which $n = NUMBER$ says shorter.BACK
#
# ??? definition "QuantityPADDED"
#     What lesson NUMBER counts, in whole numbers.

# %% [markdown]
# ## Section 1
#
# PARAGRAPH[^n1]
#
# PARAGRAPH
#
# $$
# O_i = \sum_{j=1}^{N} \frac{e^{s_{ij} - m_i}}{\ell_i} V_j
# $$
#
# [^n1]: A thread reads one number.

# %%
import numpy as np

from _scale import SCALE

from tilewise import Table, show
from tilewise.figures import Series, line_chart

values = np.arange(8) * SCALE + NUMBER
rows = [[int(value), int(value) ** 2] for value in values]
show(Table(["value", "square"], rows, caption="Squares, section 1"))
show(
    line_chart(
        [Series("square", values, values**2, role="measured")],
        title="The square outgrows its side in section 1",
        caption="Squares of eight values.",
        x="value",
        y="square",
    )
)

# %% [markdown]
# Two ways to write it:

# %% tab="Loop"
looped = 0
for value in values:
    looped = looped + int(value)

# %% tab="Sum"
summed = int(sum(range(9)))

# %% [markdown]
# ## Section 2
#
# PARAGRAPH[^n2]
#
# PARAGRAPH
#
# [^n2]: Another thread writes it.

# %% [markdown]
# ## Takeaways
#
# - Lesson NUMBER counts what it names.
# - Lesson NUMBER counts all of it.
# - Lesson NUMBER counts it once.

# %%
from tilewise import exercise

exercise("One more", "What is one more than two?", explanation="Three.")
"""
_PARAGRAPH = " ".join(
    ["A thread reads one number and writes another, while its neighbours do the same with theirs."] * 12
)


def write_project(folder: Path, lessons: int) -> list[str]:
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
        write_lesson(folder, name, index, names[index - 1] if index else "")
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


def write_lesson(folder: Path, name: str, index: int, need: str) -> Path:
    """Write one lesson and return its file."""
    file = folder / "lessons" / f"{name}.py"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(lesson_text(index, need), encoding="utf-8")
    return file


def lesson_text(index: int, need: str) -> str:
    """A lesson in percent format, the same for the same arguments."""
    back = f" It goes on from [the lesson before](../{need}.py)." if need else ""
    text = _LESSON.replace("PARAGRAPH", _PARAGRAPH).replace("NEEDS", need).replace("BACK", back)
    return text.replace("NUMBER", str(index + 1)).replace("PADDED", f"{index + 1:02}")
