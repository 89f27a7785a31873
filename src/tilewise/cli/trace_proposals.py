"""What ``tilewise trace`` says of a file when no launch is given: its kernels, and a command for each.

In: a file's text. Out: lines. The sizes are small ones that fit each other, for a first run; they are the
reader's to change.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewise.cli.trace_plan import SPELLED, Plan, plan
from tilewise.cuda.arguments import parameters_of
from tilewise.cuda.launch_sites import LaunchSite, launch_sites
from tilewise.cuda.top_level import pieces
from tilewise.errors import LessonError
from tilewise.kernel.proposals import unset_variables

if TYPE_CHECKING:
    from tilewise.cuda.kernel_source import GlobalFunction
    from tilewise.cuda.variables import DeviceVariable
    from tilewise.kernel.kernel import Kernel


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
    sites = launch_sites(lines + part.whole)
    for name in names:
        try:
            made = part.kernels.get(name)
            function = made.function if made else Kernel(text, name, defines, folder=folder).function
        except (LessonError, ValueError) as error:
            yield f"\n  {name}: {error}"
            continue
        yield f"\n  {name}({', '.join(f'{one.ctype} {one.name}' for one in parameters_of(function))})"
        yield "  " + command(
            file,
            function,
            several,
            defines,
            empty,
            plan(
                function,
                _site(name, sites),
                flat=not _has(name, part.whole, r"\b(?:threadIdx|blockIdx)\s*\.\s*y\b"),
                dynamic=_has(name, part.whole, r"\bextern\b[^;]*__shared__"),
                bytes_of=_structures(function, partial(Kernel, text, name, defines, folder=folder)),
            ),
        )
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
    planned: Plan | None = None,
) -> str:
    """A command that launches a kernel on small inputs, with values for variables that have none.

    Args:
        file: the file as the reader named it.
        function: the kernel.
        several: whether the file has others.
        defines: values for macros.
        variables: those of the file that need a value.
        planned: grid, block and arguments; by default small ones.
    """
    planned = planned or plan(function)
    named = ["--kernel", function.name] if several or "<" in function.name else []
    words = ["tilewise", "trace", file, *named]
    words += [word for key, value in defines.items() for word in ("--define", f"{key}={value}")]
    words += ["--grid", ",".join(map(str, planned.grid)), "--block", ",".join(map(str, planned.block))]
    words += ["--shared", str(planned.shared_bytes)] if planned.shared_bytes else []
    words += [word for name, value in planned.arguments.items() for word in ("--arg", f"{name}={value}")]
    for held in variables:
        if held.dtype in SPELLED and held.shape is not None and -1 not in held.shape:
            shape = ",".join(map(str, held.shape or (1,)))
            words += ["--arg", f"{held.name}={SPELLED[held.dtype]}[{shape}]"]
    return shlex.join(words)


def _structures(function: GlobalFunction, kernel: Callable[[], Kernel]) -> dict[str, int]:
    """The sizes of the structures that a kernel takes; only a compiler knows them."""
    if all(one.is_pointer or one.dtype is not None for one in parameters_of(function)):
        return {}
    made = kernel()
    return {
        one.name: held.size_bytes for one, held in zip(made.parameters, made.entry.parameters, strict=True)
    }


def _site(name: str, sites: Sequence[LaunchSite]) -> LaunchSite | None:
    """The file's launch of a kernel: of those with its template arguments the one of which most is known."""
    base, _, template = name.partition("<")
    own = [one for one in sites if one.kernel == base.rpartition("::")[2]]
    exact = [one for one in own if one.template == f"<{template}"] if template else own
    return max(exact or own, key=_known, default=None)


def _known(site: LaunchSite) -> int:
    scope = site.small()
    arguments = range(len(site.arguments))
    passed = [site.passed(at, scope) is not None or site.bytes_of(at, scope) is not None for at in arguments]
    return sum(one is not None for one in site.extents(scope)) + sum(passed)


def _has(name: str, text: str, pattern: str) -> bool:
    """Whether a kernel's own text matches a pattern."""
    base = name.partition("<")[0].rpartition("::")[2]
    own = [one.text for one in pieces(text) if re.search(rf"\b{base}\s*\(", one.head)]
    return any(re.search(pattern, one) for one in own)
