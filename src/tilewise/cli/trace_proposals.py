"""What ``tilewise trace`` says of a file when no launch is given: its kernels, and a command for each.

In: a file's text. Out: lines. Which launch is proposed is left to ``kernel/proposals.py``.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.cli.trace_arguments import TYPES
from tilewise.cuda.arguments import parameters_of
from tilewise.errors import LessonError
from tilewise.kernel.proposals import ProposedArray, ProposedNumber, proposal, unset_variables

if TYPE_CHECKING:
    from tilewise.cuda.kernel_source import GlobalFunction
    from tilewise.cuda.variables import DeviceVariable

_SPELLED = {np.dtype(name): short for short, name in TYPES.items()}


def proposals(file: str, path: Path, text: str, defines: Mapping[str, Any]) -> Iterator[str]:
    """The lines.

    Args:
        file: the file as the reader named it.
        path: it.
        text: its text.
        defines: values for macros.

    Raises:
        LessonError: the file has no kernel that compiles.
    """
    from tilewise.kernel.kernel import Kernel
    from tilewise.simulator import device_part

    folder = path.resolve().parent
    lines = "".join(f"#define {name} {value}\n" for name, value in defines.items())
    part = device_part(text, None, prelude=lines, folder=folder, origin=(file, 1))
    names = [*part.kernels, *(one for launched in part.templates.values() for one in launched)]
    if not names and not part.templates:
        raise LessonError(file, 0, "the file has no kernel.", "Give one with a __global__ function.")
    count = "a kernel" if len(names) == 1 else f"{len(names)} kernels"
    yield f"{file} has {count}. Try:" if names else f"{file}:"
    several = len(part.kernels) + len(part.templates) > 1
    empty = unset_variables(text, lines + part.text)
    for name in names:
        try:
            made = part.kernels.get(name)
            function = made.function if made else Kernel(text, name, defines, folder=folder).function
        except (LessonError, ValueError) as error:
            yield f"\n  {name}: {error}"
            continue
        yield f"\n  {name}({', '.join(f'{one.ctype} {one.name}' for one in parameters_of(function))})"
        yield "  " + command(file, part.text, function, several, defines, empty)
    for template, launched in part.templates.items():
        if not launched:
            yield f"\n  {template} is a template: name its arguments, as in --kernel '{template}<32>'."
    if part.left_out:
        yield "\nLeft out, and needed by none of these:"
    for one in part.left_out:
        yield f"  {f'line {one.line}: ' if one.line else ''}{one.what}: {one.reason}"


def command(
    file: str,
    text: str,
    function: GlobalFunction,
    several: bool,
    defines: Mapping[str, Any],
    variables: Sequence[DeviceVariable] = (),
) -> str:
    """A command that launches a kernel on small inputs, with values for variables that have none."""
    proposed = proposal(function, text, variables)
    named = ["--kernel", function.name] if several or "<" in function.name else []
    words = ["tilewise", "trace", file, *named]
    words += [word for key, value in defines.items() for word in ("--define", f"{key}={value}")]
    words += ["--grid", _extents(proposed.grid), "--block", _extents(proposed.block)]
    if proposed.shared_bytes:
        words += ["--shared-bytes", str(proposed.shared_bytes)]
    for one in (*proposed.arguments, *proposed.variables):
        words += ["--arg", f"{one.name}={_value(one)}"]
    return shlex.join(words)


def _extents(extents: tuple[int, int, int]) -> str:
    kept = [one for at, one in enumerate(extents) if at == 0 or any(more != 1 for more in extents[at:])]
    return ",".join(map(str, kept))


def _value(one: ProposedArray | ProposedNumber) -> str:
    if isinstance(one, ProposedArray):
        return f"{_SPELLED.get(one.dtype, 'u8')}[{','.join(map(str, one.shape))}]"
    return str(one.value).lower()
