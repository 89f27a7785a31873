"""Counts with Nsight Compute: every specimen once on the GPU, in one run of the tool.

In: specimens. Out: a ``DeviceRecord``. The child launches each specimen inside the profiler's range and
writes the outputs to a manifest; the parent matches it with the tool's table.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from tilewise.errors import LessonError
from tilewise.gpu.counters import known_metrics, run_with_ncu
from validation.collection import save_specimens
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
"""Nsight Compute's counters by our names."""

TIME_LIMIT_S = 540
"""Time limit for one run of the tool."""


def chosen_metrics(metrics: Mapping[str, str], known: frozenset[str]) -> dict[str, str]:
    """The counters that the tool knows; all if it did not list any."""
    return {
        name: metric for name, metric in metrics.items() if not known or metric.removesuffix(".sum") in known
    }


def count(
    ncu: str, specimens: Sequence[Specimen], metrics: Mapping[str, str] = METRICS
) -> DeviceRecord[Counted]:
    """Count every specimen; one that stops the tool is reported on stderr and omitted.

    Args:
        ncu: the tool.
        specimens: what to launch.
        metrics: the tool's counters by our names.

    Raises:
        LessonError: nothing was launched.
    """
    metrics = chosen_metrics(metrics, known_metrics(ncu))
    parts = list(_counted(ncu, metrics, specimens))
    if not parts:
        raise _fault("Nothing was launched.")
    origin = dict(parts[0].provenance)
    origin["versions"] = {**origin["versions"], "ncu": version(ncu)}
    return DeviceRecord("counts", origin, tuple(row for part in parts for row in part.rows), metrics)


def _counted(
    ncu: str, metrics: Mapping[str, str], specimens: Sequence[Specimen]
) -> Iterator[DeviceRecord[Counted]]:
    """Records of all specimens: from one run of the tool, or bisected if that fails."""
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder, "specimens.json")
        save_specimens(specimens, listed)

        def child(manifest: Path) -> list[str]:
            return [sys.executable, "-m", "validation", "--child", str(manifest), str(listed)]

        try:
            environment = {**os.environ, "TILEWISE_BACKEND": "gpu"}
            yield matched(*run_with_ncu(ncu, child, TIME_LIMIT_S, metrics, environment), metrics, specimens)
            return
        except ValueError as error:
            if len(specimens) == 1:
                print(f"{specimens[0].name}: {error}", file=sys.stderr)
                return
    middle = len(specimens) // 2
    yield from _counted(ncu, metrics, specimens[:middle])
    yield from _counted(ncu, metrics, specimens[middle:])


def matched(
    manifest: Mapping[str, Any],
    launches: Sequence[tuple[str, Mapping[str, float]]],
    metrics: Mapping[str, str],
    specimens: Sequence[Specimen],
) -> DeviceRecord[Counted]:
    """Match the tool's table with the child's manifest.

    Raises:
        ValueError: they are not the same kernels in the same order.
    """
    ran = [specimen for specimen in specimens if specimen.name in manifest["outputs"]]
    wanted = [specimen.launch.kernel.name for specimen in ran]
    seen = [name for name, _ in launches]
    if seen != wanted:
        raise ValueError(f"{len(wanted)} kernels were launched and Nsight Compute saw {seen}.")
    rows = []
    for specimen, (_, values) in zip(ran, launches, strict=True):
        outputs = {name: Output(**recorded) for name, recorded in manifest["outputs"][specimen.name].items()}
        counted = {name: int(value) for name, value in values.items() if isfinite(value)}
        rows.append(Counted(specimen.name, specimen.key, counted, outputs))
    return DeviceRecord("counts", manifest["provenance"], tuple(rows), dict(metrics))


def child(manifest: Path, specimens: Sequence[Specimen]) -> None:
    """Launch every specimen inside the profiler's range and write the outputs to the manifest.

    One that this GPU or its driver refuses is reported on stderr and omitted.
    """
    import cupy

    outputs: dict[str, Any] = {}
    for specimen in specimens:
        arrays = specimen.launch.case.make()
        cupy.cuda.runtime.profilerStart()
        try:
            specimen.launch.run(arrays)
            cupy.cuda.get_current_stream().synchronize()
        except Exception as error:  # from CuPy, the driver or a check: the other specimens still run
            print(f"{specimen.name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        finally:
            cupy.cuda.runtime.profilerStop()
        outputs[specimen.name] = {
            name: asdict(output(np.asarray(arrays[name]), specimen.exact)) for name in specimen.written
        }
    body = {"provenance": provenance(), "outputs": outputs}
    manifest.write_text(json.dumps(body), encoding="utf-8")


def version(tool: str) -> str:
    """The version number that an NVIDIA tool prints."""
    done = subprocess.run([tool, "--version"], capture_output=True, text=True, timeout=60, check=False)
    words = [word for line in done.stdout.splitlines() if "Version" in line for word in line.split()]
    return next((word for word in words if word[:1].isdigit()), "unknown")


def _fault(message: str) -> LessonError:
    return LessonError("validation", 0, message, "Run it on a machine with an NVIDIA GPU and ncu.")
