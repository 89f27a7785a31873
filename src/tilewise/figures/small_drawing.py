"""A small drawing as inline SVG whose colours are the page's own, so that it follows light and dark.

In: boxes, lines and dots in px, each with a role of the palette. Out: one ``svg`` without text or scripts, in
which everything of one look is one path. What is drawn is left to ``thumbnails``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tilewise.figures import theme

WIDTH, HEIGHT = 240, 144
Point = tuple[float, float]
_DASHES = {"dash": "5 3", "dot": "1.5 2.5", "dashdot": "5 2 1 2"}


class SmallDrawing:
    """Shapes in the order in which they were added, gathered by look."""

    def __init__(self) -> None:
        self._paths: dict[str, list[str]] = {}

    def box(self, token: str, at: Point, size: Point, opacity: float = 1.0) -> None:
        """A filled box from its upper left corner; a token is a role's name or ``role:<name>/<alpha>``."""
        if min(size) > 0:
            self._add(_paint("fill", token, opacity), _rectangle(at, size))

    def frame(self, token: str, at: Point, size: Point, thick: float = 1.0) -> None:
        """The outline of a box."""
        look = f'fill="none" stroke-width="{_short(thick)}" {_paint("stroke", token)}'
        self._add(look, _rectangle(at, size))

    def area(self, token: str, points: Sequence[Point], opacity: float = 1.0) -> None:
        """A filled polygon."""
        self._add(_paint("fill", token, opacity), f"{_through(points)}z")

    def line(self, token: str, points: Sequence[Point], dash: str = "solid", thick: float = 1.6) -> None:
        """A line through points."""
        if len(points) > 1:
            dashed = f' stroke-dasharray="{_DASHES[dash]}"' if dash in _DASHES else ""
            look = f'fill="none" stroke-width="{_short(thick)}"{dashed} {_paint("stroke", token)}'
            self._add(look, _through(points))

    def dots(self, token: str, points: Iterable[Point], size: float, hollow: bool = False) -> None:
        """Round dots; hollow ones show the ground inside."""
        piece = "".join(f"M{_short(x)} {_short(y)}h0" for x, y in points)
        round_ends = 'fill="none" stroke-linecap="round"'
        if piece:
            self._add(f'{round_ends} stroke-width="{_short(size)}" {_paint("stroke", token)}', piece)
        if piece and hollow:
            inside = _paint("stroke", "surface")
            self._add(f'{round_ends} stroke-width="{_short(size - 1.6)}" {inside}', piece)

    def svg(self) -> str:
        """The drawing; a reader of screens passes by it, since title and caption stand beside it."""
        paths = "".join(f'<path {look} d="{"".join(pieces)}"/>' for look, pieces in self._paths.items())
        return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true" focusable="false">{paths}</svg>'

    def _add(self, look: str, piece: str) -> None:
        self._paths.setdefault(look, []).append(piece)


def _paint(what: str, token: str, opacity: float = 1.0) -> str:
    name, _, alpha = token.removeprefix("role:").partition("/")
    theme.colour(name)
    seen = round(opacity * float(alpha or 1), 2)
    return f'{what}="var(--tw-{name})"' + (f' {what}-opacity="{seen:g}"' if seen < 1 else "")


def _rectangle(at: Point, size: Point) -> str:
    (left, top), (wide, deep) = at, size
    return f"M{_short(left)} {_short(top)}h{_short(wide)}v{_short(deep)}h{_short(-wide)}z"


def _through(points: Sequence[Point]) -> str:
    return "M" + "L".join(f"{_short(x)} {_short(y)}" for x, y in points)


def _short(number: float) -> str:
    return f"{round(number, 1):g}"
