"""The course map: lessons as nodes, needs as lines, drawn as inline SVG with plain links.

In: a course. Out: SVG text. Lessons stand in rows by the longest way from a first lesson; a need that others
imply gets no line. A screen reader finds a list of links; colours come from classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from tilewise.build.page.layout import lesson_url
from tilewise.course.order import Course

_WIDTH, _HEIGHT = 158, 52
"""Of a node, in px."""
_GAP, _STRIDE = 18, 40
"""Between neighbours of a row, and between rows."""
_LINE_CHARACTERS = 21
_MARGIN = 6.0


def course_map(course: Course) -> str:
    """The map of a course's published lessons, for a page at the site's root.

    Args:
        course: the course.

    Returns:
        One ``nav.tw-map`` around an ``svg``, without blank lines. Nodes are ``a.tw-map-node``; lines are
        ``path.tw-map-edge``.
    """
    shown = list(course.by_id)
    needs = {name: _direct(course, name) for name in shown}
    grid = _Grid.of(shown, needs)
    parts = [
        '<nav class="tw-map tw-map-large" aria-label="Course map">',
        f'<svg xmlns="http://www.w3.org/2000/svg" '
        f'xmlns:xlink="http://www.w3.org/1999/xlink" viewBox="0 0 {grid.width:g} {grid.height:g}" '
        f'width="{grid.width:g}" '
        f'height="{grid.height:g}" role="list" aria-label="Lessons in reading order">',
        '<g class="tw-map-edges" aria-hidden="true" fill="none" stroke="currentColor">',
    ]
    for name in shown:
        parts += [f'<path class="tw-map-edge" d="{grid.line(need, name)}"/>' for need in needs[name]]
    parts.append("</g>")
    parts += [_node(course, name, grid.corner(name), lesson_url(name)) for name in shown]
    return "\n".join([*parts, "</svg>", "</nav>"])


def _direct(course: Course, name: str) -> tuple[str, ...]:
    """Direct needs without those that another need implies."""
    needs = course.needs(name)
    return tuple(need for need in needs if not any(need in course.reaches(other) for other in needs))


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

    row_of: Mapping[str, int]
    """The row of each lesson."""
    middle: Mapping[tuple[int, str], float]
    """By row and lesson, or passing line ``need>lesson``: the middle of its place within the row."""
    width: float
    height: float

    @staticmethod
    def of(shown: Sequence[str], needs: Mapping[str, Sequence[str]]) -> _Grid:
        """Lay a course out."""
        rows = _rows(shown, needs)
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
        middle: dict[tuple[int, str], float] = {}
        for at, row in enumerate(rows):

            def wanted(entry: str, at: int = at) -> float:
                places = [middle[at - 1, other] for other in above.get((at, entry), ())]
                return sum(places) / len(places) if places else 0.0

            ordered = sorted(row, key=lambda entry: (wanted(entry), row.index(entry)))
            sizes = [0 if ">" in entry else _WIDTH for entry in ordered]
            edge = -(sum(sizes) + _GAP * (len(sizes) - 1)) / 2
            for entry, size in zip(ordered, sizes, strict=True):
                middle[at, entry] = edge + size / 2
                edge += size + _GAP
        left = min((place - _WIDTH / 2 for place in middle.values()), default=0.0) - _MARGIN
        moved = {key: round(place - left, 1) for key, place in middle.items()}
        width = max((place + _WIDTH / 2 for place in moved.values()), default=0.0) + _MARGIN
        height = 2 * _MARGIN + len(rows) * _HEIGHT + max(len(rows) - 1, 0) * _STRIDE
        return _Grid(row_of, moved, round(width, 1), height)

    def _top(self, row: int) -> float:
        """Where a row begins."""
        return _MARGIN + row * (_HEIGHT + _STRIDE)

    def corner(self, name: str) -> tuple[float, float]:
        """The upper left corner of a node."""
        row = self.row_of[name]
        return round(self.middle[row, name] - _WIDTH / 2, 1), self._top(row)

    def line(self, need: str, name: str) -> str:
        """The path from a need to a lesson: curves between rows, straight through them."""
        first, last = self.row_of[need], self.row_of[name]
        at = self.middle[first, need]
        parts = [f"M{at:g} {self._top(first) + _HEIGHT:g}"]
        for row in range(first + 1, last + 1):
            to = self.middle[row, name if row == last else f"{need}>{name}"]
            end = self._top(row)
            start, bend = end - _STRIDE, _STRIDE * 0.6
            parts.append(f"C{at:g} {start + bend:g} {to:g} {end - bend:g} {to:g} {end:g}")
            if row < last:
                parts.append(f"L{to:g} {end + _HEIGHT:g}")
            at = to
        return "".join(parts)


def _node(course: Course, name: str, place: tuple[float, float], href: str) -> str:
    title = course.lesson(name).header.title
    label = escape(f"{course.number(name)}. {title}")
    x, y = place
    lines = _wrapped(title)
    first = y + _HEIGHT / 2 - (len(lines) - 1) * 8 + 4.5
    spans = " ".join(
        f'<tspan x="{x + _WIDTH / 2:g}" y="{first + at * 16:g}">{escape(line, quote=False)}</tspan>'
        for at, line in enumerate(lines)
    )
    return (
        f'<g role="listitem"><a role="link" class="tw-map-node" xlink:href="{escape(href)}" '
        f'aria-label="{label}">'
        f'<rect x="{x:g}" y="{y:g}" width="{_WIDTH:g}" height="{_HEIGHT:g}" rx="6"/>'
        f'<text text-anchor="middle" font-size="13" fill="currentColor">{spans}</text></a></g>'
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
