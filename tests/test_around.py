"""The pages around the course: what they gather from the lessons, and what leads to them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from mkdocs.utils.yaml import yaml_load

from tilewise.measurements.slugs import heading_slug
from tilewise.mkdocs_plugin import navigation
from tilewise.page.gathered import Part

ROOT = Path(__file__).resolve().parents[1]


@cache
def parts() -> tuple[Part, ...]:
    """The parts of the course."""
    with (ROOT / "mkdocs.yml").open("rb") as stream:
        return navigation.parts(yaml_load(stream)["nav"])


def text_of(lesson_id: str) -> str:
    """A lesson's file."""
    return (ROOT / "lessons" / f"{lesson_id}.py").read_text(encoding="utf-8")


def test_parts_are_the_sections_that_hold_lessons() -> None:
    nav = [
        "lessons/part/alone.py",
        {"Home": "index.md"},
        {"One": ["lessons/part/one.py", "about.md", {"More": ["lessons/part/two.py"]}]},
        {"How": ["how.md"]},
    ]
    assert navigation.parts(nav) == (Part("One", ("part/one", "part/two")),)
    assert navigation.parts(None) == ()


def test_a_part_ends_with_a_link_to_its_recap() -> None:
    for part in parts():
        link = f"](../../recap.md#{heading_slug(part.title)})"
        assert text_of(part.lessons[-1]).count(link) == 1, f"{part.lessons[-1]}: link to {link} at its end"


def test_every_lesson_has_takeaways_for_the_recap() -> None:
    for part in parts():
        for name in part.lessons:
            found = re.search(r"^# ## Takeaways\n#\n((?:# .*\n)+)", text_of(name), re.M)
            assert found is not None, name
            assert 3 <= len(re.findall(r"^# - ", found[1], re.M)) <= 6, name


def test_every_lesson_but_puzzles_shows_a_figure_and_asks_for_an_exercise() -> None:
    for part in parts():
        for name in part.lessons:
            text = text_of(name)
            if name.endswith("/puzzles"):
                assert text.count("\npuzzle(") >= 2, name
            else:
                assert re.search(r"^from tilewise\.figures import ", text, re.M), name
                assert "\nexercise(" in text, name


def test_an_answer_has_two_to_six_sentences_and_a_question_its_mark() -> None:
    asked = []
    for part in parts():
        for name in part.lessons:
            for title, said in re.findall(
                r'^# \?\?\? question "(.*)"\n((?:#     .*\n|#\n(?=#     ))+)', text_of(name), re.M
            ):
                asked.append(title)
                plain = re.sub(r"\{\{.*?\}\}|\(\S*\)|^#     \|.*$", "", said, flags=re.M)
                sentences = re.findall(r"[.?!](?=\s|$)", plain)
                assert title.endswith("?"), title
                assert 2 <= len(sentences) <= 6, f"{name}: {title}"
    assert len(asked) >= 20
    assert len(set(asked)) == len(asked)
