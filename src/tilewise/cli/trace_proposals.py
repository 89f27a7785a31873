"""What ``tilewise trace`` says of a file when no launch is given: its kernels, and a command for each.

In: a file's text. Out: lines. The sizes are small ones that fit each other, for a first run; they are the
reader's to change.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.cli.trace_arguments import TYPES
from tilewise.cuda.arguments import Parameter, parameters_of
from tilewise.cuda.kernel_source import without_comments
from tilewise.cuda.variables import DeviceVariable, device_variables
from tilewise.errors import LessonError

if TYPE_CHECKING:
    from tilewise.cuda.kernel_source import GlobalFunction

ELEMENTS = 1024
"""Elements of each array that is proposed: 32 rows of 32 where a kernel has several sizes."""
_SIZE = re.compile(
    r"(?i)^(?:n|m|k|h|w|b|t|c|d|nx|ny|nz|\w*(?:size|len|length|num|count|rows?|cols?|width|height|dim|elem)\w*)$"
)
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
    plain = without_comments(part.text)
    empty = [
        one
        for one in device_variables(text, lines + part.text).values()
        if one.needs_a_value and len(re.findall(rf"\b{one.name.rpartition('::')[2]}\b", plain)) > 1
    ]
    for name in names:
        try:
            made = part.kernels.get(name)
            function = made.function if made else Kernel(text, name, defines, folder=folder).function
        except (LessonError, ValueError) as error:
            yield f"\n  {name}: {error}"
            continue
        yield f"\n  {name}({', '.join(f'{one.ctype} {one.name}' for one in parameters_of(function))})"
        yield "  " + command(file, function, several, defines, empty)
    for template, launched in part.templates.items():
        if not launched:
            yield f"\n  {template} is a template: name its arguments, as in --kernel '{template}<32>'."
    if part.left_out:
        yield "\nLeft out, and needed by none of these:"
    for one in part.left_out:
        yield f"  {f'line {one.line}: ' if one.line else ''}{one.what}: {one.reason}"


def command(
    file: str,
    function: GlobalFunction,
    several: bool,
    defines: Mapping[str, Any],
    variables: Sequence[DeviceVariable] = (),
) -> str:
    """A command that launches a kernel on small inputs, with values for variables that have none."""
    parameters = parameters_of(function)
    sizes = [one for one in parameters if not one.is_pointer and _SIZE.fullmatch(one.name)]
    size = 32 if len(sizes) > 1 else ELEMENTS
    block = min(256, function.max_threads or 256)
    named = ["--kernel", function.name] if several or "<" in function.name else []
    words = ["tilewise", "trace", file, *named]
    words += [word for key, value in defines.items() for word in ("--define", f"{key}={value}")]
    words += ["--grid", str(-(-ELEMENTS // block)), "--block", str(block)]
    for one in parameters:
        words += ["--arg", f"{one.name}={_value(one, size)}"]
    for held in variables:
        if held.dtype in _SPELLED and held.shape is not None and -1 not in held.shape:
            shape = ",".join(map(str, held.shape or (1,)))
            words += ["--arg", f"{held.name}={_SPELLED[held.dtype]}[{shape}]"]
    return shlex.join(words)


def _value(one: Parameter, size: int) -> str:
    if one.is_pointer:
        kind = _SPELLED.get(one.dtype, "u8") if one.dtype is not None else "u8"
        return f"{kind}[{ELEMENTS * max(one.width, 1)}]"
    if one.dtype is None:
        return "u8[64]"  # a struct: its bytes
    if one.dtype.kind == "f":
        return "0.5"
    if one.dtype.kind == "b":
        return "true"
    return str(size) if _SIZE.fullmatch(one.name) else "1"
