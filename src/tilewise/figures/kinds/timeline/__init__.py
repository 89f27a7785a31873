"""A timeline: activities on rows such as host, stream or SM.

In: spans with a start and an end. Out: a Figure with a slider through the times at which spans start or end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tilewise.figures import theme
from tilewise.figures.figure import Figure
from tilewise.figures.values import number


@dataclass(frozen=True)
class Span:
    """An activity."""

    row: str
    """Its row, e.g. ``host``."""
    start: float
    """In the timeline's unit."""
    stop: float
    """In the timeline's unit, at least ``start``."""
    label: str
    """Its name, in a word or two."""
    role: str = "block"
    """The role of its colour."""


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
        spans: ``Span``s, or tuples ``(row, start, stop, label[, role])``; rows are in order of first use.
        title: what the reader should see, as a statement.
        caption: what the figure shows; self-contained.
        unit: unit of the times, e.g. ``µs``.
        alt: the text alternative; by default the rows and the total time.

    Raises:
        ValueError: there is no span, one ends before it starts, or a role is unknown.
    """
    all_spans = [span if isinstance(span, Span) else Span(*span) for span in spans]
    if not all_spans:
        raise ValueError("a timeline needs at least one span")
    for span in all_spans:
        theme.colour(span.role)
        if span.stop < span.start:
            raise ValueError(f"the span {span.label!r} ends at {span.stop}, before it starts at {span.start}")
    rows = list(dict.fromkeys(span.row for span in all_spans))
    moments = sorted({span.start for span in all_spans} | {span.stop for span in all_spans})
    ordered = sorted(all_spans, key=lambda span: (span.start, rows.index(span.row)))
    texts = tuple(f"{span.row}: {span.label}{_when(span, unit)}." for span in ordered)
    key = _key(all_spans)
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
                for s in all_spans
            ],
            "moments": moments,
            "unit": unit,
            "key": key,
        },
        steps=texts,
    )


def _key(spans: Sequence[Span]) -> list[tuple[str, str]]:
    """Labels with their roles if there are few and each has its own colour; otherwise empty."""
    pairs = list(dict.fromkeys((span.label, span.role) for span in spans))
    labels, roles = (len({pair[at] for pair in pairs}) for at in (0, 1))
    return pairs if labels == roles == len(pairs) <= min(4, len(spans) - 1) else []


def _when(span: Span, unit: str) -> str:
    length = number(span.stop - span.start)
    return f", from {number(span.start)} to {number(span.stop)} {unit} ({length} {unit})"
