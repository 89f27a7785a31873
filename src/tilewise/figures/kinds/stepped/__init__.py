"""The stepped figure: one slider moves threads, source line, memory and variables together.

In: a traced run, the states of a model, or charts of one form. Out: one Figure with a text for each step, of
at most 200 KB when it is sent. Drawing is left to ``draw_on_demand.js``.
"""

from __future__ import annotations

import gzip
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from tilewise.figures.dims import MAX_BLOCK_THREADS, WARP, Dims, dims, total
from tilewise.figures.figure import Figure
from tilewise.figures.kinds.chart.steps import stepped_charts
from tilewise.figures.kinds.stepped.declarations import shared_arrays, words_as
from tilewise.figures.kinds.stepped.moment_texts import texts_of
from tilewise.figures.kinds.stepped.moments import LOCAL, SHARED, Buffer, Moment, moments_of
from tilewise.figures.kinds.stepped.rooms import heights
from tilewise.figures.kinds.stepped.specification import array_spec, moment_spec
from tilewise.figures.kinds.stepped.states import State, moments_of_states

MOST_BYTES = 200_000
"""Bytes of a figure's file when it is sent with gzip."""
MOST_MOMENTS = 600
"""Moments on one slider."""
MOST_THREADS = 4096
"""Threads of a launch that can be drawn."""
MOST_ROWS = 300_000
"""Accesses beyond which a figure is not even tried."""


def stepped(
    subject: Any,
    labels: Sequence[Any] | None = None,
    *,
    title: str,
    caption: str,
    alt: str | None = None,
    launch: Any = None,
    arrays: Sequence[str] | None = None,
    extent: int | Sequence[int] | None = None,
    axes: Sequence[str] = ("x", "y", "z"),
    grid: int | Sequence[int] | None = None,
    block: int | Sequence[int] | None = None,
    cell: str = "",
    source: str = "",
    language: Literal["cuda", "python"] = "cuda",
    view: Literal["2d", "3d"] = "2d",
    step_name: str = "step",
    start: int = 0,
    blanks: bool = False,
) -> Figure:
    """Return a figure whose slider goes through a run, a model or charts.

    Args:
        subject: a traced run, ``State``s of a model, or charts of ``line_chart``, ``bars`` or ``heat_map``.
        labels: with charts, what the slider says at each step.
        title: what is to be seen, as a statement.
        caption: what the figure shows, read alone.
        alt: the text alternative; by default made from the subject.
        launch: of a run, the launch that brings the shapes of its arrays.
        arrays: of a run, the arrays to show, in this order; all by default.
        extent: cells of the problem in x, y, z; threads outside are idle and hatched.
        axes: the lesson's names of x, y and z, e.g. ``("col", "row")``.
        grid: of a model with threads, its blocks in x, y, z.
        block: of a model with threads, the threads of a block.
        cell: of a model, what one of them stands for where that is no thread, e.g. ``"multiply-add"``.
        source: of a model, the text whose lines the states name.
        language: the language of that text.
        view: which view of the threads stands first.
        step_name: what the slider sets.
        start: the step shown first, from 0.
        blanks: of a model, whether a place that holds NaN is drawn empty, and never as written.

    Raises:
        ValueError: the run has no trace, the figure would be too large, or states do not fit together.
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
        moments, buffers, watched = _of_run(subject, spec, launch, arrays)
    else:
        moments, buffers, watched = _of_states(subject, spec, grid, block, source, language)
        if cell and "grid" in spec:
            spec["cell"] = cell
        spec |= {"blanks": True} if blanks else {}
    if len(moments) > MOST_MOMENTS:
        raise ValueError(
            f"the figure {title!r} would have {len(moments):,} steps, and a reader steps through at most "
            f"{MOST_MOMENTS}. {_LESS}"
        )
    if not 0 <= start < len(moments):
        raise ValueError(f"the figure starts at step {start}, and its steps are 0 to {len(moments) - 1}")
    texts = texts_of(moments, buffers, watched)
    spec["moments"] = [moment_spec(moment) for moment in moments]
    wide, narrow = heights(spec, texts)
    figure = Figure(
        title=title,
        caption=caption,
        alt=alt or _alt(spec, moments, buffers, watched),
        height=wide,
        narrow_height=narrow,
        kind="stepped",
        spec=spec,
        steps=texts,
    )
    return _small_enough(figure)


_LESS = (
    "Trace less: fewer blocks or warps or steps, Trace(blocks=[0], warps=[0], max_steps=500), "
    "fewer arrays=, or a smaller launch."
)


def _named(axes: Sequence[str]) -> tuple[str, ...]:
    return (*axes, *("x", "y", "z")[len(axes) :])


def _of_run(
    run: Any,
    spec: dict[str, Any],
    launch: Any,
    only: Sequence[str] | None,
) -> tuple[list[Moment], list[Buffer], list[str]]:
    trace = run.accesses
    if not len(trace) and not run.watched:
        raise ValueError(
            "the run has no steps to show: simulate with trace=Trace(), and a kernel that touches memory or "
            "has // watch: comments"
        )
    if len(trace) > MOST_ROWS:
        raise ValueError(f"the run has {len(trace):,} accesses, too many for a figure. {_LESS}")
    grid, block = dims(run.grid, "grid"), dims(run.block, "block")
    last = int(np.max(trace.block, initial=0)) * total(block) + total(block)
    if total(grid) * total(block) > MOST_THREADS and last > MOST_THREADS:
        raise ValueError(
            f"the launch has {total(grid) * total(block):,} threads, and a figure draws the first "
            f"{MOST_THREADS:,}. Trace only blocks among them, Trace(blocks=[0, 1]), or launch less."
        )
    names = [str(name) for name in run.buffers]
    if only is not None and (unknown := [name for name in only if name not in names]):
        raise ValueError(f"the run has no array {unknown[0]!r}; its arrays are {', '.join(names)}")
    in_memory = np.asarray(trace.space) != LOCAL
    numbers = [names.index(name) for name in only] if only is not None else _touched(trace, in_memory, names)
    defines = getattr(getattr(launch, "kernel", None), "defines", None) or {}
    declared = shared_arrays(run.source, defines)
    known = {**{n: one.shape for n, one in declared.items() if one.shape}, **_shapes_of(launch)}
    values = np.array(trace.value, np.float64)
    buffers, spec["arrays"] = [], []
    for number in numbers:
        mine = in_memory & (np.asarray(trace.buffer) == number)
        buffer = _buffer(trace, mine, names[number], known.get(names[number]), bool(run.hazards))
        dtype = declared[buffer.name].dtype if buffer.name in declared else None
        if buffer.space == "shared" and dtype is not None:
            values[mine] = words_as(values[mine], dtype)
        buffers.append(buffer)
        spec["arrays"].append(array_spec(buffer, trace, mine))
    spec |= {"grid": grid, "block": block, "max_threads": MOST_THREADS}
    spec["code"] = {"text": run.source, "language": "cuda", "name": run.kernel}
    spec["watched"] = list(run.watched)
    spec["hazards"] = [{"line": h.line, "kind": h.kind, "message": h.message} for h in run.hazards]
    return moments_of(run, numbers, values, _sizes(run, buffers)), buffers, list(run.watched)


def _of_states(
    states: Sequence[State], spec: dict[str, Any], grid: Any, block: Any, source: str, language: str
) -> tuple[list[Moment], list[Buffer], list[str]]:
    moments, contents = moments_of_states(states)
    buffers = [Buffer(name, held.shape, "model") for name, held in contents.items()]
    spec["arrays"] = [array_spec(one, held=contents[one.name]) for one in buffers]
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
    return moments, buffers, list(spec["watched"])


def _touched(trace: Any, in_memory: Any, names: Sequence[str]) -> list[int]:
    """The arrays that the run touched, those in shared memory first: what they hold is drawn too."""
    touched = np.unique(np.asarray(trace.buffer)[in_memory])
    shared = np.unique(np.asarray(trace.buffer)[in_memory & (np.asarray(trace.space) == SHARED)])
    known = [int(number) for number in touched if 0 <= number < len(names)]
    return sorted(known, key=lambda number: (number not in shared, number))


def _shapes_of(launch: Any) -> dict[str, tuple[int, ...]]:
    """The shapes of a launch's arrays by parameter name, as far as its case says them."""
    values = getattr(getattr(launch, "case", None), "values", None)
    if callable(values) or not isinstance(values, Mapping):
        return {}
    return {str(name): tuple(value.shape) for name, value in values.items() if getattr(value, "shape", ())}


def _sizes(run: Any, buffers: Sequence[Buffer]) -> list[int] | None:
    """Elements of each array, beyond which a run with hazards may have reached."""
    return [int(np.prod(buffer.shape)) for buffer in buffers] if run.hazards else None


def _buffer(trace: Any, mine: Any, name: str, shape: Sequence[int] | None, hazards: bool) -> Buffer:
    last = int(np.max(np.asarray(trace.index)[mine], initial=0)) + 1
    sides = tuple(int(part) for part in shape) if shape else (last,)
    if len(sides) > 2:
        sides = (int(np.prod(sides[:-1])), sides[-1])
    if int(np.prod(sides)) < last and not hazards:
        raise ValueError(
            f"the run touches element {last - 1:,} of {name}, which the shape {sides} does not have"
        )
    shared = mine.any() and int(np.asarray(trace.space)[mine][0]) == SHARED
    return Buffer(name, sides, "shared" if shared else "global")


def _alt(spec: Mapping[str, Any], moments: Sequence[Moment], buffers: Any, watched: Sequence[str]) -> str:
    said = [f"{len(moments):,} steps, listed below."]
    if "cell" in spec:
        said.append(f"Each of {total(spec['grid']) * total(spec['block']):,} cells is a {spec['cell']}.")
    elif "grid" in spec:
        blocks, each = total(spec["grid"]), total(spec["block"])
        warps = -(-each // WARP)
        said.append(
            f"The launch has {blocks:,} {'block' if blocks == 1 else 'blocks'} of {each:,} threads, "
            f"{warps:,} {'warp' if warps == 1 else 'warps'} in each."
        )
    if buffers:
        said.append(f"Arrays: {', '.join(f'{b.name} ({_by(b.shape)}, {b.space})' for b in buffers)}.")
    if watched:
        said.append(f"Values shown: {', '.join(watched)}.")
    return " ".join(said).replace(", model)", ")")


def _by(shape: Sequence[int]) -> str:
    return " by ".join(f"{part:,}" for part in shape)


def _small_enough(figure: Figure) -> Figure:
    size = len(gzip.compress(figure.json_bytes(), mtime=0))
    if size > MOST_BYTES:
        raise ValueError(
            f"the figure {figure.title!r} takes {size / 1000:,.0f} KB when it is sent, and at most "
            f"{MOST_BYTES / 1000:.0f} KB are allowed. {_LESS}"
        )
    return figure
