"""The reading order and the parts of the course, from ``nav`` in mkdocs.yml.

In: MkDocs's configuration. Out: the lessons' ids in order and by section, and the line of each in mkdocs.yml.
``tilewise.course.rules`` checks the order against the lessons' needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tilewise.build.page.layout import is_lesson, lesson_id_of, source_path
from tilewise.course.order import Navigation, Part


def read(nav: object, file: Path, shown: str, about: object = None) -> Navigation:
    """Read the lessons' order and parts from a navigation.

    Args:
        nav: ``nav`` in mkdocs.yml.
        file: the path of mkdocs.yml.
        shown: its name in messages.
        about: its ``extra.parts``: a sentence on each part, by title.
    """
    order = reading_order(nav)
    return Navigation(order, shown, lines(file, order), parts(nav, about))


def reading_order(nav: object) -> list[str]:
    """The ids of the lessons in a navigation, in its order."""
    return [lesson_id_of(path) for path in _paths(nav) if is_lesson(path)]


def parts(nav: object, about: object = None) -> tuple[Part, ...]:
    """The sections of a navigation with lessons, in its order; nested sections belong to the outer one."""
    descriptions = about if isinstance(about, dict) else {}
    entries = [entry for entry in nav if isinstance(entry, dict)] if isinstance(nav, list) else []
    sections = [
        Part(str(title), tuple(reading_order(below)), str(descriptions.get(title, "")))
        for entry in entries
        for title, below in entry.items()
    ]
    return tuple(part for part in sections if part.lessons)


def lines(nav_file: Path, ids: list[str]) -> dict[str, int]:
    """The line on which mkdocs.yml names each lesson."""
    line_of: dict[str, int] = {}
    text = nav_file.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.split("\n"), start=1):
        for name in ids:
            if source_path(name) in line:
                line_of.setdefault(name, number)
    return line_of


def _paths(node: object) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, list):
        for child in node:
            yield from _paths(child)
    elif isinstance(node, dict):
        for child in node.values():
            yield from _paths(child)
