"""The stepped figure: one slider moves threads, source line, memory and variables together.

In: a traced run, the states of a model, or charts of the same form. Out: one Figure with a text for each
step, of at most 200 KB compressed.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, Literal

import numpy as np

from tilewise.bf16 import names as names_of_bf16
from tilewise.figures.dims import MAX_BLOCK_THREADS, Dims, dims, total
from tilewise.figures.figure import Figure
from tilewise.figures.kinds.chart.steps import stepped_charts
from tilewise.figures.kinds.stepped.elements import by_element
from tilewise.figures.kinds.stepped.moments import Buffer, Moment, Values
from tilewise.figures.kinds.stepped.run_figure import (
    MOST_BYTES,
    MOST_MOMENTS,
    MOST_ROWS,
    MOST_THREADS,
    Traced,
    beyond_shape,
    fits,
    of_run,
    parts_of,
    touched,
)
from tilewise.figures.kinds.stepped.specification import short
from tilewise.figures.kinds.stepped.states import State, moments_of_states


def stepped(
    subject: Any,
    labels: Sequence[Any] | None = None,
    *,
    title: str,
    caption: str,
    alt: str | None = None,
    arrays: Sequence[str] | None = None,
    extent: int | Sequence[int] | None = None,
    axes: Sequence[str] = ("x", "y", "z"),
    grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    cell: str = "",
    source: str = "",
    language: Literal["cuda", "python"] = "python",
    view: Literal["2d", "3d"] = "2d",
    step_name: str = "step",
    start: int = 0,
    blanks: bool = False,
) -> Figure:
    """Return a figure with a slider through the steps of a run, a model or charts.

    Args:
        subject: a traced run, with the shapes of its launch's arrays; ``State``s of a model; or charts of
            ``line_chart``, ``bars`` or ``heat_map``.
        labels: for charts, the slider's label for each step.
        title: what the reader should see, as a statement.
        caption: what the figure shows; self-contained.
        alt: the text alternative; by default generated from the subject.
        arrays: for a run, the arrays to show, in this order; by default all.
        extent: cells of the problem in x, y, z; threads outside are idle and hatched.
        axes: the lesson's names of x, y and z, e.g. ``("col", "row")``.
        grid: for a model with threads, its blocks in x, y, z.
        block: for a model with threads, the threads of a block.
        cell: for a model, what a cell represents if not a thread, e.g. ``"multiply-add"``.
        source: for a model, the source whose lines the states name.
        language: the source's language.
        view: the initial view of the threads.
        step_name: label of the slider.
        start: the step shown first, from 0.
        blanks: for a model, whether NaN elements are drawn empty, and never as written.

    Raises:
        ValueError: the run has no trace, the figure would be too large, or states do not match.
    """
    if labels is not None or (isinstance(subject, Sequence) and subject and isinstance(subject[0], Figure)):
        return stepped_charts(
            subject,
            labels or [],
            title=title,
            caption=caption,
            step_name=step_name,
            start=start,
            alt=alt,
        )
    spec: dict[str, Any] = {"step_name": step_name, "start": start, "view": view, "axes": _named(axes)}
    spec["extent"] = None if extent is None else dims(extent, "extent")
    if hasattr(subject, "accesses"):
        parts = _of_run(subject, spec, arrays)
    else:
        moments, buffers = _of_states(subject, spec, grid, block, source, language)
        if cell and "grid" in spec:
            spec["cell"] = cell
        spec |= {"blanks": True} if blanks else {}
        parts = parts_of(spec, moments, buffers)
    count = len(parts["steps"])
    if count > MOST_MOMENTS:
        raise ValueError(
            f"the figure {title!r} would have {count:,} steps, and a reader steps through at most "
            f"{MOST_MOMENTS}. {_LESS}"
        )
    if not 0 <= start < count:
        raise ValueError(f"the figure starts at step {start}, and its steps are 0 to {count - 1}")
    figure = Figure(
        title=title,
        caption=caption,
        alt=alt or parts["alt"],
        height=parts["height"],
        narrow_height=parts["narrow_height"],
        kind="stepped",
        spec=parts["spec"],
        steps=tuple(parts["steps"]),
    )
    return _small_enough(figure)


_LESS = (
    "Trace less: fewer blocks or warps or steps, Trace(blocks=[0], warps=[0], max_steps=500), "
    "fewer arrays=, or a smaller launch."
)


def _named(axes: Sequence[str]) -> tuple[str, ...]:
    return (*axes, *("x", "y", "z")[len(axes) :])


def _of_run(run: Any, spec: dict[str, Any], only: Sequence[str] | None) -> dict[str, Any]:
    trace = run.accesses
    if not len(trace) and not run.watched:
        raise ValueError(
            "the run has no steps to show: simulate with trace=Trace(), and a kernel that touches memory or "
            "has // watch: comments"
        )
    if len(trace) > MOST_ROWS:
        raise ValueError(f"the run has {len(trace):,} accesses, too many for a figure. {_LESS}")
    traced = traced_of(run, run.launch)
    if not fits(traced):
        raise ValueError(
            f"the launch has {total(run.grid) * total(run.block):,} threads, and a figure draws the first "
            f"{MOST_THREADS:,}. Trace only blocks among them, Trace(blocks=[0, 1]), or launch less."
        )
    names = list(traced.buffers)
    if only is not None and (unknown := [name for name in only if name not in names]):
        raise ValueError(f"the run has no array {unknown[0]!r}; its arrays are {', '.join(names)}")
    numbers = [names.index(name) for name in only] if only is not None else touched(traced.rows, names)
    for number in numbers:
        if (last := beyond_shape(traced, number)) >= 0:
            sides = traced.shapes[names[number]]
            raise ValueError(
                f"the run touches element {last:,} of {names[number]}, which the shape {sides} does not have"
            )
    return of_run(traced, numbers, spec)


def traced_of(run: Any, launch: Any = None) -> Traced:
    """Return a run in the form that figures need."""
    buffers = [str(name) for name in run.buffers]
    coded = names_of_bf16(_values_of(launch))
    return Traced(
        kernel=run.kernel,
        source=run.source,
        grid=dims(run.grid, "grid"),
        block=dims(run.block, "block"),
        rows=by_element(run.accesses, run.dtypes, [name in coded for name in buffers]),
        watched=[
            Values(**{field.name: np.asarray(getattr(seen, field.name)).tolist() for field in fields(Values)})
            for seen in run.watched.values()
        ],
        names=list(run.watched),
        buffers=buffers,
        shapes={**run.shared_shapes, **_shapes_of(launch)},
        hazards=[{"line": h.line, "kind": h.kind, "message": h.message} for h in run.hazards],
        barriers=[
            [line, counts.barriers] for line, counts in sorted(run.lines.items()) if line and counts.barriers
        ],
    )


def _of_states(
    states: Sequence[State], spec: dict[str, Any], grid: Any, block: Any, source: str, language: str
) -> tuple[list[Moment], list[Buffer]]:
    moments, contents = moments_of_states(states)
    buffers = [Buffer(name, list(array.shape), "model") for name, array in contents.items()]
    spec["arrays"] = [
        {
            "name": name,
            "shape": list(array.shape),
            "space": "model",
            "start": short(array.ravel().tolist()),
        }
        for name, array in contents.items()
    ]
    spec["watched"] = list(dict.fromkeys(name for state in states for name in state.values))
    spec["hazards"] = []
    if source:
        spec["code"] = {"text": source, "language": language, "name": ""}
    if grid is not None or block is not None:
        sizes: tuple[Dims, Dims] = (dims(grid or 1, "grid"), dims(block or 1, "block"))
        if total(sizes[1]) > MAX_BLOCK_THREADS or total(sizes[0]) * total(sizes[1]) > MOST_THREADS:
            raise ValueError(
                f"a figure draws at most {MOST_THREADS:,} threads, {MAX_BLOCK_THREADS:,} in a block; "
                f"this launch is {sizes[0]} blocks of {sizes[1]}"
            )
        spec |= {"grid": sizes[0], "block": sizes[1], "max_threads": MOST_THREADS}
        spec["threads"] = [None if state.threads is None else list(state.threads) for state in states]
    return moments, buffers


def _shapes_of(launch: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of a launch's arrays by parameter name, if its case has them."""
    return {
        str(name): tuple(value.shape)
        for name, value in _values_of(launch).items()
        if getattr(value, "shape", ())
    }


def _values_of(launch: Any) -> Mapping[str, Any]:
    """The values of a launch's case by parameter name; empty if it has none."""
    values = getattr(getattr(launch, "case", None), "values", None)
    return {} if callable(values) or not isinstance(values, Mapping) else values


def _small_enough(figure: Figure) -> Figure:
    size = len(gzip.compress(figure.json_bytes(), mtime=0))
    if size > MOST_BYTES:
        raise ValueError(
            f"the figure {figure.title!r} takes {size / 1000:,.0f} KB when it is sent, and at most "
            f"{MOST_BYTES / 1000:.0f} KB are allowed. {_LESS}"
        )
    return figure
