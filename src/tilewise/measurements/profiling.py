"""Profiles for text records: calls of a lesson's cell under Nsight Compute, in a child process.

In: a lesson, the name of one of its ``record="..."`` cells, and the calls to profile. Out: metrics of each
call. The child runs the lesson up to the same cell, where ``profiled`` opens the profiler's range around each
call instead of starting the tool again; a marker kernel separates the calls.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewise.gpu.counters import find_ncu, run_with_ncu
from tilewise.measurements.readings import Numbers, printed
from tilewise.outputs.table import Cell

TIME_LIMIT_S = 240
"""The child's time limit."""
MARKER = "tilewise_marker"
"""The kernel that is launched before each call."""
STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
PEAK = ".avg.pct_of_peak_sustained_"
STALLS = (
    "long_scoreboard",
    "short_scoreboard",
    "lg_throttle",
    "mio_throttle",
    "barrier",
    "membar",
    "wait",
    "gmma",
    "math_pipe_throttle",
    "dispatch_stall",
    "not_selected",
    "selected",
    "no_instruction",
    "branch_resolving",
    "drain",
    "sleeping",
    "misc",
    "imc_miss",
)
"""Nsight Compute's warp states on Hopper: all are stall reasons except ``selected``."""
LIMITS = (
    "gpu__time_duration.sum",
    "launch__registers_per_thread",
    "launch__waves_per_multiprocessor",
    "sm__cycles_active.avg",
    "sm__cycles_active.max",
    f"dram__throughput{PEAK}elapsed",
    "dram__bytes_read.sum",
    "dram__bytes_write.sum",
    f"lts__throughput{PEAK}elapsed",
    "lts__t_sectors_op_read.sum",
    "lts__t_sectors_op_write.sum",
    "lts__t_sector_hit_rate.pct",
    f"l1tex__throughput{PEAK}active",
    "l1tex__t_sector_hit_rate.pct",
)
"""Time, and the utilisation of each memory level."""
WORK = (
    "smsp__inst_executed.sum",
    f"smsp__issue_active{PEAK}active",
    f"sm__warps_active{PEAK}active",
    "smsp__warps_eligible.avg.per_cycle_active",
    f"sm__pipe_tensor_cycles_active{PEAK}active",
    f"sm__pipe_tensor_op_hmma_cycles_active{PEAK}active",
    f"sm__pipe_tensor_op_gmma_cycles_active{PEAK}active",
    "sm__inst_executed_pipe_tensor.sum",
    *(
        f"sm__inst_executed_pipe_{pipe}{PEAK}active"
        for pipe in ("alu", "fma", "fmaheavy", "fp16", "lsu", "xu", "uniform")
    ),
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    *(STALLED.format(reason) for reason in STALLS),
)
"""Instructions, pipes, wavefronts and stall reasons."""
ALL = (*LIMITS, *WORK)
"""The metrics for a compute-bound kernel."""

Calls = Mapping[str, Callable[[], Any]]


class ProfileOver(BaseException):
    """Ends the child after profiling; not an ``Exception``, so that no cell of a lesson swallows it."""


@dataclass(frozen=True)
class Profile:
    """Nsight Compute's metrics for one call."""

    label: str
    kernel: str
    """The kernel that took longest."""
    kernels: int
    values: Mapping[str, float]
    """Metrics of that kernel by Nsight Compute's names; NaN if missing."""


_CHILD: ContextVar[Path | None] = ContextVar("tilewise_profile_child", default=None)


@contextmanager
def observing(labels: Path) -> Iterator[None]:
    """Let ``profiled`` launch its calls and write their labels inside a ``with`` block."""
    token = _CHILD.set(labels)
    try:
        yield
    finally:
        _CHILD.reset(token)


def profiled(
    lesson: str, record: str, make_calls: Callable[[], Calls], metrics: Sequence[str] = ALL
) -> list[Profile]:
    """Profile calls of the calling cell.

    Args:
        lesson: the lesson's id.
        record: the ``record="..."`` of the cell.
        make_calls: returns functions without arguments that enqueue work, by label; runs only in the child.
        metrics: Nsight Compute's names.

    Returns:
        A profile of the longest kernel of each call, in order.

    Raises:
        ValueError: Nsight Compute is missing, failed, or saw other calls; with its message.
    """
    if (labels_file := _CHILD.get()) is not None:
        calls = make_calls()
        labels_file.write_text(json.dumps(list(calls)), encoding="utf-8")
        _launch(calls.values())
        raise ProfileOver
    ncu = find_ncu()
    if ncu is None:
        raise ValueError("Nsight Compute (ncu) is not here; install it or put it on the path")
    names = {name: name for name in ["gpu__time_duration.sum", *metrics]}

    def child(labels: Path) -> list[str]:
        command = [sys.executable, "-m", "tilewise", "profile-child", lesson]
        return [*command, "--record", record, "--labels", str(labels)]

    return by_call(*run_with_ncu(ncu, child, TIME_LIMIT_S, names), metrics)


def _launch(calls: Iterable[Callable[[], Any]]) -> None:
    """Run each call once outside the profiler's range, to compile everything, and once inside it."""
    import cupy

    source = f'extern "C" __global__ void {MARKER}() {{}}'
    marker = cupy.RawKernel(source, MARKER)
    for call in calls:
        call()
        cupy.cuda.runtime.deviceSynchronize()
        cupy.cuda.runtime.profilerStart()
        marker((1,), (1,), ())
        call()
        cupy.cuda.runtime.deviceSynchronize()
        cupy.cuda.runtime.profilerStop()


def by_call(
    labels: Sequence[str],
    launches: Sequence[tuple[str, Mapping[str, float]]],
    metrics: Sequence[str] = ALL,
) -> list[Profile]:
    """Profiles from launches, split at the marker.

    Args:
        labels: the calls, in order.
        launches: for each launch in order the kernel's name and its metrics.
        metrics: the ones to keep.

    Raises:
        ValueError: there are more or fewer calls than labels, or a call launched nothing.
    """
    groups: list[list[tuple[str, Mapping[str, float]]]] = []
    for name, values in launches:
        if MARKER in name:
            groups.append([])
        elif groups:
            groups[-1].append((name, values))
    if len(groups) != len(labels):
        raise ValueError(f"{len(labels)} calls were to be profiled and Nsight Compute saw {len(groups)}.")
    profiles = []
    for label, group in zip(labels, groups, strict=True):
        if not group:
            raise ValueError(f'the call "{label}" launched no kernel.')
        name, values = max(group, key=lambda launch: launch[1].get("gpu__time_duration.sum", 0.0))
        chosen = {metric: values.get(metric, math.nan) for metric in metrics}
        profiles.append(Profile(label, name, len(group), chosen))
    return profiles


def table_of(profiles: Sequence[Profile]) -> str:
    """Profiles as text: a line per call and its kernel, then a line per metric, separated by `` | ``."""
    kernels = [
        f"profile of {profile.label}: {profile.kernels} kernels, longest {profile.kernel[:80]}"
        for profile in profiles
    ]
    head = f"metric | {' | '.join(profile.label for profile in profiles)}"
    metrics = list(profiles[0].values) if profiles else []
    rows = [
        f"{name} | {' | '.join(format(profile.values[name], '.8g') for profile in profiles)}"
        for name in metrics
    ]
    return "\n".join([*kernels, head, *rows])


def read_table(text: str) -> dict[str, dict[str, float]]:
    """Metrics by label from the text of ``table_of``; empty without a table."""
    rows = [line.split(" | ") for line in text.splitlines() if " | " in line]
    if not rows:
        return {}
    labels = rows[0][1:]
    return {
        label: {row[0]: float(row[1 + column]) for row in rows[1:] if len(row) == len(rows[0])}
        for column, label in enumerate(labels)
    }


class Profiles(dict[str, Numbers]):
    """Metrics by label; a missing label has no metrics."""

    def __missing__(self, label: str) -> Numbers:
        """No metrics."""
        return Numbers()


def printed_profiles(lesson: str, name: str) -> Profiles:
    """The profiles that a recorded cell printed by ``table_of``; NaN for unrecorded metrics.

    Args:
        lesson: the lesson's id.
        name: the cell's ``record="..."``.
    """
    table = read_table(printed(lesson, name))
    return Profiles({label: Numbers(values) for label, values in table.items()})


def stall_fractions(values: Mapping[str, float]) -> Numbers:
    """The fraction of a warp's cycles in each stall reason, including ``selected``."""
    ratios = {reason: values.get(STALLED.format(reason), math.nan) for reason in STALLS}
    known = {reason: ratio for reason, ratio in ratios.items() if math.isfinite(ratio)}
    total = sum(known.values())
    return Numbers({reason: ratio / total for reason, ratio in known.items()} if total else {})


SUMMARY = ("version", "tensor pipe", "issue slots", "most frequent stalls", "DRAM, MB")
"""The head of ``summary_rows``."""
NO_STALL = ("selected", "not_selected")
"""Entries of ``STALLS`` in which the warp could issue."""


def summary_rows(profiles: Mapping[str, Mapping[str, float]]) -> list[list[Any]]:
    """For each profile the limits of a tensor-core kernel, in ``SUMMARY``'s columns; needs ``ALL``'s metrics.

    Bytes are those read from and written to DRAM. Stalls are the two most frequent, as fractions of a warp's
    cycles.
    """

    def percent(value: float) -> str:
        return f"{value:.0%}"

    rows = []
    for label, values in profiles.items():
        fractions = stall_fractions(values)
        stalls = sorted(set(fractions) - set(NO_STALL), key=lambda reason: -fractions[reason])[:2]
        moved = values["dram__bytes_read.sum"] + values["dram__bytes_write.sum"]
        rows.append(
            [
                label,
                percent(values[f"sm__pipe_tensor_cycles_active{PEAK}active"] / 100),
                percent(values[f"smsp__issue_active{PEAK}active"] / 100),
                Cell(", ".join(f"{reason} {percent(fractions[reason])}" for reason in stalls), mark="code"),
                f"{moved / 1e6:.0f}",
            ]
        )
    return rows
