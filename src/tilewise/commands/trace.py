"""``tilewise trace``: simulate a kernel of any CUDA file and say what it does to memory, line by line.

In: a file, a launch, and arguments as ``name=f32[1024]``. Out: counts by source line and hazards on stdout.
Arrays are random, the same in every run; an array after ``out`` is poisoned, so that unwritten elements show.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.cases import Case, Recipe, case, integers, normal, output
from tilewise.errors import LessonError

if TYPE_CHECKING:
    from tilewise.gpu.kernel import Kernel

TYPES = {
    "f16": "float16", "f32": "float32", "f64": "float64",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip
"""Element types as arguments spell them, and as NumPy does."""

_ARRAY = re.compile(r"(?P<out>out\s+|out:)?(?P<type>[a-z]\d+)\[(?P<shape>[\d,\s]+)\]")


def trace(
    file: str,
    arguments: Sequence[str],
    *,
    grid: str,
    block: str,
    name: str | None = None,
    shared_bytes: int = 0,
    defines: Sequence[str] = (),
) -> int:
    """Simulate a launch and print what it counted and which hazards it met.

    Args:
        file: a file of CUDA C.
        arguments: one for each parameter: ``x=f32[1024]``, ``y=out f32[32,32]``, ``n=1000``, ``scale=0.5``.
        grid: blocks, e.g. ``4`` or ``4,2``.
        block: threads a block, likewise.
        name: the kernel, where the file has several.
        shared_bytes: dynamic shared memory a block.
        defines: ``NAME=VALUE`` for each ``#define`` to put before the file.

    Returns:
        0 where no hazard was met, else 1.

    Raises:
        LessonError: the file is missing or does not compile, or an argument cannot be read.
    """
    path = Path(file)
    if not path.is_file():
        raise LessonError(file, 0, "there is no such file.")
    from tilewise.gpu.kernel import Kernel

    text = path.read_text(encoding="utf-8")
    kernel = Kernel(text, name=name, defines=_defines(file, defines))
    kernel.origin = (file, 1 + next(at for at, line in enumerate(text.split("\n")) if line.strip()))
    inputs = _inputs(file, kernel, arguments)
    launch = kernel.on(inputs, _shape(file, "grid", grid), _shape(file, "block", block), shared_bytes)
    run = launch.simulate(hazards="collect")
    print(run.text())
    for hazard in run.hazards:
        print(hazard, file=sys.stderr)
    return 1 if run.hazards else 0


def _defines(file: str, texts: Sequence[str]) -> dict[str, str]:
    for text in texts:
        if "=" not in text:
            raise LessonError(file, 0, f'"{text}" is no definition.', "Write NAME=VALUE.")
    return {name.strip(): value.strip() for name, _, value in (text.partition("=") for text in texts)}


def _shape(file: str, what: str, text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise LessonError(
            file, 0, f'"{text}" is no {what}.', f"Write --{what} 4 or --{what} 4,2,1."
        ) from None


def _inputs(file: str, kernel: Kernel, texts: Sequence[str]) -> Case:
    given = {name.strip(): value.strip() for name, _, value in (text.partition("=") for text in texts)}
    wanted = [parameter.name for parameter in kernel.parameters]
    if missing := [name for name in wanted if name not in given]:
        example = f"--arg {missing[0]}=f32[1024]"
        raise LessonError(file, 0, f"{kernel.name} takes {', '.join(wanted)}; there is no {missing[0]}.",
                          f"Add {example}.")  # fmt: skip
    if unknown := [name for name in given if name not in wanted]:
        raise LessonError(
            file, 0, f"{kernel.name} has no parameter {unknown[0]}.", f"It takes {', '.join(wanted)}."
        )
    values: dict[str, Any] = {name: _value(file, name, value) for name, value in given.items()}
    return case(**values)


def _value(file: str, name: str, text: str) -> Recipe | int | float:
    if match := _ARRAY.fullmatch(text):
        shape = tuple(int(part) for part in match["shape"].split(",") if part.strip())
        if match["type"] not in TYPES:
            raise LessonError(
                file, 0, f'{name}: there is no type "{match["type"]}".', f"Known: {', '.join(TYPES)}."
            )
        dtype = np.dtype(TYPES[match["type"]])
        if match["out"]:
            return output(*shape, dtype=dtype)
        if dtype.kind == "f":
            return normal(*shape, dtype=dtype)
        return integers(*shape, low=0, high=100, dtype=dtype)
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    raise LessonError(
        file, 0, f'{name}: "{text}" is neither a number nor an array.', "Write 5, 0.5 or f32[1024]."
    )
