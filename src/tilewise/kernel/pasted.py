"""A pasted or edited CUDA text: its kernels, and one of them ready to run on the page.

In: the text. Out: plain data for ``site/web/play``: the kernels, a program with a first launch, and clang's
errors by line. Nothing is run. ``site/play`` limits time and memory.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from tilewise.cuda.headers import OWN_FILE, with_headers
from tilewise.cuda.kernel_source import KernelError, define_lines, global_functions, without_comments
from tilewise.cuda.options import check_options
from tilewise.errors import LessonError
from tilewise.kernel.kernel import Kernel, is_whole_file
from tilewise.kernel.proposals import (
    Proposal,
    ProposedArray,
    ProposedNumber,
    proposal,
    struct_bytes,
    unset_variables,
)

MOST_FAULTS = 50
_TYPES = {"f8", "f4", "f2", "i8", "u8", "i4", "u4", "i2", "u2", "i1", "u1", "b1"}
_HEADERS = {"cuda_fp16.h": r"\b(?:__)?half2?\b", "cuda_bf16.h": r"\b(?:__)?nv_bfloat162?\b"}
"""Headers that NVIDIA's compiler includes implicitly, with a pattern for the words that need them."""
_BF16 = re.compile(r"\b(?:__)?nv_bfloat16\b")


def compiled(
    text: str,
    name: str | None = None,
    defines: Mapping[str, int | float | str] | None = None,
    options: Sequence[str] = (),
) -> dict[str, Any]:
    """Compile a text for the page.

    Args:
        text: CUDA C, with or without host code; it cannot include files of this machine.
        name: the kernel's name; the first kernel is taken if there is none of that name.
        defines: as for ``Kernel``.
        options: as for ``Kernel``.

    Returns:
        ``kernels``: their names. ``notes``: the parts of the text that were left out. ``faults``: the errors,
        each with ``line`` (0 if none), ``message`` and ``repair``. Without errors also ``offer``: as in
        ``kernel/try_it.py``, with the numbers in the page's fields as sizes, and ``proposal``: the initial
        values of these fields.
    """
    source = _with_first_line(text).rstrip() + "\n"
    macros, flags = dict(defines or {}), tuple(options)
    try:
        return _compiled_alone(source, name, macros, flags) or _compiled_whole(source, name, macros, flags)
    except (LessonError, KernelError) as error:
        return _refused(_faults(error))


def _compiled_alone(
    text: str, name: str | None, defines: Mapping[str, int | float | str], options: tuple[str, ...]
) -> dict[str, Any] | None:
    """Compile kernels that have C linkage, or could; None if clang has to parse the text first.

    Clang's syntax tree takes a second, too long while somebody types.
    """
    from tilewise.simulator import CompileError
    from tilewise.simulator.compile.compiler import faults_of
    from tilewise.simulator.frontend import clang_flags

    lacks_header = any(re.search(words, text) and header not in text for header, words in _HEADERS.items())
    if is_whole_file(text) or lacks_header:
        return None
    linked = _with_c_linkage(text)
    try:
        names = [function.name for function in global_functions(linked)]
        kernel = (
            Kernel(linked, _chosen(name, names), defines, options, origin=(OWN_FILE, 1)) if names else None
        )
        return _ready(kernel, names, [], text) if kernel is not None else None
    except KernelError:
        return None
    except CompileError:
        whole = (define_lines(defines) or "#line 1\n") + with_headers(_without_host_headers(text))
        errors = faults_of(whole, clang_flags(check_options(options)))
        own = [error for error in errors if error.file == OWN_FILE]
        faults = [_fault(error.line, error.message, error.repair) for error in own[:MOST_FAULTS]]
        return _refused(faults) if faults else None


def _compiled_whole(
    text: str, name: str | None, defines: Mapping[str, int | float | str], options: tuple[str, ...]
) -> dict[str, Any]:
    """Compile any text, in which clang finds the kernels."""
    from tilewise.simulator import device_part

    lines = define_lines(defines).removesuffix("#line 1\n")
    origin = (OWN_FILE, 1)
    part = device_part(text, None, options=check_options(options), prelude=lines, origin=origin)
    names = [*part.kernels, *(instance for launched in part.templates.values() for instance in launched)]
    notes = [
        f"{template} is a template: launch it in the text, as in {template}<32><<<1, 32>>>(...), to say with "
        "which arguments."
        for template, launched in part.templates.items()
        if not launched
    ]
    if not names:
        raise KernelError(
            notes[0] if notes else "the text has no kernel. Write: __global__ void name(...) { ... }"
        )
    chosen = _chosen(name, names)
    known = part if chosen in part.kernels else None
    kernel = Kernel(text, chosen, defines, options, origin=origin, part=known)
    return _ready(kernel, names, notes, text)


def _chosen(name: str | None, names: Sequence[str]) -> str:
    return name if name in names and name is not None else names[0]


def _with_c_linkage(text: str) -> str:
    """The text with kernel names that a launch can use, and the same line numbers."""
    plain = without_comments(_without_host_headers(text))
    return _with_first_line(re.sub(r'(?<!"C" )\b__global__\b', 'extern "C" __global__', plain))


def _with_first_line(text: str) -> str:
    """The text with a non-blank first line, because ``Kernel`` strips leading blank lines."""
    return re.sub(r"\A[ \t]*\n", "//\n", text)


def _without_host_headers(text: str) -> str:
    from tilewise.simulator.compile.whole_file import FOR_HOSTS

    def blank(match: re.Match[str]) -> str:
        return "" if match["name"].removesuffix(".h") in FOR_HOSTS else match[0]

    return re.sub(r"^[ \t]*#[ \t]*include[ \t]*<(?P<name>[^>\n]+)>[^\n]*$", blank, text, flags=re.M)


def _ready(kernel: Kernel, names: Sequence[str], notes: list[str], text: str) -> dict[str, Any]:
    result = offered(kernel)
    result["offer"]["kernels"][0]["program"]["source"] = text
    left_out = [_note(part.line, part.what, part.reason) for part in kernel.left_out]
    return {
        "kernels": names,
        "kernel": kernel.name,
        "notes": [*dict.fromkeys([*notes, *left_out])],
        "faults": [],
        **result,
    }


def offered(kernel: Kernel) -> dict[str, Any]:
    """A kernel with a first launch: ``offer`` and ``proposal``, as in ``compiled``."""
    unset = unset_variables(kernel.source, kernel.preprocessed)
    bytes_of = struct_bytes(kernel, unset, kernel.source)
    proposed = proposal(kernel.function, kernel.source, unset, bytes_of=bytes_of)
    return {"offer": _offer(kernel, proposed), "proposal": _fields(proposed)}


def _refused(faults: list[dict[str, Any]]) -> dict[str, Any]:
    return {"kernels": [], "notes": [], "faults": faults}


def _note(line: int, what: str, reason: str) -> str:
    return f"Left out: {f'line {line}, ' if line else ''}{what}: {reason}."


def _faults(error: Exception) -> list[dict[str, Any]]:
    if isinstance(error, LessonError) and not isinstance(error, KernelError):
        line = error.line if error.path == OWN_FILE else 0
        place = "" if error.path == OWN_FILE else f"{error.path}, line {error.line}: "
        message = error.message.removeprefix("the kernel does not compile: ")
        return [_fault(line, place + message, error.repair)]
    return [_fault(0, str(error), "")]


def _fault(line: int, message: str, repair: str) -> dict[str, Any]:
    message = message.rstrip(".")
    return {"line": line, "message": f"{message[:1].upper()}{message[1:]}.", "repair": repair}


def _offer(kernel: Kernel, proposed: Proposal) -> dict[str, Any]:
    from tilewise.simulator.browser.program import program_data

    program = program_data(kernel.entry)
    by_name = {variable.name: variable for variable in proposed.variables}
    return {
        "grid": ["grid.x", "grid.y", "grid.z"],
        "block": ["block.x", "block.y", "block.z"],
        "sharedBytes": "shared.bytes",
        "arguments": [
            _number(argument)
            if isinstance(argument, ProposedNumber)
            else _array(argument, program["parameters"][at][2])
            for at, argument in enumerate(proposed.arguments)
        ],
        "variables": [
            _array(by_name[variable["name"]]) if variable["name"] in by_name else None
            for variable in program["variables"]
        ],
        "kernels": [{"label": kernel.name, "program": program}],
        "sizes": [],
        "maxThreads": kernel.function.max_threads,
        "totals": None,
    }


def _number(number: ProposedNumber) -> dict[str, Any]:
    return {"name": number.name, "type": number.dtype.str[1:], "written": False, "value": number.name}


def _array(array: ProposedArray, struct_bytes: int = 0) -> dict[str, Any]:
    return {
        "name": array.name,
        "type": _type(array),
        "written": array.is_written,
        "shape": [struct_bytes if array.is_by_value else f"{array.name}.length"],
        "byValue": array.is_by_value,
        "fill": _fill(array),
    } | ({"before": array.first * array.dtype.itemsize} if array.first else {})


def _type(array: ProposedArray) -> str:
    if array.is_by_value:
        return "u1"
    if _BF16.search(array.ctype):
        return "bf16"
    text = array.dtype.str[1:]
    return text if text in _TYPES else "u1"


def _fill(array: ProposedArray) -> dict[str, Any]:
    """Random values as in ``tilewise trace``: small integers or normally distributed numbers."""
    if array.is_by_value or array.is_struct:
        return {"kind": "constant", "value": 0}
    seed = sum((at + 1) * ord(letter) for at, letter in enumerate(array.name))
    if array.dtype.kind == "f" or _BF16.search(array.ctype):
        return {"kind": "normal", "seed": seed, "scale": 1.0}
    return {"kind": "integers", "seed": seed, "low": 0, "high": 2 if array.dtype.kind == "b" else 100}


def _fields(proposed: Proposal) -> dict[str, Any]:
    """The initial values of the fields, as text."""
    fields: dict[str, str] = {}
    for axis, formula, extent in zip("xyz", proposed.grid_formulas, proposed.block, strict=True):
        fields[f"grid.{axis}"] = formula
        fields[f"block.{axis}"] = str(extent)
    fields["shared.bytes"] = str(proposed.shared_bytes)
    shown = []
    for argument in (*proposed.arguments, *proposed.variables):
        if isinstance(argument, ProposedNumber):
            kind = "whole" if argument.dtype.kind in "iu" else "number"
            fields[argument.name] = str(int(argument.value) if argument.dtype.kind != "f" else argument.value)
        else:
            kind = (
                "variable"
                if argument in proposed.variables
                else "struct"
                if argument.is_by_value
                else "array"
            )
            fields[f"{argument.name}.length"] = argument.length
        shown.append({"name": argument.name, "ctype": argument.ctype, "kind": kind})
    return {"fields": fields, "arguments": shown}
