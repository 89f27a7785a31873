"""A slider over charts with the same axes and different data.

In: charts with the same axis labels, and a label for each. Out: one Figure of kind ``chart`` with frames,
whose axes cover all steps so that nothing jumps. Its layout is the start chart's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewise.figures.figure import Figure
from tilewise.figures.values import are_names, control_height


def stepped_charts(
    charts: Sequence[Figure],
    labels: Sequence[Any],
    *,
    title: str,
    caption: str,
    step_name: str = "step",
    start: int = 0,
    alt: str | None = None,
) -> Figure:
    """Return charts of the same form as one figure with a slider.

    Args:
        charts: figures of ``line_chart``, ``bars`` or ``heat_map``, one for each step.
        labels: the slider's label for each step.
        title: what the reader should see, as a statement.
        caption: what the figure shows; self-contained.
        step_name: label of the slider.
        start: the step shown first.
        alt: the text alternative; by default the first chart's.

    Raises:
        ValueError: there are no charts, one isn't a chart, or the numbers of labels or traces differ.
    """
    if not charts or len(charts) != len(labels) or not 0 <= start < len(charts):
        raise ValueError(
            "a stepped figure needs a label for each chart, and a start among them: "
            f"{len(charts)} and {len(labels)}"
        )
    if any(chart.kind != "chart" or "frames" in chart.spec for chart in charts):
        raise ValueError("a stepped figure takes charts without steps of their own")
    if len({len(chart.spec["data"]) for chart in charts}) > 1:
        raise ValueError("the charts of a stepped figure need the same number of series")
    first = charts[start]
    texts = [str(label) for label in labels]
    layout: dict[str, Any] = {**first.spec["layout"]}
    for name in [key for key in layout if key.startswith(("xaxis", "yaxis"))]:
        ranges = [chart.spec["layout"][name].get("range") for chart in charts]
        if all(ranges):
            layout[name] = {**layout[name], "range": [min(r[0] for r in ranges), max(r[1] for r in ranges)]}
    layout["meta"] = {
        **layout.get("meta", {}),
        "step_name": step_name,
        "are_names": are_names(texts),
        "start": start,
    }
    frames = [
        {
            "name": str(label),
            "data": chart.spec["data"],
            "layout": {"annotations": chart.spec["layout"].get("annotations", [])},
        }
        for chart, label in zip(charts, labels, strict=True)
    ]
    return Figure(
        title=title,
        caption=caption,
        alt=alt or first.alt,
        height=max(chart.height for chart in charts) + 24 + control_height(texts, 32),
        narrow_height=max(chart.narrow_height or chart.height for chart in charts)
        + 24
        + control_height(texts, 32, narrow=True),
        kind="chart",
        spec={"data": first.spec["data"], "layout": layout, "frames": frames},
        steps=tuple(
            f"{step_name} {label}: {' | '.join(chart.steps)}"
            for chart, label in zip(charts, labels, strict=True)
        ),
    )
