"""Taking the counters: every specimen once on the GPU, under one run of Nsight Compute.

In: specimens. Out: a ``DeviceRecord``. The child launches each specimen inside the profiler's range and
says in a manifest what came out; the parent reads the tool's table beside it.
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
"""Our names for the counters, and Nsight Compute's."""

TIME_LIMIT_S = 540
"""How long one run of the tool may take."""


def chosen_metrics(metrics: Mapping[str, str], known: frozenset[str]) -> dict[str, str]:
    """Those counters that the tool knows; all where it did not say which it does."""
    return {
        name: metric for name, metric in metrics.items() if not known or metric.removesuffix(".sum") in known
    }


def count(
    ncu: str, specimens: Sequence[Specimen], metrics: Mapping[str, str] = METRICS
) -> DeviceRecord[Counted]:
    """Count every specimen; one that stops the tool is said on stderr and left out.

    Args:
        ncu: the tool.
        specimens: what to launch.
        metrics: our names for the counters, and the tool's.

    Raises:
        LessonError: nothing was launched.
    """
    metrics = chosen_metrics(metrics, known_metrics(ncu))
    parts = list(_counted(ncu, metrics, specimens))
    if not parts:
        raise _fault("Nothing was launched.")
    told = dict(parts[0].provenance)
    told["versions"] = {**told["versions"], "ncu": version(ncu)}
    return DeviceRecord("counts", told, tuple(row for part in parts for row in part.rows), metrics)


def _counted(
    ncu: str, metrics: Mapping[str, str], specimens: Sequence[Specimen]
) -> Iterator[DeviceRecord[Counted]]:
    """Records of all specimens: of one run of the tool, or of two halves where that fails."""
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
    told: Mapping[str, Any],
    launches: Sequence[tuple[str, Mapping[str, float]]],
    metrics: Mapping[str, str],
    specimens: Sequence[Specimen],
) -> DeviceRecord[Counted]:
    """Put the tool's table beside what the child says it launched.

    Raises:
        ValueError: they are not the same kernels in the same order.
    """
    ran = [one for one in specimens if one.name in told["outputs"]]
    wanted = [one.launch.kernel.name for one in ran]
    seen = [name for name, _ in launches]
    if seen != wanted:
        raise ValueError(f"{len(wanted)} kernels were launched and Nsight Compute saw {seen}.")
    rows = []
    for one, (_, values) in zip(ran, launches, strict=True):
        outputs = {name: Output(**kept) for name, kept in told["outputs"][one.name].items()}
        counted = {name: int(value) for name, value in values.items() if isfinite(value)}
        rows.append(Counted(one.name, one.key, counted, outputs))
    return DeviceRecord("counts", told["provenance"], tuple(rows), dict(metrics))


def child(manifest: Path, specimens: Sequence[Specimen]) -> None:
    """Launch every specimen inside the profiler's range and write down what came out.

    One that this GPU or its driver refuses is said on stderr and left out.
    """
    import cupy

    outputs: dict[str, Any] = {}
    for one in specimens:
        arrays = one.launch.case.make()
        cupy.cuda.runtime.profilerStart()
        try:
            one.launch.run(arrays)
            cupy.cuda.get_current_stream().synchronize()
        except Exception as error:  # of CuPy, of the driver or of a check: whatever it is, the others go on
            print(f"{one.name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        finally:
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
