"""Hardware counters: Nsight Compute's command line and its table of metrics.

In: a child command that launches kernels while its profiler range is open. Out: what the child wrote, and for
each launch, in order, a mapping of metric to value. ``find_ncu`` returns None if Nsight Compute is missing.
"""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

METRICS: Mapping[str, str] = {
    "global_load_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "global_load_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "global_store_requests": "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
    "global_store_sectors": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "shared_load_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
    "shared_store_wavefronts": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
    "instructions": "smsp__inst_executed.sum",
}
"""Our names of the counters, and Nsight Compute's."""
Launches = list[tuple[str, dict[str, float]]]
"""For each launch in order: the kernel's name and the values of its metrics."""

FOLDERS = ("/opt/nvidia/nsight-compute", "/usr/local/cuda/nsight-compute")
"""Folders with a subfolder for each version of Nsight Compute."""


def find_ncu() -> str | None:
    """Nsight Compute's command line tool: on the path, else the newest in its usual folders."""
    if tool := shutil.which("ncu"):
        return tool
    tools = [tool for folder in FOLDERS for tool in Path(folder).glob("*/ncu")]
    return str(max(tools, key=_version)) if tools else None


def _version(tool: Path) -> tuple[int, ...]:
    return tuple(int(part) for part in tool.parent.name.split(".") if part.isdigit())


def ncu_command(ncu: str, log: Path, child: Sequence[str], metrics: Mapping[str, str] = METRICS) -> list[str]:
    """The command that counts what ``child`` launches while its profiler range is open.

    Args:
        ncu: the tool.
        log: the file for the table.
        child: the command to run.
        metrics: our names and the tool's.
    """
    return [
        ncu,
        "--metrics",
        ",".join(metrics.values()),
        "--csv",
        "--page",
        "raw",
        "--print-units",
        "base",
        "--profile-from-start",
        "off",
        "--clock-control",
        "none",
        "--log-file",
        str(log),
        *child,
    ]


def known_metrics(ncu: str) -> frozenset[str]:
    """The metrics that the tool lists for this GPU, without suffixes; empty if it lists none."""
    done = subprocess.run([ncu, "--query-metrics"], capture_output=True, text=True, timeout=120, check=False)
    words = (line.split()[0] for line in done.stdout.splitlines() if line.strip())
    return frozenset(word for word in words if "__" in word)


def run_with_ncu(
    ncu: str,
    child: Callable[[Path], Sequence[str]],
    time_limit_s: float,
    metrics: Mapping[str, str] = METRICS,
    environment: Mapping[str, str] | None = None,
) -> tuple[Any, Launches]:
    """Run a child under the tool.

    Args:
        ncu: the tool.
        child: returns the command to run, which writes JSON about its launches to the path.
        time_limit_s: time limit in seconds.
        metrics: our names and the tool's.
        environment: the child's; None: this process's.

    Returns:
        What the child wrote, and its launches as from ``parse_counters``.

    Raises:
        ValueError: the child wrote nothing, or there is no table; the message includes the output.
    """
    with tempfile.TemporaryDirectory() as folder:
        log, manifest = Path(folder, "ncu.csv"), Path(folder, "manifest.json")
        done = subprocess.run(
            ncu_command(ncu, log, child(manifest), metrics),
            capture_output=True, text=True, timeout=time_limit_s, check=False, env=environment,
        )  # fmt: skip
        report = log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""
        try:
            if not manifest.is_file():
                raise ValueError("Nothing was launched.")
            return json.loads(manifest.read_text(encoding="utf-8")), parse_counters(report, metrics)
        except ValueError as error:
            output = " ".join((report + done.stdout + done.stderr).split())[-400:]
            raise ValueError(f"{error} {output}".strip()) from None


def parse_counters(text: str, metrics: Mapping[str, str] = METRICS) -> Launches:
    """The metrics in Nsight Compute's raw page.

    Args:
        text: the log: lines that start with ``==`` among a table whose first row names the columns and whose
            second row names the units.
        metrics: our names and the tool's, as they were requested.

    Returns:
        For each launch in order: the kernel's name and values by our names; missing metrics are omitted.

    Raises:
        ValueError: there is no table; the message includes the tool's errors.
    """
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("==")]
    start = next((at for at, line in enumerate(lines) if line.lstrip().startswith('"ID"')), None)
    if start is None:
        errors = " ".join(line.strip() for line in text.splitlines() if "ERROR" in line or "WARNING" in line)
        raise ValueError(f"Nsight Compute printed no table. {errors or text.strip()[-300:]}".strip())
    table = csv.DictReader(io.StringIO("\n".join(lines[start:])))
    launches = []
    for row in table:
        if not (row.get("ID") or "").strip().isdigit():
            continue
        values = {}
        for name, metric in metrics.items():
            cell = (row.get(metric) or "").replace(",", "")
            try:
                values[name] = float(cell)
            except ValueError:
                continue
        launches.append((row.get("Kernel Name") or "", values))
    return launches
