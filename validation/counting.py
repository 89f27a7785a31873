"""Taking the counters: every specimen once on the GPU, under one run of Nsight Compute.

In: specimens. Out: a ``DeviceRecord``. The child launches each specimen inside the profiler's range and
says in a manifest what came out; the parent reads the tool's table beside it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from tilewise.errors import LessonError
from tilewise.gpu.counters import known_metrics, run_with_ncu
from validation.record import Counted, DeviceRecord, Output, output, provenance
from validation.specimen import Specimen

_LSU = "l1tex__t_{unit}_pipe_lsu_mem_{space}_op_{op}.sum"
_BANKS = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum"

METRICS: Mapping[str, str] = {
    **{
        f"{space}_{ours}_{unit}": _LSU.format(unit=unit, space=space, op=op)
        for space, operations in (
            ("global", {"load": "ld", "store": "st", "atom": "atom", "red": "red"}),
            ("local", {"load": "ld", "store": "st"}),
        )
        for ours, op in operations.items()
        for unit in ("requests", "sectors")
    },
    "shared_load_wavefronts": _BANKS.format(op="ld"),
    "shared_store_wavefronts": _BANKS.format(op="st"),
    "shared_atomic_wavefronts": _BANKS.format(op="atom"),
    "shared_load_requests": "smsp__inst_executed_op_shared_ld_pred_on_any.sum",
    "shared_store_requests": "smsp__inst_executed_op_shared_st_pred_on_any.sum",
    "shared_atomic_requests": "smsp__inst_executed_op_shared_atom_pred_on_any.sum",
    "async_copy_instructions": "smsp__inst_executed_op_ldgsts.sum",
    "async_copy_requests": _LSU.format(unit="requests", space="global", op="ldgsts"),
    "async_copy_sectors": _LSU.format(unit="sectors", space="global", op="ldgsts"),
    "matrix_load_requests": "smsp__inst_executed_op_ldsm.sum",
    "instructions": "smsp__inst_executed.sum",
    "thread_instructions": "smsp__thread_inst_executed.sum",
}
"""Our names for the counters, and Nsight Compute's."""

TIME_LIMIT_S = 540
"""How long the tool may take for all specimens."""


def chosen_metrics(known: frozenset[str]) -> dict[str, str]:
    """Those counters that the tool knows; all where it did not say which it does."""
    return {
        name: metric for name, metric in METRICS.items() if not known or metric.removesuffix(".sum") in known
    }


def count(ncu: str, specimens: Sequence[Specimen]) -> DeviceRecord[Counted]:
    """Count every specimen.

    Args:
        ncu: the tool.
        specimens: what to launch; the child collects the same ones by itself.

    Raises:
        LessonError: nothing was launched, or the tool's table does not fit what was.
    """
    metrics = chosen_metrics(known_metrics(ncu))

    def child(manifest: Path) -> list[str]:
        return [sys.executable, "-m", "validation", "--child", str(manifest)]

    try:
        told, launches = run_with_ncu(
            ncu, child, TIME_LIMIT_S, metrics, {**os.environ, "TILEWISE_BACKEND": "gpu"}
        )
    except ValueError as error:
        raise _fault(str(error)) from None
    told["provenance"]["versions"]["ncu"] = version(ncu)
    return matched(told, metrics, specimens, launches)


def matched(
    told: Mapping[str, Any],
    metrics: Mapping[str, str],
    specimens: Sequence[Specimen],
    launches: Sequence[tuple[str, Mapping[str, float]]],
) -> DeviceRecord[Counted]:
    """Put the tool's table beside what the child says it launched.

    Raises:
        LessonError: they are not the same kernels in the same order.
    """
    wanted = [one.launch.kernel.name for one in specimens]
    seen = [name for name, _ in launches]
    if seen != wanted:
        raise _fault(f"{len(wanted)} kernels were launched and Nsight Compute saw {seen}.")
    rows = []
    for one, (_, values) in zip(specimens, launches, strict=True):
        outputs = {name: Output(**kept) for name, kept in told["outputs"][one.name].items()}
        rows.append(Counted(one.name, one.key, {name: int(value) for name, value in values.items()}, outputs))
    return DeviceRecord("counts", told["provenance"], tuple(rows), dict(metrics))


def child(manifest: Path, specimens: Sequence[Specimen]) -> None:
    """Launch every specimen inside the profiler's range and write down what came out."""
    import cupy

    outputs: dict[str, Any] = {}
    for one in specimens:
        arrays = one.launch.case.make()
        cupy.cuda.runtime.profilerStart()
        one.launch.run(arrays)
        cupy.cuda.get_current_stream().synchronize()
        cupy.cuda.runtime.profilerStop()
        outputs[one.name] = {
            name: asdict(output(np.asarray(arrays[name]), one.exact)) for name in one.written
        }
    told = {"provenance": provenance(), "outputs": outputs}
    manifest.write_text(json.dumps(told), encoding="utf-8")


def version(tool: str) -> str:
    """The number that a tool of NVIDIA's says it is."""
    done = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=60, check=False)
    words = [word for line in done.stdout.splitlines() if "Version" in line for word in line.split()]
    return next((word for word in words if word[:1].isdigit()), "unknown")


def _fault(message: str) -> LessonError:
    return LessonError("validation", 0, message, "Run it on a machine with an NVIDIA GPU and ncu.")
