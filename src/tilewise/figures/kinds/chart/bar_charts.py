"""Horizontal bars with their labels on the left and their values at the end.

In: numbers by label, or by label and series. Out: a Figure of kind ``chart``. Predictions and waste are
hatched, so that colour is not the only cue.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewise.figures import theme
from tilewise.figures.axes import Range, axis, base_layout
from tilewise.figures.figure import Figure
from tilewise.figures.values import number


def bars(
    values: Mapping[str, float | Mapping[str, float]],
    *,
    title: str,
    caption: str,
    x: str,
    role: str = "measured",
    roles: Mapping[str, str] | None = None,
    value_range: Range | None = None,
    form: str | None = None,
) -> Figure:
    """Return horizontal bars with their labels on the left and their values at the end.

    Args:
        values: number by label; or, for groups, numbers by series by label.
        title: what the reader should see, as a statement.
        caption: what the figure shows; self-contained.
        x: label of the value axis, with its unit.
        role: the role of all bars.
        roles: role by label, or by series for groups, if they differ.
        value_range: limits of the axis.
        form: Python format of a value; by default with four digits.

    Raises:
        ValueError: there are no bars, groups differ in their series, or a value is negative.
    """
    if not values:
        raise ValueError("bars need at least one value")
    table = {label: dict(v) if isinstance(v, Mapping) else {"": v} for label, v in values.items()}
    names = list(next(iter(table.values())))
    if any(list(row) != names for row in table.values()):
        raise ValueError(f"each group needs the same series in the same order: {names}")
    numbers = np.array([[float(row[name]) for name in names] for row in table.values()])
    if (numbers < 0).any():
        raise ValueError("bars start at 0 and need values that are not negative")
    ends = value_range or (0.0, 1.04 * (float(numbers.max()) or 1.0))
    labels = ["<br>".join(textwrap.wrap(label, 22)) for label in table]
    data = [
        _bars_of(labels, [row[name] for row in table.values()], name, (roles or {}).get, role, form)
        for name in reversed(names)
    ]
    rows = len(labels) * len(names)
    tall = 96 + 34 * rows + 10 * len(labels) + (26 if len(names) > 1 else 0)
    layout = base_layout(tall)
    layout["xaxis"] = axis(x, ends=ends)
    # A value follows the end of its bar, past the axis if necessary.
    layout["margin"]["r"] = 16 + 8 * max(len(_written(float(value), form)) for value in numbers.flat)
    layout["yaxis"] = {
        "autorange": "reversed",
        "automargin": True,
        "ticks": "",
        "ticklabelstandoff": 6,
        "showgrid": False,
        "fixedrange": True,
    }
    layout |= {"bargap": 0.32, "barmode": "group", "meta": {"key": len(names) > 1}}
    return Figure(
        title=title,
        caption=caption,
        alt=f"Bar chart of {x}. The values are listed below.",
        height=max(160, tall),
        kind="chart",
        spec={"data": data, "layout": layout},
        steps=tuple(
            f"{label}: "
            + "; ".join(f"{name + ' ' if name else ''}{_written(row[name], form)}" for name in names)
            for label, row in table.items()
        ),
    )


def _bars_of(
    labels: list[str], values: list[float], name: str, role_of: Any, role: str, form: str | None
) -> dict[str, Any]:
    bar_roles = (
        [role_of(name) or role] * len(labels)
        if name
        else [role_of(label.replace("<br>", " ")) or role for label in labels]
    )
    return {
        "type": "bar",
        "orientation": "h",
        "name": name,
        "y": labels,
        "x": values,
        "text": ["\u00a0" + _written(float(value), form) for value in values],
        "textposition": "outside",
        "textfont": {"size": 13, "color": theme.token("ink")},
        "cliponaxis": False,
        "constraintext": "none",
        "hoverinfo": "skip",
        "marker": {
            "color": [
                theme.token(bar_role, 0.25) if bar_role == "predicted" else theme.token(bar_role)
                for bar_role in bar_roles
            ],
            "line": {"width": 1.5, "color": [theme.token(bar_role) for bar_role in bar_roles]},
            "pattern": {
                "shape": ["/" if bar_role in ("predicted", "waste") else "" for bar_role in bar_roles],
                "size": 6,
                "solidity": 0.35,
                "fgcolor": theme.token("surface"),
            },
        },
    }


def _written(value: float, form: str | None) -> str:
    return number(value) if form is None else format(value, form)
