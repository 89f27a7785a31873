"""Lines for accesses that the compiler has moved: out of a loop, or together from two branches.

In: a function's instructions; of some the compiler says no line, or only the calls of the inlined function
that has them. Out: the same, where a load has the line of what uses its value, and a store that of what made
its value, each in that function; else the function's line before it, or the call's. Other instructions keep
the line before them, or have the kernel's call: only accesses are counted and blamed by line.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from tilewise.simulator.ptx.ptx import Instruction

_ACCESSES = {"ld", "ldu", "st", "atom", "red", "ldmatrix", "stmatrix", "cp"}
_WITHOUT_RESULT = {"st", "red", "stmatrix", "cp", "bra", "bar", "ret"}
_REGISTER = re.compile(r"%[\w$.]+")


def with_lines(code: Sequence[Instruction]) -> tuple[Instruction, ...]:
    """The instructions, with a line nearby for each access without one."""
    if not any(one.is_near for one in code):
        return tuple(code)
    return tuple(_placed(code, at) if one.is_near else one for at, one in enumerate(code))


def _placed(code: Sequence[Instruction], at: int) -> Instruction:
    one = code[at]
    inner = () if one.line else one.calls
    if one.opcode[0] not in _ACCESSES or "param" in {part.split("::")[0] for part in one.opcode}:
        one = replace(one, is_near=False)
        return replace(one, line=inner[-1], calls=()) if inner else one
    found = _by_use(code, at, inner) if _results(one) else None
    found = found or _by_origin(code, at, inner)
    if inner and not found:  # two branches do the same: their condition
        found = next((near for near in reversed(code[:at]) if _has_line(near, inner)), None)
    if found:
        return replace(one, line=found.line, calls=found.calls, header=found.header)
    return replace(one, line=inner[0], calls=inner[1:]) if inner else one


def _results(one: Instruction) -> set[str]:
    if one.opcode[0] in _WITHOUT_RESULT or not one.operands:
        return set()
    return set(_REGISTER.findall(one.operands[0]))


def _sources(one: Instruction) -> set[str]:
    parts = one.operands if one.opcode[0] in _WITHOUT_RESULT else one.operands[1:]
    return {name for part in parts for name in _REGISTER.findall(part)} | {one.predicate}


def _by_use(code: Sequence[Instruction], at: int, inside: tuple[int, ...]) -> Instruction | None:
    """What uses the result first, or a result of it: behind the instruction, else before it in a loop."""
    wanted = _results(code[at])
    for one in (*code[at + 1 :], *code[:at]):
        if not wanted.isdisjoint(_sources(one)):
            if _has_line(one, inside):
                return one
            wanted |= _results(one)
    return None


def _by_origin(code: Sequence[Instruction], at: int, inside: tuple[int, ...]) -> Instruction | None:
    """What made the value, or an address, last."""
    wanted = _sources(code[at])
    for one in reversed(code[:at]):
        if not wanted.isdisjoint(_results(one)):
            if _has_line(one, inside) and one.opcode[0] != "mov":
                return one
            wanted |= _sources(one)
    return None


def _has_line(one: Instruction, inside: tuple[int, ...]) -> bool:
    """Whether an instruction has a line of its own, in the function that these calls lead to."""
    return bool(one.line) and not one.is_near and one.calls[len(one.calls) - len(inside) :] == inside
