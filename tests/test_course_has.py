"""The list of what the course set out to have: complete, and each page and section that it names is there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from mkdocs.utils.yaml import yaml_load

from tilewise.lesson import read
from tilewise.measurements.slugs import heading_slug
from tilewise.mkdocs_plugin import navigation

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGE = (DOCS / "what-the-course-has.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| ([A-Z])(\d+) \| (.+?) \| (.+) \|$", PAGE, re.M)
MOST = {"F": 26, "K": 29, "E": 24, "P": 40, "T": 19, "M": 26, "Q": 21}
"""How many rows there are of each kind."""
OPEN = ("**not yet:** ", "**in part:** ")
LINK = re.compile(r"\]\(([^)\s#]+)(?:#([^)\s]+))?\)")
TEST = re.compile(r"(?<!\*)\*([a-z0-9 ]+)\*(?!\*)")
"""What a test holds, in words: no name, so that tests can be renamed."""
QUESTION = re.compile(r'^# \?\?\? question "(.*)"$', re.M)


@cache
def sections() -> dict[str, tuple[str, ...]]:
    """The lessons of each part."""
    with (ROOT / "mkdocs.yml").open("rb") as stream:
        return {part.title: part.lessons for part in navigation.parts(yaml_load(stream)["nav"])}


@cache
def anchors(page: str) -> frozenset[str]:
    """The anchors of a page by its path: its headings and terms, and what it gathers from lessons."""
    if page.startswith("lessons/"):
        prose = read(ROOT / page, ROOT).prose
        headings = [heading_slug(heading.text) for heading in prose.headings]
        return frozenset([*headings, "terms", *(definition.anchor for definition in prose.definitions)])
    text = (DOCS / page).read_text(encoding="utf-8")
    found = {heading_slug(re.sub(r"\{.*\}", "", heading)) for heading in re.findall(r"^#+ (.+)$", text, re.M)}
    found |= set(re.findall(r"\{[^}\n]*#([\w-]+)", text))
    if "{{ course.questions }}" in text:
        lessons = [name for names in sections().values() for name in names]
        asked = [
            QUESTION.findall((ROOT / f"lessons/{name}.py").read_text(encoding="utf-8")) for name in lessons
        ]
        found |= {heading_slug(title) for titles in asked for title in titles}
    return frozenset(found)


def missing(where: str) -> Iterator[str]:
    """Places in a row's last column that are not there."""
    for page, anchor in LINK.findall(where):
        file = ROOT / page if page.startswith("lessons/") else DOCS / page
        if not file.is_file():
            yield page
        elif anchor and anchor not in anchors(page):
            yield f"{page}#{anchor}"


def test_every_row_is_there_once_and_in_order() -> None:
    assert [(kind, int(number)) for kind, number, _, _ in ROWS] == [
        (kind, number) for kind, most in MOST.items() for number in range(1, most + 1)
    ]
    assert len({what for _, _, what, _ in ROWS}) == len(ROWS), "no two rows in the same words"


@pytest.mark.parametrize(("name", "where"), [(f"{kind}{number}", where) for kind, number, _, where in ROWS])
def test_a_row_has_its_place_or_says_what_it_lacks(name: str, where: str) -> None:
    places = [*LINK.findall(where), *TEST.findall(where)]
    if where.startswith(OPEN):
        assert len(where.split()) >= 6, f"{name} says what is missing and what it waits for"
    else:
        assert places, f"{name} has a place"
        assert not re.search(r"not yet|in part", where), f"{name} says at its beginning that it is open"
    assert list(missing(where)) == []


def test_a_place_that_is_not_there_is_found() -> None:
    assert (
        list(missing("[a](lessons/kernels/grids.py#x-runs-first), [b](recap.md#three-ways-to-be-faster)"))
        == []
    )
    assert list(missing("[a](lessons/kernels/grids.py#no), [b](lessons/no.py), [c](recap.md#no)")) == [
        "lessons/kernels/grids.py#no",
        "lessons/no.py",
        "recap.md#no",
    ]


def test_nothing_waits_for_lessons_that_are_there() -> None:
    written = [name for name in sections()["Attention"] if not name.endswith("/puzzles")]
    waiting = [f"{kind}{number}" for kind, number, _, where in ROWS if "the lessons on attention" in where]
    assert not (written and waiting), f"{written} are there: give {waiting} their places"
