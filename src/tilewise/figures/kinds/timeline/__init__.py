"""A timeline: who is busy when, on rows such as host, stream or SM.

In: spans with a start and an end. Out: a Figure with a slider that moves through the moments at which
something starts or ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewise.figures import theme
from tilewise.figures.figure import Figure
from tilewise.figures.values import number


@dataclass(frozen=True)
class Span:
    """Something that lasts."""

    row: str
    """Where it happens, e.g. ``host``."""
    start: float
    """In the timeline's unit."""
    stop: float
    """In the timeline's unit, at least ``start``."""
    label: str
    """What it is, in a word or two."""
    role: str = "block"
    """The role whose colour it takes."""


def timeline(
    spans: Sequence[Span | tuple[str, float, float, str] | tuple[str, float, float, str, str]],
    *,
    title: str,
    caption: str,
    unit: str,
    alt: str | None = None,
) -> Figure:
    """Return a timeline.

    Args:
        spans: ``Span``s, or tuples ``(row, start, stop, label[, role])``; rows stand in order of first use.
        title: what is to be seen, as a statement.
        caption: what the figure shows, read alone.
        unit: unit of the times, e.g. ``µs``.
        alt: the text alternative; by default counts rows and spans.

    Raises:
        ValueError: there is no span, one ends before it starts, or a role is unknown.
    """
    every = [span if isinstance(span, Span) else Span(*span) for span in spans]
    if not every:
        raise ValueError("a timeline needs at least one span")
    for span in every:
        theme.colour(span.role)
        if span.stop < span.start:
            raise ValueError(f"the span {span.label!r} ends at {span.stop}, before it starts at {span.start}")
    rows = list(dict.fromkeys(span.row for span in every))
    moments = sorted({span.start for span in every} | {span.stop for span in every})
    ordered = sorted(every, key=lambda span: (span.start, rows.index(span.row)))
    texts = tuple(f"{span.row}: {span.label}{_when(span, unit)}." for span in ordered)
    key = _key(every)
    length = f"over {number(moments[-1] - moments[0])} {unit}"
    return Figure(
        title=title,
        caption=caption,
        alt=alt
        or f"Timeline with the rows {', '.join(rows)}, {length}. Its spans are listed below by start time.",
        height=140 + 56 * len(rows),
        narrow_height=142 + 56 * len(rows) + 24 * bool(key),
        kind="timeline",
        spec={
            "rows": rows,
            "spans": [
                {"row": rows.index(s.row), "start": s.start, "stop": s.stop, "label": s.label, "role": s.role}
                for s in every
            ],
            "moments": moments,
            "unit": unit,
            "key": key,
        },
        steps=texts,
    )


def _key(spans: Sequence[Span]) -> list[tuple[str, str]]:
    """Labels with their roles, where each of a few has a colour of its own; else none."""
    pairs = list(dict.fromkeys((span.label, span.role) for span in spans))
    labels, roles = (len({pair[at] for pair in pairs}) for at in (0, 1))
    return pairs if labels == roles == len(pairs) <= min(4, len(spans) - 1) else []


def _when(span: Span, unit: str) -> str:
    length = number(span.stop - span.start)
    return f", from {number(span.start)} to {number(span.stop)} {unit} ({length} {unit})"
