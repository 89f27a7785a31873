"""A CUDA text that somebody has pasted or edited: its kernels, and one of them ready to run on the page.

In: the text. Out: plain data for ``site/web/play``: the kernels, a program with a first launch, and what
clang refuses, by line. Nothing is run. Limits on time and memory are left to ``site/play``.
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
"""Headers that a text may go without, as NVIDIA's compiler brings them along, by words that need them."""
_BF16 = re.compile(r"\b(?:__)?nv_bfloat16\b")


def compiled(
    text: str,
    name: str | None = None,
    defines: Mapping[str, int | float | str] | None = None,
    options: Sequence[str] = (),
) -> dict[str, Any]:
    """Compile a text for the page.

    Args:
        text: CUDA C, host code or not; no file of this machine is read for it.
        name: the kernel that is wanted; the first where it has none of that name.
        defines: as ``Kernel`` takes them.
        options: as ``Kernel`` takes them.

    Returns:
        ``kernels``: their names. ``notes``: what of the text was left out. ``faults``: what is refused, each
        a ``line`` (0 where there is none), a ``message`` and a ``repair``. Where there are none, ``offer``:
        as ``kernel/try_it.py`` has it, whose sizes are the numbers that the page's fields hold, and
        ``proposal``: what these fields hold at first.
    """
    kept = _with_first_line(text).rstrip() + "\n"
    macros, flags = dict(defines or {}), tuple(options)
    try:
        return _compiled_alone(kept, name, macros, flags) or _compiled_whole(kept, name, macros, flags)
    except (LessonError, KernelError) as error:
        return _refused(_faults(error))


def _compiled_alone(
    text: str, name: str | None, defines: Mapping[str, int | float | str], options: tuple[str, ...]
) -> dict[str, Any] | None:
    """A text of kernels that have C linkage, or could; None where clang has to say what is in it.

    Clang's syntax tree takes a second, which nobody who types wants to wait.
    """
    from tilewise.simulator import CompileError
    from tilewise.simulator.compile.compiler import faults_of
    from tilewise.simulator.frontend import clang_flags

    lacks_header = any(re.search(words, text) and header not in text for header, words in _HEADERS.items())
    if is_whole_file(text) or lacks_header:
        return None
    linked = _with_c_linkage(text)
    try:
        names = [one.name for one in global_functions(linked)]
        kernel = (
            Kernel(linked, _chosen(name, names), defines, options, origin=(OWN_FILE, 1)) if names else None
        )
        return _ready(kernel, names, [], text) if kernel is not None else None
    except KernelError:
        return None
    except CompileError:
        whole = (define_lines(defines) or "#line 1\n") + with_headers(_without_host_headers(text))
        found = [one for one in faults_of(whole, clang_flags(check_options(options))) if one.file == OWN_FILE]
        faults = [_fault(one.line, one.message, one.repair) for one in found[:MOST_FAULTS]]
        return _refused(faults) if faults else None


def _compiled_whole(
    text: str, name: str | None, defines: Mapping[str, int | float | str], options: tuple[str, ...]
) -> dict[str, Any]:
    """Any text: clang says which kernels are in it."""
    from tilewise.simulator import device_part

    lines = define_lines(defines).removesuffix("#line 1\n")
    origin = (OWN_FILE, 1)
    part = device_part(text, None, options=check_options(options), prelude=lines, origin=origin)
    names = [*part.kernels, *(one for launched in part.templates.values() for one in launched)]
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
    """The text with names that a launch can use; lines stay where they are."""
    plain = without_comments(_without_host_headers(text))
    return _with_first_line(re.sub(r'(?<!"C" )\b__global__\b', 'extern "C" __global__', plain))


def _with_first_line(text: str) -> str:
    """The text with something in its first line: a kernel's text loses blank lines above it."""
    return re.sub(r"\A[ \t]*\n", "//\n", text)


def _without_host_headers(text: str) -> str:
    from tilewise.simulator.compile.whole_file import FOR_HOSTS

    def blank(found: re.Match[str]) -> str:
        return "" if found["name"].removesuffix(".h") in FOR_HOSTS else found[0]

    return re.sub(r"^[ \t]*#[ \t]*include[ \t]*<(?P<name>[^>\n]+)>[^\n]*$", blank, text, flags=re.M)


def _ready(kernel: Kernel, names: Sequence[str], notes: list[str], text: str) -> dict[str, Any]:
    made = offered(kernel)
    made["offer"]["kernels"][0]["program"]["source"] = text
    left_out = [_note(one.line, one.what, one.reason) for one in kernel.left_out]
    return {
        "kernels": names,
        "kernel": kernel.name,
        "notes": [*dict.fromkeys([*notes, *left_out])],
        "faults": [],
        **made,
    }


def offered(kernel: Kernel) -> dict[str, Any]:
    """A kernel with a first launch: ``offer`` and ``proposal``, as ``compiled`` has them."""
    empty = unset_variables(kernel.source, kernel.preprocessed)
    bytes_of = struct_bytes(kernel, empty, kernel.source)
    proposed = proposal(kernel.function, kernel.source, empty, bytes_of=bytes_of)
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
    by_name = {one.name: one for one in proposed.variables}
    return {
        "grid": ["grid.x", "grid.y", "grid.z"],
        "block": ["block.x", "block.y", "block.z"],
        "sharedBytes": "shared.bytes",
        "arguments": [
            _number(one) if isinstance(one, ProposedNumber) else _array(one, program["parameters"][at][2])
            for at, one in enumerate(proposed.arguments)
        ],
        "variables": [
            _array(by_name[one["name"]]) if one["name"] in by_name else None for one in program["variables"]
        ],
        "kernels": [{"label": kernel.name, "program": program}],
        "sizes": [],
        "maxThreads": kernel.function.max_threads,
        "totals": None,
    }


def _number(one: ProposedNumber) -> dict[str, Any]:
    return {"name": one.name, "type": one.dtype.str[1:], "written": False, "value": one.name}


def _array(one: ProposedArray, struct_bytes: int = 0) -> dict[str, Any]:
    return {
        "name": one.name,
        "type": _type(one),
        "written": one.is_written,
        "shape": [struct_bytes if one.is_by_value else f"{one.name}.length"],
        "byValue": one.is_by_value,
        "fill": _fill(one),
    } | ({"before": one.first * one.dtype.itemsize} if one.first else {})


def _type(one: ProposedArray) -> str:
    if one.is_by_value:
        return "u1"
    if _BF16.search(one.ctype):
        return "bf16"
    text = one.dtype.str[1:]
    return text if text in _TYPES else "u1"


def _fill(one: ProposedArray) -> dict[str, Any]:
    """Random numbers, as ``tilewise trace`` gives them: small whole ones, or normal ones."""
    if one.is_by_value or one.is_struct:
        return {"kind": "constant", "value": 0}
    seed = sum((at + 1) * ord(letter) for at, letter in enumerate(one.name))
    if one.dtype.kind == "f" or _BF16.search(one.ctype):
        return {"kind": "normal", "seed": seed, "scale": 1.0}
    return {"kind": "integers", "seed": seed, "low": 0, "high": 2 if one.dtype.kind == "b" else 100}


def _fields(proposed: Proposal) -> dict[str, Any]:
    """What the fields hold at first, as text."""
    fields: dict[str, str] = {}
    for axis, formula, extent in zip("xyz", proposed.grid_formulas, proposed.block, strict=True):
        fields[f"grid.{axis}"] = formula
        fields[f"block.{axis}"] = str(extent)
    fields["shared.bytes"] = str(proposed.shared_bytes)
    shown = []
    for one in (*proposed.arguments, *proposed.variables):
        if isinstance(one, ProposedNumber):
            kind = "whole" if one.dtype.kind in "iu" else "number"
            fields[one.name] = str(int(one.value) if one.dtype.kind != "f" else one.value)
        else:
            kind = "variable" if one in proposed.variables else "struct" if one.is_by_value else "array"
            fields[f"{one.name}.length"] = one.length
        shown.append({"name": one.name, "ctype": one.ctype, "kind": kind})
    return {"fields": fields, "arguments": shown}
