"""Parsing: the percent format as jupytext reads it, headers, prose facts, and speed."""

from pathlib import Path
from typing import Any

import jupytext
import pytest

from tilewise.course.lesson import Lesson, decode, parse, read
from tilewise.errors import LessonError

ROOT = Path(__file__).resolve().parents[1]
REAL = sorted((ROOT / "lessons").glob("*/*.py"))
GOLDEN = sorted((Path(__file__).parent / "pages").glob("*.py"))

HEADER = "# ---\n# title: One\n# ---\n"
AWKWARD = {
    "blank lines around cells": HEADER + "\n# %%\n\n\nx = 1\n\n\n\n# %% [markdown]\n#\n# Prose.\n#\n\n\n",
    "no blank lines": HEADER + "# %% [markdown]\n# Prose.\n# %%\nx = 1\n# %%\ny = 2",
    "an empty cell": HEADER + "# %%\n\n# %% [markdown]\n# Prose.\n",
    "a marker in a string": HEADER + '# %%\ntext = """\n# %% not a cell\n"""\n\n# %%\ny = 2\n',
    "comments in code": HEADER + "# %%\n# A comment.\n# Another: #%% is none.\nx = 1  # %% nor this\n",
    "options": HEADER + '# %% tab="CUDA C" needs="torch triton" title="a \\"quoted\\" word"\nx = 1\n'
    '# %% tab="Triton"\ny = 1\n',
    "markdown with code": HEADER + "# %% [markdown]\n# ```python\n# # %% no marker\n# x = 1\n# ```\n",
    "deep comments": HEADER + "# %% [markdown]\n# # Heading\n#     indented\n# #\n",
}


def as_jupytext_reads(text: str) -> list[tuple[str, str]]:
    notebook = jupytext.reads(text, fmt="py:percent")
    return [(cell.cell_type, cell.source.strip("\n")) for cell in notebook.cells if cell.cell_type != "raw"]


def as_we_read(lesson: Lesson) -> list[tuple[str, str]]:
    return [(cell.kind, cell.source.strip("\n")) for cell in lesson.cells]


@pytest.mark.parametrize("name", AWKWARD)
def test_cells_are_what_jupytext_finds(name):
    text = AWKWARD[name]
    assert as_we_read(parse(text, "lessons/part/one.py", "part/one")) == as_jupytext_reads(text)


@pytest.mark.parametrize("file", [*REAL, *GOLDEN], ids=lambda file: f"{file.parent.name}/{file.name}")
def test_cells_of_whole_lessons_are_what_jupytext_finds(file):
    text = file.read_text()
    assert as_we_read(parse(text, "lessons/part/one.py", "part/one")) == as_jupytext_reads(text)


def test_a_header_is_read_whole():
    text = (
        "# ---\n# title: One\n# needs: [part/zero]\n# summary: 'How many?'\n# description: It counts.\n"
        "# date: 2026-11-21\n# tags: [a, b]\n# ---\n# %%\nx = 1\n"
    )
    header = parse(text, "a.py", "a").header
    assert (header.title, header.needs, header.summary) == ("One", ("part/zero",), "How many?")
    assert (header.description, header.date) == ("It counts.", "2026-11-21")
    assert header.tags == ("a", "b")
    assert header.line("needs") == 3


def prose_of(body: str) -> Any:
    text = "\n".join(f"# {line}".rstrip() for line in body.split("\n"))
    return parse(f"{HEADER}\n# %% [markdown]\n{text}\n", "a.py", "a").prose


def test_definitions_hold_names_text_and_place():
    prose = prose_of('Before.\n\n??? definition "Bank | banks, lines"\n    One of 32.\n\n    More.\n\nAfter.')
    (definition,) = prose.definitions
    assert definition.names == ("Bank", "banks, lines")
    assert definition.body == "One of 32.\n\nMore."
    assert (definition.place.line, definition.anchor) == (8, "term-bank")


@pytest.mark.parametrize(
    "hidden",
    [
        "`warp`",
        "``a ` warp``",
        "$warp$",
        "$$\nwarp\n$$",
        "# warp",
        "[warp](x.md)",
        "![warp](x.png)",
        "[warp][1]",
        "<!-- warp -->",
        '<a title="warp">',
        "```\nwarp\n```",
        "~~~\nwarp\n~~~",
        "    ```\n    warp\n    ```",
        '!!! note "warp"',
        "{{ warp }}",
        "text[^warp]",
        "{: .warp }",
        "<https://warp.example>",
    ],
)
def test_what_is_no_prose_holds_no_words(hidden):
    prose = prose_of(f"Before.\n\n{hidden}\n\nAfter.")
    assert "warp" not in prose.words
    assert {"before", "after"} <= prose.words


@pytest.mark.parametrize(
    "shown",
    ["warp", "(warp)", "a\nwarp", "*warp*", "a $ warp at 3 $", r"\$ warp \$", "- warp", "| warp |", "> warp"],
)
def test_what_is_prose_holds_its_words(shown):
    assert "warp" in prose_of(f"Before.\n\n{shown}\n\nAfter.").words


def test_footnotes_links_and_numbers_are_found_where_they_stand():
    prose = prose_of(
        "A[^one] [b](c.py#d) {{ e.f | ,.1f }} `{{ g }}`.\n\n[^one]: Text with [x](y.py).\n\n[z]: w.py\n"
    )
    assert [(note.text, note.place.line) for note in prose.notes] == [("one", 6)]
    assert [(note.text, note.place.line) for note in prose.note_texts] == [("one", 8)]
    assert [link.text for link in prose.links] == ["c.py#d", "y.py", "w.py"]
    assert [number.text for number in prose.numbers] == ["e.f | ,.1f"]


@pytest.mark.parametrize("name", ["1_one", "one two", "één", "one-two", "one.two"])
def test_a_file_that_no_import_could_name_is_refused(tmp_path, name):
    file = tmp_path / "lessons" / "part" / f"{name}.py"
    file.parent.mkdir(parents=True)
    file.write_text("# ---\n# title: One\n# ---\n\n# %%\nx = 1\n")
    with pytest.raises(
        LessonError, match=f'lessons/part/{name}.py:1: "{name}" is not a name that Python can'
    ):
        read(file, tmp_path)


def test_a_byte_order_mark_and_foreign_line_ends_change_nothing(tmp_path):
    text = "# ---\n# title: One\n# ---\n\n# %%\nx = 1\n\n# %% [markdown]\n# Prose.\n"
    for content in ("\ufeff" + text, text.replace("\n", "\r\n"), text.replace("\n", "\r")):
        parsed = parse(decode(content.encode(), "one.py"), "one.py", "one")
        assert parsed == parse(text, "one.py", "one")
