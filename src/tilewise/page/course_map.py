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
_LINE_CHARACTERS = 21


@dataclass(frozen=True)
class _Drawing:
    """Measures of one form of the map, in px; ``breadth`` lies within a row, ``depth`` leads to the next."""

    breadth: float
    depth: float
    gap: float
    """Between neighbours of a row."""
    stride: float
    """Between rows."""
    pass_by: float
    """What a line needs that passes a row without ending there."""
    across: bool
    """Whether the map grows from left to right rather than downwards."""

    def point(self, beside: float, along: float) -> tuple[float, float]:
        """A point in x and y from its place within a row and its place from the first row on."""
        return (along, beside) if self.across else (beside, along)


_LARGE = _Drawing(_BOX[0], _BOX[1], _GAP[0], _GAP[1], 0, across=False)
_SMALL = _Drawing(2 * _DOT, 2 * _DOT, 8, 16, 0, across=True)
_MARGIN = 6.0


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
    grid = _Grid.of(shown, needs, form)
    width, height = form.point(grid.breadth, grid.depth)
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
            parts.append(f'<path class="tw-map-edge{lit}" d="{grid.line(need, name)}"/>')
    parts.append("</g>")
    for name in shown:
        parts.append(
            _node(course, name, grid.corner(name), where.href(lesson_id, name), kinds.get(name, ""), form)
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


@dataclass(frozen=True)
class _Grid:
    """Where nodes stand and lines pass; a line that crosses rows gets a place of its own in each."""

    form: _Drawing
    row_of: Mapping[str, int]
    """The row of each lesson."""
    beside: Mapping[tuple[int, str], float]
    """By row and lesson, or passing line ``need>lesson``: the middle of its place within the row."""
    breadth: float
    depth: float

    @staticmethod
    def of(shown: Sequence[str], needs: Mapping[str, Sequence[str]], form: _Drawing) -> _Grid:
        """Lay a course out."""
        rows = [list(row) for row in _rows(shown, needs)]
        row_of = {name: at for at, row in enumerate(rows) for name in row}
        above: dict[tuple[int, str], list[str]] = {}
        for name in shown:
            for need in needs[name]:
                line = f"{need}>{name}"
                passed = range(row_of[need] + 1, row_of[name])
                for at in passed:
                    rows[at].append(line)
                    above.setdefault((at, line), []).append(line if at > passed[0] else need)
                above.setdefault((row_of[name], name), []).append(line if passed else need)
        beside: dict[tuple[int, str], float] = {}
        for at, row in enumerate(rows):

            def wanted(entry: str, at: int = at) -> float:
                found = [beside[at - 1, other] for other in above.get((at, entry), ())]
                return sum(found) / len(found) if found else 0.0

            ordered = sorted(row, key=lambda entry: (wanted(entry), row.index(entry)))
            sizes = [form.pass_by if ">" in entry else form.breadth for entry in ordered]
            edge = -(sum(sizes) + form.gap * (len(sizes) - 1)) / 2
            for entry, size in zip(ordered, sizes, strict=True):
                beside[at, entry] = edge + size / 2
                edge += size + form.gap
        left = min((middle - form.breadth / 2 for middle in beside.values()), default=0.0) - _MARGIN
        moved = {key: round(middle - left, 1) for key, middle in beside.items()}
        breadth = max((middle + form.breadth / 2 for middle in moved.values()), default=0.0) + _MARGIN
        depth = 2 * _MARGIN + len(rows) * form.depth + max(len(rows) - 1, 0) * form.stride
        return _Grid(form, row_of, moved, round(breadth, 1), depth)

    def _along(self, row: int) -> float:
        """Where a row begins."""
        return _MARGIN + row * (self.form.depth + self.form.stride)

    def corner(self, name: str) -> tuple[float, float]:
        """The upper left corner of a node."""
        row = self.row_of[name]
        return self.form.point(round(self.beside[row, name] - self.form.breadth / 2, 1), self._along(row))

    def line(self, need: str, name: str) -> str:
        """The path from a need to a lesson: curves between rows, straight through them."""
        first, last = self.row_of[need], self.row_of[name]
        x, y = self.form.point(self.beside[first, need], self._along(first) + self.form.depth)
        parts = [f"M{x:g} {y:g}"]
        at = self.beside[first, need]
        for row in range(first + 1, last + 1):
            to = self.beside[row, name if row == last else f"{need}>{name}"]
            start, end = self._along(row) - self.form.stride, self._along(row)
            bend = self.form.stride * 0.6
            points = [(at, start + bend), (to, end - bend), (to, end)]
            parts.append("C" + " ".join(self._text(point) for point in points))
            if row < last:
                parts.append(f"L{self._text((to, end + self.form.depth))}")
            at = to
        return "".join(parts)

    def _text(self, point: tuple[float, float]) -> str:
        x, y = self.form.point(*point)
        return f"{x:g} {y:g}"


def _node(course: Course, name: str, place: tuple[float, float], href: str, kind: str, form: _Drawing) -> str:
    title = course.lesson(name).header.title
    label = escape(f"{course.number(name)}. {title}")
    classes = f"tw-map-node {kind}".strip()
    current = ' aria-current="page"' if kind == "tw-map-here" else ""
    x, y = place
    if form is _SMALL:
        inside = f'<title>{label}</title><circle cx="{x + _DOT:g}" cy="{y + _DOT:g}" r="{_DOT - 1}"/>'
    else:
        lines = _wrapped(title)
        first = y + form.depth / 2 - (len(lines) - 1) * 8 + 4.5
        spans = " ".join(
            f'<tspan x="{x + form.breadth / 2:g}" y="{first + at * 16:g}">{escape(line, quote=False)}</tspan>'
            for at, line in enumerate(lines)
        )
        inside = (
            f'<rect x="{x:g}" y="{y:g}" width="{form.breadth:g}" height="{form.depth:g}" rx="6"/>'
            f'<text text-anchor="middle" font-size="13" fill="currentColor">{spans}</text>'
        )
    target = escape(href)
    return (
        f'<g role="listitem"><a role="link" class="{classes}" xlink:href="{target}" aria-label="{label}"'
        f"{current}>{inside}</a></g>"
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
