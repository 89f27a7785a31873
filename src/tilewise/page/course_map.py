"""The course map: lessons as nodes, needs as lines, drawn as inline SVG with plain links.

In: a course, and the lesson one is in, if any. Out: SVG text. Lessons stand in rows by the longest way from a
first lesson; a need that others imply gets no line. A screen reader finds a list of links; colours come from
classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tilewise.course import Course
from tilewise.page.layout import Layout

_BOX = (158, 52)
_GAP = (18, 40)
_DOT = 7
_DOT_GAP = (30, 26)
_LINE_CHARACTERS = 21


@dataclass(frozen=True)
class _Drawing:
    """Measures of one form of the map, in px."""

    width: float
    height: float
    gap_x: float
    gap_y: float
    margin: float


_LARGE = _Drawing(*_BOX, *_GAP, 6)
_SMALL = _Drawing(2 * _DOT, 2 * _DOT, _DOT_GAP[0] - 2 * _DOT, _DOT_GAP[1] - 2 * _DOT, 4)


def course_map(course: Course, lesson_id: str | None = None, layout: Layout | None = None) -> str:
    """The map of a course's published lessons.

    Args:
        course: the course.
        lesson_id: the lesson on whose page the map stands: drawn small, as dots with names to point at, with
            this lesson, what it needs and what it unlocks told apart. None: with titles, for the front page.
        layout: where lessons are on the site.

    Returns:
        One ``nav.tw-map`` around an ``svg``, without blank lines. Nodes are ``a.tw-map-node``, of them
        ``tw-map-here``, ``tw-map-needed`` and ``tw-map-unlocked``; lines are ``path.tw-map-edge``.
    """
    where = layout or Layout()
    shown = [lesson.id for lesson in course.lessons if not lesson.header.draft]
    needs = {name: _direct(course, name) for name in shown}
    form = _LARGE if lesson_id is None else _SMALL
    places = _places(_rows(shown, needs), needs, form)
    width = max((x + form.width for x, _ in places.values()), default=0) + form.margin
    height = max((y + form.height for _, y in places.values()), default=0) + form.margin
    kinds = _kinds(course, lesson_id)
    parts = [
        f'<nav class="tw-map tw-map-{"small" if lesson_id else "large"}" aria-label="Course map">',
        f'<svg xmlns="http://www.w3.org/2000/svg" '
        f'xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 {width:g} {height:g}" width="{width:g}" '
        f'height="{height:g}" role="list" aria-label="Lessons in reading order">',
        '<g class="tw-map-edges" aria-hidden="true" fill="none" stroke="currentColor">',
    ]
    for name in shown:
        for need in needs[name]:
            lit = " tw-map-edge-lit" if lesson_id is not None and {name, need} <= {lesson_id, *kinds} else ""
            parts.append(f'<path class="tw-map-edge{lit}" d="{_line(places[need], places[name], form)}"/>')
    parts.append("</g>")
    for name in shown:
        parts.append(
            _node(course, name, places[name], where.href(lesson_id, name), kinds.get(name, ""), form)
        )
    return "\n".join([*parts, "</svg>", "</nav>"])


def _direct(course: Course, name: str) -> tuple[str, ...]:
    """Direct needs without those that another need implies."""
    needs = course.needs(name)
    return tuple(need for need in needs if not any(need in course.reaches(other) for other in needs))


def _kinds(course: Course, lesson_id: str | None) -> dict[str, str]:
    if lesson_id is None:
        return {}
    needed = dict.fromkeys(course.reaches(lesson_id), "tw-map-needed")
    unlocked = dict.fromkeys(course.unlocks(lesson_id), "tw-map-unlocked")
    return {**needed, **unlocked, lesson_id: "tw-map-here"}


def _rows(shown: Sequence[str], needs: Mapping[str, Sequence[str]]) -> list[list[str]]:
    """Lessons by the longest way to them, each row in reading order."""
    depth: dict[str, int] = {}
    for name in shown:
        depth[name] = 1 + max((depth[need] for need in needs[name]), default=-1)
    rows: list[list[str]] = [[] for _ in range(1 + max(depth.values(), default=-1))]
    for name in shown:
        rows[depth[name]].append(name)
    return rows


def _places(
    rows: Sequence[Sequence[str]], needs: Mapping[str, Sequence[str]], form: _Drawing
) -> dict[str, tuple[float, float]]:
    """The upper left corner of each node; in a row, nodes stand in the order of what they need."""
    widest = max((len(row) for row in rows), default=1)
    step = form.width + form.gap_x
    places: dict[str, tuple[float, float]] = {}
    for depth, row in enumerate(rows):

        def wanted(name: str) -> float:
            above = [places[need][0] for need in needs[name]]
            return sum(above) / len(above) if above else 0.0

        ordered = sorted(row, key=lambda name: (wanted(name), row.index(name)))
        left = form.margin + (widest - len(row)) * step / 2
        y = form.margin + depth * (form.height + form.gap_y)
        for at, name in enumerate(ordered):
            places[name] = (round(left + at * step, 1), y)
    return places


def _line(start: tuple[float, float], end: tuple[float, float], form: _Drawing) -> str:
    x1, y1 = start[0] + form.width / 2, start[1] + form.height
    x2, y2 = end[0] + form.width / 2, end[1]
    bend = form.gap_y * 0.6
    return f"M{x1:g} {y1:g}C{x1:g} {y1 + bend:g} {x2:g} {y2 - bend:g} {x2:g} {y2:g}"


def _node(course: Course, name: str, place: tuple[float, float], href: str, kind: str, form: _Drawing) -> str:
    title = course.lesson(name).header.title
    label = escape(f"{course.number(name)}. {title}")
    classes = f"tw-map-node {kind}".strip()
    current = ' aria-current="page"' if kind == "tw-map-here" else ""
    x, y = place
    if form is _SMALL:
        inside = f'<circle cx="{x + _DOT:g}" cy="{y + _DOT:g}" r="{_DOT - 1}"/>'
    else:
        lines = _wrapped(title)
        first = y + form.height / 2 - (len(lines) - 1) * 8 + 4.5
        spans = "".join(
            f'<tspan x="{x + form.width / 2:g}" y="{first + at * 16:g}">{escape(line, quote=False)}</tspan>'
            for at, line in enumerate(lines)
        )
        inside = (
            f'<rect x="{x:g}" y="{y:g}" width="{form.width:g}" height="{form.height:g}" rx="6"/>'
            f'<text text-anchor="middle" font-size="13" fill="currentColor">{spans}</text>'
        )
    target = escape(href)
    return (
        f'<g role="listitem"><a class="{classes}" xlink:href="{target}" aria-label="{label}"'
        f"{current}><title>{label}</title>{inside}</a></g>"
    )


def _wrapped(title: str) -> list[str]:
    """A title in lines that fit a box, three at most."""
    lines = [""]
    for word in title.split():
        if lines[-1] and len(lines[-1]) + 1 + len(word) > _LINE_CHARACTERS:
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip()
    if len(lines) > 3:
        lines = [*lines[:2], f"{lines[2]} …"]
    return lines
