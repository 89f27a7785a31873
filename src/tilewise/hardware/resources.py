"""What each kernel of the course takes on each architecture, as NVIDIA's compiler says without a GPU.

In: the lessons' kernels. Out: ``survey``, a row for each, and the table of the page "What the kernels take".
A compilation is kept in the cache by the text that was compiled.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

from tilewise.gpu import compile_gate
from tilewise.gpu.compile_gate import ARCHITECTURES, CompileGateError, Resources
from tilewise.gpu.kernel import Kernel
from tilewise.gpu.options import architecture
from tilewise.hardware.lessons import noted, title
from tilewise.outputs import Cell, Column, Table
from tilewise.simulator.toolchain import cache_folder


@dataclass(frozen=True, eq=False)
class Row:
    """One kernel."""

    lesson: str
    """The id of the lesson that made it."""
    kernel: Kernel
    """The kernel."""
    taken: Mapping[str, Resources]
    """By architecture; one that lacks what the kernel uses is left out."""
    needs: str
    """The least architecture that it runs on; empty where it runs on all."""

    @property
    def spilling(self) -> list[str]:
        """The architectures on which it spills registers."""
        return [name for name, one in self.taken.items() if one.spills]

    def __str__(self) -> str:
        return f"{self.lesson}: {title(self.kernel)} at line {self.kernel.origin[1]}"


def survey(root: Path) -> tuple[Row, ...]:
    """Every kernel of every lesson through the compile gate.

    Args:
        root: the folder ``lessons``.

    Raises:
        CompileGateError: NVRTC is missing or refuses a kernel.
    """
    return tuple(row(lesson, one.kernel) for lesson, kernels in noted(root).items() for one in kernels)


def row(lesson: str, kernel: Kernel) -> Row:
    """One kernel through the compile gate.

    Raises:
        CompileGateError: NVRTC refuses it, for another reason than an architecture that lacks something.
    """
    targets = compile_gate.architectures(kernel.source, kernel.options)
    taken: dict[str, Resources] = {}
    needs = targets[0] if targets[0] in ARCHITECTURES[1:] and not architecture(kernel.options) else ""
    for target in targets:
        found = _compiled(kernel, target)
        if isinstance(found, str):
            needs = found
        else:
            taken[target] = found
    return Row(lesson, kernel, taken, needs)


def _compiled(kernel: Kernel, target: str) -> Resources | str:
    """What it takes, or the architecture that it needs; from the cache where it was compiled before."""
    flags = compile_gate.flags(kernel.options, target)
    said = "\0".join([kernel.gpu_source, kernel.name, *flags, compile_gate.nvrtc_version()])
    kept = cache_folder() / "gate" / f"{hashlib.sha256(said.encode()).hexdigest()[:24]}.json"
    if kept.exists():
        data = json.loads(kept.read_text(encoding="utf-8"))
        return data["needs"] if "needs" in data else Resources(**data)
    try:
        (found,) = compile_gate.compile_kernel(kernel, [target])
        result: Resources | str = found
    except CompileGateError as error:
        if error.needs is None or _number(error.needs) <= _number(target):
            raise
        result = error.needs
    kept.parent.mkdir(parents=True, exist_ok=True)
    part = kept.with_suffix(f".{os.getpid()}")
    part.write_text(
        json.dumps({"needs": result} if isinstance(result, str) else asdict(result)), encoding="utf-8"
    )
    part.replace(kept)
    return result


def _number(architecture: str) -> int:
    return int("".join(letter for letter in architecture if letter.isdigit()))


def faults(found: Row) -> list[str]:
    """What is wrong with a row: spills that the kernel does not declare, or declares and does not have."""
    declared = compile_gate.declared_spill(found.kernel.source)
    path, line = found.kernel.origin
    where = f'{path}:{line}: kernel "{found.kernel.name}"'
    if found.spilling and declared is None:
        most = max(one.spill_store_bytes + one.spill_load_bytes for one in found.taken.values())
        return [
            f"{where} spills registers on {', '.join(found.spilling)} (up to {most} bytes a thread). "
            'Use fewer values at a time, or say that it is the point: "// spills: why" in the source.'
        ]
    if declared is not None and not found.spilling:
        return [f'{where} says "// spills: {declared}" and spills nothing. Take the comment out.']
    if not found.taken:
        targets = compile_gate.architectures(found.kernel.source, found.kernel.options)
        return [f"{where} compiles for none of {', '.join(targets)}."]
    return []


@lru_cache(maxsize=1)
def _surveyed(root: Path, _keys: tuple[str, ...]) -> tuple[Row, ...]:
    return survey(root)


def page_table(root: Path) -> str:
    """The table, lesson by lesson, in Markdown; one sentence where NVRTC is missing."""
    missing = compile_gate.available()
    if missing:
        return f"*{missing} The table is made where it is.*"
    keys = tuple(one.kernel.fingerprint() for kernels in noted(root).values() for one in kernels)
    rows = _surveyed(root, keys)
    lessons = list(dict.fromkeys(found.lesson for found in rows))
    return "\n\n".join(
        f"### {lesson}\n\n{_table([found for found in rows if found.lesson == lesson])}" for lesson in lessons
    )


def _table(rows: list[Row]) -> str:
    own = dict.fromkeys(name for found in rows for name in found.taken)
    targets = [name for name in ARCHITECTURES if any(name in found.taken for found in rows)]
    targets += [name for name in own if name not in targets]
    columns = [
        Column("line", align="right"),
        Column("kernel"),
        Column("shared", "bytes a block"),
        Column("local", "bytes a thread"),
        *(Column(target, "registers") for target in targets),
    ]
    body = [
        [
            found.kernel.origin[1],
            title(found.kernel),
            max((one.shared_bytes for one in found.taken.values()), default=0),
            max((one.stack_bytes for one in found.taken.values()), default=0),
            *(_cell(found, target) for target in targets),
        ]
        for found in rows
    ]
    return Table(columns, body).html()


def _cell(found: Row, target: str) -> Cell | str:
    one = found.taken.get(target)
    if one is None:
        return Cell("–", f"needs {found.needs}" if found.needs else "compiled for its own architecture alone")
    if not one.spills:
        return Cell(one.registers)
    why = compile_gate.declared_spill(found.kernel.source) or "not declared"
    spilled = f"{one.spill_store_bytes} bytes stored, {one.spill_load_bytes} loaded back"
    return Cell(f"{one.registers}, spills", f"{spilled}: {why}", mark="hazard")
