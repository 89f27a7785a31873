"""A run's own accesses, step by step, as figures draw them.

In: ``run.accesses`` of a simulated run and the launch it belongs to. Out: buffers with their shapes, and
for every step which threads read or wrote which elements, on which source line. Tracing is left to the
simulator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewise.figures.dims import WARP, Dims, total

Ints = npt.NDArray[np.int64]
KINDS = ("read", "write", "update")
MOST_ACCESSES = 60_000
"""Accesses that a figure holds, so that its file stays below about 200 KB when it is sent."""
LOCAL = 2
"""The number of the local space in a trace; registers that spilled are no arrays of the lesson."""


@dataclass(frozen=True)
class Buffer:
    """An array that the run touched."""

    name: str
    shape: tuple[int, ...]
    """One, or rows and columns."""
    space: str
    """``global`` or ``shared``."""


@dataclass(frozen=True)
class Touch:
    """What threads did to one buffer in one step."""

    buffer: int
    """Number of the buffer."""
    kind: str
    """``read``, ``write``, or ``update`` for an atomic."""
    threads: Ints
    """Linear numbers of the threads in the launch."""
    elements: Ints
    """Element that each of the threads touched."""
    values: npt.NDArray[np.float64]
    """Value that went through."""


@dataclass(frozen=True)
class Step:
    """One instruction that touched memory."""

    line: int
    """Line of the kernel's source, from 1; 0 where the compiler named none."""
    source: str
    """That line, or nothing."""
    touches: tuple[Touch, ...]


@dataclass(frozen=True)
class Steps:
    """A run as a sequence of steps."""

    buffers: tuple[Buffer, ...]
    steps: tuple[Step, ...]
    left_out: int
    """Steps after the last one kept."""

    def spec(self) -> dict[str, Any]:
        """The form that the script reads."""
        return {
            "arrays": [{"name": b.name, "shape": list(b.shape), "space": b.space} for b in self.buffers],
            "steps": [
                {
                    "line": step.line,
                    "source": step.source,
                    "touches": [
                        {"a": t.buffer, "k": t.kind, "t": t.threads, "i": t.elements, "v": _short(t.values)}
                        for t in step.touches
                    ],
                }
                for step in self.steps
            ],
            "left_out": self.left_out,
        }

    def texts(self) -> tuple[str, ...]:
        """One line a step."""
        return tuple(
            f"Step {number}{f', line {step.line}' if step.line else ''}: {self.step_text(step)}."
            for number, step in enumerate(self.steps, 1)
        )

    def step_text(self, step: Step) -> str:
        """What happened in a step, e.g. ``threads 0 to 3 read a[0 to 3]``."""
        parts = []
        for touch in step.touches:
            noun = "thread" if len(touch.threads) == 1 else "threads"
            verb = touch.kind if len(touch.threads) > 1 else touch.kind + "s"
            where = element_text(touch.elements, self.buffers[touch.buffer].shape)
            parts.append(f"{noun} {ranges(touch.threads)} {verb} {self.buffers[touch.buffer].name}{where}")
        return "; ".join(parts)


def steps_of(
    run: Any,
    grid: Dims,
    block: Dims,
    *,
    shapes: Mapping[str, Sequence[int]] | None = None,
    only: Sequence[str] | None = None,
    source: str = "",
    max_steps: int = 400,
    max_threads: int | None = None,
) -> Steps:
    """Return the steps in which a run touched its arrays.

    Args:
        run: a simulated run with a trace.
        grid: the launch's grid in x, y, z.
        block: the launch's block in x, y, z.
        shapes: shape of a buffer by name; without one, as long as the last element touched.
        only: names of the buffers to keep, in this order; all by default.
        source: the kernel's source, from which the lines are quoted.
        max_steps: how many steps to keep; fewer where they hold more than MOST_ACCESSES.
        max_threads: keep only what the first threads of the launch did.

    Raises:
        ValueError: the run has no trace, a name in ``only`` is no buffer of it, or nothing is left to draw.
    """
    trace = getattr(run, "accesses", None)
    if trace is None or len(trace.step) == 0:
        raise ValueError(
            "the run has no accesses to draw: simulate with trace=Trace(), and a kernel that touches memory"
        )
    names = [str(name) for name in run.buffers]
    wanted = _wanted(names, trace, only)
    thread = (
        np.asarray(trace.block, np.int64) * total(block)
        + np.asarray(trace.warp, np.int64) * WARP
        + trace.lane
    )
    keep = np.isin(trace.buffer, wanted) & (np.asarray(trace.space) != LOCAL)
    if max_threads is not None:
        keep &= thread < max_threads
    kept = np.flatnonzero(keep)
    if not len(kept):
        raise ValueError(
            "the trace holds no access to these buffers: trace other blocks, or name other arrays"
        )
    kept = kept[np.argsort(np.asarray(trace.step)[kept], kind="stable")]
    moments = np.split(kept, np.flatnonzero(np.diff(np.asarray(trace.step)[kept])) + 1)
    few_enough = np.cumsum([len(now) for now in moments]) <= MOST_ACCESSES
    shown = max(1, min(max_steps, int(np.count_nonzero(few_enough))))
    lines = source.splitlines()
    steps = []
    for now in moments[:shown]:
        line = int(trace.line[now[0]])
        quoted = lines[line - 1].strip() if 1 <= line <= len(lines) else ""
        steps.append(Step(line, quoted, tuple(_touches(trace, thread, now, wanted))))
    return Steps(
        tuple(_buffers(trace, names, wanted, keep, shapes or {})), tuple(steps), max(0, len(moments) - shown)
    )


def shapes_of(launch: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of a launch's arrays by parameter name, as far as its case says them."""
    values = getattr(getattr(launch, "case", None), "values", None)
    if callable(values) or not isinstance(values, Mapping):
        return {}
    return {str(name): tuple(value.shape) for name, value in values.items() if getattr(value, "shape", ())}


def source_of(launch: Any) -> str:
    """Return the source of a launch's kernel, or nothing."""
    return str(getattr(getattr(launch, "kernel", None), "source", ""))


def element_text(elements: Ints, shape: tuple[int, ...]) -> str:
    """Return elements as indices: ``[0 to 3]``, or ``[0][0 to 3]`` of a matrix, or how many there are."""
    if len(shape) == 2:
        rows, columns = np.unique(elements // shape[1]), np.unique(elements % shape[1])
        if len(rows) * len(columns) == len(np.unique(elements)):
            return f"[{ranges(rows)}][{ranges(columns)}]"
    return f"[{ranges(elements)}]"


def ranges(numbers: Ints, at_most: int = 4) -> str:
    """Return whole numbers as ranges, e.g. ``0 to 3, 8``; the many beyond ``at_most`` ranges are counted."""
    sorted_numbers = np.unique(numbers)
    groups = np.split(sorted_numbers, np.flatnonzero(np.diff(sorted_numbers) != 1) + 1)
    said = [str(int(g[0])) if len(g) == 1 else f"{int(g[0])} to {int(g[-1])}" for g in groups[:at_most]]
    rest = sum(len(group) for group in groups[at_most:])
    return ", ".join(said) + (f" and {rest} more" if rest else "")


def _wanted(names: list[str], trace: Any, only: Sequence[str] | None) -> list[int]:
    if only is not None:
        unknown = [name for name in only if name not in names]
        if unknown:
            raise ValueError(f"the run has no buffer {unknown[0]!r}; its buffers are {', '.join(names)}")
        return [names.index(name) for name in only]
    touched = np.unique(np.asarray(trace.buffer)[np.asarray(trace.space) != LOCAL])
    return [int(number) for number in touched if 0 <= number < len(names)]


def _touches(trace: Any, thread: Ints, now: Ints, wanted: list[int]) -> list[Touch]:
    touches = []
    for place, number in enumerate(wanted):
        for kind, name in enumerate(KINDS):
            here = now[(trace.buffer[now] == number) & (trace.kind[now] == kind)]
            if len(here):
                here = here[np.argsort(thread[here], kind="stable")]
                touches.append(
                    Touch(
                        place,
                        name,
                        thread[here],
                        np.asarray(trace.index[here], np.int64),
                        np.asarray(trace.value[here], np.float64),
                    )
                )
    return touches


def _buffers(
    trace: Any,
    names: list[str],
    wanted: list[int],
    keep: npt.NDArray[np.bool_],
    shapes: Mapping[str, Sequence[int]],
) -> list[Buffer]:
    buffers = []
    for number in wanted:
        mine = keep & (np.asarray(trace.buffer) == number)
        last = int(np.max(trace.index[mine])) + 1 if mine.any() else 1
        shape = tuple(int(part) for part in shapes.get(names[number], (last,)))
        if len(shape) > 2:
            shape = (int(np.prod(shape[:-1])), shape[-1])
        shared = mine.any() and int(trace.space[np.flatnonzero(mine)[0]]) == 1
        buffers.append(Buffer(names[number], shape, "shared" if shared else "global"))
    return buffers


def _short(values: npt.NDArray[np.float64]) -> list[float | None]:
    return [float(f"{value:.4g}") if np.isfinite(value) else None for value in values]
