"""What ``tilewise trace`` prints without a launch: the file's kernels, with a command for each.

In: a file's text. Out: lines. The sizes are small and consistent, for a first run; readers can edit them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.cli.trace_arguments import TYPES
from tilewise.cuda.launch_sites import launch_sites
from tilewise.errors import LessonError
from tilewise.kernel.access_patterns import inner_pointer
from tilewise.kernel.proposals import (
    Proposal,
    ProposedArray,
    ProposedNumber,
    proposal,
    struct_bytes,
    unset_variables,
)

if TYPE_CHECKING:
    from tilewise.cuda.kernel_source import GlobalFunction
    from tilewise.cuda.variables import DeviceVariable
    from tilewise.kernel.kernel import Kernel

_MOST_LAUNCHED = 4
"""Most launches of a template that are compiled for a listing; the others are only named."""
_SPELLED = {np.dtype(name): short for short, name in TYPES.items()}


def proposals(file: str, path: Path, text: str, defines: Mapping[str, Any]) -> Iterator[str]:
    """The lines.

    Args:
        file: the file as the reader named it.
        path: the file's path.
        text: its text.
        defines: values for macros.

    Raises:
        LessonError: the file has no kernel that compiles.
    """
    from tilewise.kernel.kernel import Kernel
    from tilewise.simulator import device_part

    folder = path.resolve().parent
    kernel_of = partial(Kernel, folder=folder, origin=(file, 1))
    lines = "".join(f"#define {name} {value}\n" for name, value in defines.items())
    part = device_part(text, None, prelude=lines, folder=folder, origin=(file, 1))
    shown = {template: launched[:_MOST_LAUNCHED] for template, launched in part.templates.items()}
    names = [*part.kernels, *(name for launched in shown.values() for name in launched)]
    if not names and not part.templates:
        raise LessonError(file, 0, "the file has no kernel.", "Give one with a __global__ function.")
    total = len(part.kernels) + sum(map(len, part.templates.values()))
    count = "a kernel" if total == 1 else f"{total} kernels"
    yield f"{file} has {count}. Try:" if names else f"{file}:"
    several = len(part.kernels) + len(part.templates) > 1
    empty = unset_variables(text, lines + part.text)
    sites = launch_sites(lines + part.whole)
    for name in names:
        try:
            whole = part.kernels.get(name)
            function = whole.function if whole else kernel_of(text, name, defines).function
        except (LessonError, ValueError) as error:
            yield f"\n  {name}: {error}"
            continue
        taken = ", ".join(f"{parameter.ctype} {parameter.name}" for parameter in function.parameters)
        if inner := inner_pointer(function, part.whole):
            yield f"\n  {name}({taken})\n  No command: {inner}"
            continue
        bytes_of = _structs(function, empty, part.whole, partial(kernel_of, text, name, defines))
        launch = proposal(function, part.whole, empty, sites=sites, bytes_of=bytes_of)
        named = ["--kernel", function.name] if several or "<" in function.name else []
        yield f"\n  {name}({taken})"
        yield f"  {shlex.join(_command(file, named, defines, launch))}"
    for template, launched in part.templates.items():
        if more := launched[_MOST_LAUNCHED:]:
            yield f"\n  Also launched: {', '.join(more)}."
        if not launched:
            yield f"\n  {template} is a template: name its arguments, as in --kernel '{template}<32>'."
    if part.left_out:
        yield "\nLeft out, and needed by none of these:"
    for omitted in part.left_out:
        yield f"  {f'line {omitted.line}: ' if omitted.line else ''}{omitted.what}: {omitted.reason}"


def _command(file: str, named: list[str], defines: Mapping[str, Any], launch: Proposal) -> Iterator[str]:
    """The words of a command for a launch."""
    yield from ("tilewise", "trace", file, *named)
    for name, value in defines.items():
        yield from ("--define", f"{name}={value}")
    for option, extents in (("--grid", launch.grid), ("--block", launch.block)):
        used = max((at for at, extent in enumerate(extents) if extent > 1), default=0)
        yield from (option, ",".join(map(str, extents[: used + 1])))
    if launch.shared_bytes:
        yield from ("--shared", str(launch.shared_bytes))
    for argument in (*launch.arguments, *launch.variables):
        if argument not in launch.variables or argument.dtype in _SPELLED:
            yield from ("--arg", f"{argument.name}={_written(argument)}")
    if launch.assumed:
        yield from ("--assumed", ",".join(launch.assumed))


def _written(argument: ProposedArray | ProposedNumber) -> str:
    """An argument in the command's syntax."""
    if isinstance(argument, ProposedNumber):
        kind = argument.dtype.kind
        return (
            repr(float(argument.value))
            if kind == "f"
            else str(bool(argument.value)).lower()
            if kind == "b"
            else str(argument.value)
        )
    extents = ",".join(map(str, argument.shape))
    letters = "letters" * bool(re.match(r"(const )?char\b", argument.ctype))
    fill = "zeros" if argument.is_struct else argument.fill or letters
    first = f"+{argument.first}" if argument.first else ""
    return f"{fill}{':' * bool(fill)}{_SPELLED.get(argument.dtype, 'u8')}[{extents}]{first}"


def _structs(
    function: GlobalFunction, variables: Sequence[DeviceVariable], text: str, kernel: Callable[[], Kernel]
) -> dict[str, int]:
    """The sizes of structs in a kernel's parameters and variables; only a compiler knows them."""
    is_known = all(parameter.is_pointer or parameter.dtype is not None for parameter in function.parameters)
    if is_known and all(parameter.dtype is not None for parameter in variables):
        return {}
    compiled = kernel()
    taken = zip(compiled.parameters, compiled.entry.parameters, strict=True)
    return {parameter.name: own.size_bytes for parameter, own in taken} | struct_bytes(
        compiled, variables, text
    )
