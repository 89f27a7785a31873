"""The course: order, needs, terms across lessons."""

from dataclasses import replace
from typing import Any

import pytest

from tilewise.course.lesson import Lesson, parse
from tilewise.course.order import Course, Navigation
from tilewise.course.rules import navigation_faults
from tilewise.course.terms import Terms
from tilewise.errors import LessonError, raise_all

PROSE = "# %% [markdown]\n"


def chain(project: Any) -> list[Lesson]:
    return [
        project.lesson(
            PROSE + '# ??? definition "Warp | warps"\n#     32 lanes in step. They wait.\n', "part/a"
        ),
        project.lesson(PROSE + "# Prose.\n", "part/b", "part/a"),
        project.lesson(PROSE + "# Warps, and a warp.\n", "part/c", "part/b"),
    ]


def test_order_and_needs_can_be_asked_for(project):
    course = Course.of(chain(project))
    assert [course.number(name) for name in ("part/a", "part/b", "part/c")] == [1, 2, 3]
    assert course.needs("part/c") == ("part/b",)
    assert course.unlocks("part/a") == ("part/b",)
    assert course.reaches("part/c") == {"part/a", "part/b"}
    assert course.lesson("part/b").header.title == "Title of part/b"


def test_further_pages_share_the_number_of_their_lesson(project):
    lessons = chain(project)
    page = project.lesson(PROSE + "# More.\n", "part/a_more", "part/a")
    page = replace(page, header=replace(page.header, further="part/a"))
    course = Course.of([lessons[0], page, *lessons[1:]])
    assert course.core == ("part/a", "part/b", "part/c")
    assert [course.number(name) for name in ("part/a", "part/a_more", "part/b")] == [1, 1, 2]
    assert course.further("part/a") == ("part/a_more",)


def test_a_term_reaches_through_needs_of_needs(project):
    course = Course.of(chain(project))
    (use,) = course.uses("part/c")
    assert (use.term.title, use.term.lesson_id) == ("Warp", "part/a")
    assert use.term.first_sentence == "32 lanes in step."


def used(project: Any, names: str, text: str) -> list[str]:
    lesson = project.lesson(f'{PROSE}# ??? definition "{names}"\n#     Text.\n#\n# {text}\n')
    terms = Terms.of([lesson])
    assert terms.twice == ()
    cell = lesson.cells[0].source
    return [cell[use.start : use.end] for use in terms.uses(lesson)]


@pytest.mark.parametrize(
    ("names", "text", "found"),
    [
        ("Warp | warps", "Two WARPS wait.", ["WARPS"]),
        ("Warp", "Warped warpings.", []),
        ("Warp", "A \\warp of wool.", []),
        ("Warp", "A \\warp and a warp.", ["warp"]),
        ("Warp", "per-warp and warp-level", ["warp"]),
        ("Warp", "The warp's lanes.", ["warp"]),
        ("Shared memory", "in shared memory", ["shared memory"]),
        ("Shared memory", "in shared `x` memory", []),
        ("Row-major", "stored row-major here", ["row-major"]),
        ("FLOP/s", "at 3 FLOP/s here", ["FLOP/s"]),
        ("L2 cache", "the L2 cache", ["L2 cache"]),
        ("Größe", "die größe zählt", ["größe"]),
    ],
)
def test_whole_words_are_uses(project, names, text, found):
    assert used(project, names, text) == found


def test_a_part_of_a_longer_term_is_no_use(project):
    lesson = project.lesson(
        PROSE
        + '# ??? definition "Memory"\n#     Text.\n#\n# ??? definition "Shared memory"\n#     Text.\n#\n'
        "# In shared memory first, then in memory.\n"
    )
    terms = Terms.of([lesson])
    cell = lesson.cells[0].source
    assert [cell[use.start : use.end] for use in terms.uses(lesson)] == ["shared memory", "memory"]
    assert cell[terms.uses(lesson)[1].start - 3 : terms.uses(lesson)[1].start] == "in "


def test_the_signature_changes_with_what_other_pages_show_and_with_nothing_else(project):
    first, *others = chain(project)
    signature = Course.of([first, *others]).signature

    def edited(old: str, new: str) -> str:
        lesson = parse(first.text.replace(old, new), first.path, first.id)
        return Course.of([lesson, *others]).signature

    assert edited("# %% [markdown]\n", "# %% [markdown]\n# More prose.\n#\n") == signature
    assert edited("They wait.", "They go on.") == signature
    assert edited("32 lanes", "64 lanes") != signature
    assert edited("Title of part/a", "Another title") != signature


@pytest.mark.parametrize("name", ["top", "part/inner/one"])
def test_a_lesson_lies_in_a_part_and_nowhere_else(name):
    with pytest.raises(LessonError, match="lessons lie in lessons/<part>") as caught:
        raise_all(navigation_faults(Navigation([name], lines={name: 7}), {}))
    assert (caught.value.path, caught.value.line) == ("mkdocs.yml", 7)
