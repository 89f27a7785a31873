"""A lesson as a notebook with the same cells, for Jupyter and VS Code; the bytes are deterministic.

In: a parsed lesson, the numbers that it quotes, and the source of its package. Out: an ``.ipynb`` without
outputs. Prose stays Markdown, except for the site's extensions: definitions become quotations.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from tilewise.build.installation import Package
from tilewise.build.page.prose import edited, literal
from tilewise.course.lesson import Cell, Lesson
from tilewise.course.prose import Definition, Mention
from tilewise.course.typed_numbers import spelt_out

_KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}


def to_notebook(
    lesson: Lesson,
    quoted: Mapping[Mention, str] = MappingProxyType({}),
    package: Package | None = None,
    hardware: str = "",
) -> bytes:
    """The lesson as a notebook in format 4.5, with deterministic bytes.

    Args:
        lesson: the lesson.
        quoted: the text of each number that its prose quotes; a missing one stays as written.
        package: what its first cell installs; without it, tilewise has to be installed.
        hardware: a sentence on the GPU that it needs.
    """
    cells = []
    if package is not None:
        cells.append(_cell("code", package.installation(), lesson, -1, {"tags": ["installation"]}))
    cells.append(_cell("markdown", _opening(lesson, hardware), lesson, 0, {}))
    for index, cell in enumerate(lesson.cells):
        source = _plain(lesson, index, quoted) if cell.kind == "markdown" else cell.source
        cells.append(_cell(cell.kind, source, lesson, index + 1, _metadata(cell)))
    notebook = {
        "cells": cells,
        "metadata": {
            "kernelspec": _KERNEL,
            "language_info": {"name": "python"},
            "title": lesson.header.title,
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return (json.dumps(notebook, ensure_ascii=False, indent=1) + "\n").encode()


def _opening(lesson: Lesson, hardware: str) -> str:
    header = lesson.header
    return "\n\n".join(part for part in (f"# {header.title}", header.summary, hardware) if part)


def _metadata(cell: Cell) -> dict[str, Any]:
    options = {"tab": cell.tab, "needs": " ".join(cell.needs), "record": cell.record, "title": cell.title}
    return {name: value for name, value in options.items() if value}


def _cell(kind: str, source: str, lesson: Lesson, index: int, metadata: dict[str, Any]) -> dict[str, Any]:
    identity = hashlib.sha256(f"{lesson.id}\0{index}".encode()).hexdigest()[:12]
    lines = source.splitlines(keepends=True)
    cell: dict[str, Any] = {"cell_type": kind, "id": identity, "metadata": metadata, "source": lines}
    if kind == "code":
        cell |= {"execution_count": None, "outputs": []}
    return cell


def _plain(lesson: Lesson, index: int, quoted: Mapping[Mention, str]) -> str:
    source = lesson.cells[index].source
    edits = [
        (definition.place.start, definition.place.end, _quotation(definition))
        for definition in lesson.prose.definitions
        if definition.place.cell == index
    ]
    edits += [
        (mention.place.start, mention.place.end, literal(text))
        for mention, text in quoted.items()
        if mention.place.cell == index
    ]
    edits += spelt_out(source)
    return edited(source, edits)


def _quotation(definition: Definition) -> str:
    lines = f"**{definition.title}.** {definition.body}".split("\n")
    return "\n".join(f"> {line}".rstrip() for line in lines)
