"""Rules for lessons: each accepts one example and rejects the other, and the course keeps them all."""

from pathlib import Path
from typing import Any

import pytest
from mkdocs.utils.yaml import yaml_load

from tilewise.build import navigation
from tilewise.build.run import runner as running
from tilewise.course.lesson import Lesson, read
from tilewise.course.order import Course, Navigation, Part
from tilewise.course.rules import checked_course, every_rule, form_faults
from tilewise.course.rules.model import CourseRule, LessonRule, NavigationRule, Rule, RunRule
from tilewise.course.terms import Terms
from tilewise.errors import LessonError

ROOT = Path(__file__).resolve().parents[1]
RULES = every_rule()


def written(project: Any, example: str) -> tuple[Navigation, dict[str, Lesson]]:
    """The lessons of an example, and the navigation that names them as one part."""
    lessons: dict[str, Lesson] = {}
    order: list[str] = []
    for text in (example if example.startswith("===") else f"=== part/one\n{example}").split("=== ")[1:]:
        head, _, body = text.partition("\n")
        name, *keys = head.split("; ")
        if name.startswith("nav: "):
            order = name.removeprefix("nav: ").split()
            name = order[0]
        values = dict(key.split(": ") for key in keys)
        needs = values.get("needs", "").strip("[]")
        lessons[name] = project.lesson(body, name, needs, values.get("title", ""))
    order = order or list(lessons)
    return Navigation(order, parts=[Part("Part", tuple(order))]), lessons


def faults(project: Any, rule: Rule, example: str) -> list[LessonError]:
    """What a rule says of an example, whatever the others say."""
    nav, lessons = written(project, example)
    every = tuple(lessons.values())
    match rule:
        case LessonRule():
            return [fault for lesson in every for fault in rule.faults(lesson)]
        case CourseRule():
            return list(rule.faults(Course(every, Terms.of(every))))
        case NavigationRule():
            return list(rule.faults(nav, lessons))
        case RunRule():
            return [fault for lesson in every for fault in rule.faults(lesson, project.run(lesson))]
    raise AssertionError(f"{rule.name} is of no kind")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_accepts_one_example_and_rejects_the_other_with_its_line_and_a_repair(
    rule, project, monkeypatch
):
    monkeypatch.setattr(running, "run_faults", lambda *_, **__: ())
    assert list(map(str, faults(project, rule, rule.accepts))) == []
    found = faults(project, rule, rule.rejects)
    assert found
    assert all((fault.line or fault.path == "mkdocs.yml") and fault.repair for fault in found)
    assert rule.sentence.endswith(".")


def test_no_two_rules_have_one_name():
    assert len({rule.name for rule in RULES}) == len(RULES) > 10


def test_the_course_keeps_every_rule_that_can_be_seen_without_a_run():
    with (ROOT / "mkdocs.yml").open("rb") as stream:
        nav = navigation.read(yaml_load(stream)["nav"], ROOT / "mkdocs.yml", "mkdocs.yml")
    course = checked_course(nav, {name: read(ROOT / f"lessons/{name}.py", ROOT) for name in nav.order})
    assert list(map(str, form_faults(nav, course))) == []


def test_parts_are_the_sections_that_hold_lessons():
    nav = [
        "lessons/part/alone.py",
        {"Home": "index.md"},
        {"One": ["lessons/part/one.py", "about.md", {"More": ["lessons/part/two.py"]}]},
        {"How": ["how.md"]},
    ]
    assert navigation.parts(nav) == (Part("One", ("part/one", "part/two")),)
    assert navigation.parts(None) == ()
