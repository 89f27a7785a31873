"""The reading order and the parts of the course, taken from ``nav`` in mkdocs.yml.

In: MkDocs's configuration. Out: the lessons' ids in order, by section too, and the line of each in
mkdocs.yml. Whether this order suits the lessons' needs is decided by ``tilewise.course.rules``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tilewise.build.page.layout import is_lesson, lesson_id_of, source_path
from tilewise.course.order import Navigation, Part


def read(nav: object, file: Path, shown: str, about: object = None) -> Navigation:
    """What a navigation says of the lessons.

    Args:
        nav: ``nav`` in mkdocs.yml.
        file: that file.
        shown: the file as messages name it.
        about: ``extra.parts`` there: a sentence on each part, by its title.
    """
    order = reading_order(nav)
    return Navigation(order, shown, lines(file, order), parts(nav, about))


def reading_order(nav: object) -> list[str]:
    """The ids of the lessons that a navigation names, in its order."""
    return [lesson_id_of(path) for path in _paths(nav) if is_lesson(path)]


def parts(nav: object, about: object = None) -> tuple[Part, ...]:
    """The sections of a navigation that hold lessons, in its order; sections within one belong to it."""
    said = about if isinstance(about, dict) else {}
    named = [entry for entry in nav if isinstance(entry, dict)] if isinstance(nav, list) else []
    found = [
        Part(str(title), tuple(reading_order(below)), str(said.get(title, "")))
        for entry in named
        for title, below in entry.items()
    ]
    return tuple(part for part in found if part.lessons)


def lines(nav_file: Path, ids: list[str]) -> dict[str, int]:
    """The line on which mkdocs.yml names each lesson."""
    found: dict[str, int] = {}
    text = nav_file.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.split("\n"), start=1):
        for name in ids:
            if source_path(name) in line:
                found.setdefault(name, number)
    return found


def _paths(node: object) -> Iterator[str]:
    if isinstance(node, str):
        yield node
    elif isinstance(node, list):
        for child in node:
            yield from _paths(child)
    elif isinstance(node, dict):
        for child in node.values():
            yield from _paths(child)
