"""NVIDIA's compiler reports for kernels, as rows of the record of compiled kernels.

In: a kernel. Out: its row, and the record's file, which ``tilewise.measurements.compiled_kernels`` reads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tilewise.cuda.options import architecture
from tilewise.kernel import nvrtc
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.nvrtc import ARCHITECTURES, CompileGateError, Resources
from tilewise.measurements.compiled_kernels import FILE, FORM, ResourceRecord, ResourceRow, kernel_key, title
from tilewise.measurements.validation_file import FOLDER
from validation.record import save


def examine(kernel: Kernel) -> ResourceRow:
    """Compile a kernel for every architecture that has its instructions.

    Raises:
        CompileGateError: NVRTC refuses it, not just for an architecture that lacks a feature.
    """
    targets = nvrtc.architectures(kernel.whole, kernel.options)
    taken: dict[str, Resources] = {}
    needs = targets[0] if targets[0] in ARCHITECTURES[1:] and not architecture(kernel.options) else ""
    for target in targets:
        try:
            (taken[target],) = nvrtc.compile_kernel(kernel, [target], fresh=True)
        except CompileGateError as error:
            if error.needs is None or _number(error.needs) <= _number(target):
                raise
            needs = error.needs
    key = kernel_key(kernel.source, kernel.name, kernel.defines, kernel.options)
    spills = nvrtc.declared_spill(kernel.source) or ""
    return ResourceRow(title(kernel.name, kernel.defines), key, spills, needs, taken)


def _number(architecture: str) -> int:
    return int("".join(letter for letter in architecture if letter.isdigit()))


def save_resources(record: ResourceRecord, project: Path) -> None:
    """Write a project's record; by architecture: registers, local bytes, spills, shared bytes."""
    rows = {lesson: [_data(row) for row in kernels] for lesson, kernels in record.lessons.items() if kernels}
    save(project / FOLDER / FILE, FORM, {"nvrtc": record.nvrtc}, rows)


def _data(row: ResourceRow) -> dict[str, Any]:
    taken = {
        target: [
            resources.registers,
            resources.stack_bytes,
            resources.spill_store_bytes,
            resources.spill_load_bytes,
            resources.shared_bytes,
        ]
        for target, resources in row.taken.items()
    }
    whole = {"kernel": row.title, "key": row.key, "spills": row.spills, "needs": row.needs, "taken": taken}
    return {name: value for name, value in whole.items() if value or name == "taken"}
