"""Lines for accesses that the compiler moved: out of a loop, or merged from two branches.

In: a function's instructions; some have no line, or only the calls of the inlined function. Out: the same; a
load gets the line of the instruction that uses its value, and a store the line of the one that computes its
value, within that function; else the function's previous line, or the call's. Other instructions keep the
previous line or the kernel's call: only accesses are counted and reported by line.
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
    """The instructions, with a nearby line for each access without a line."""
    if not any(inst.is_near for inst in code):
        return tuple(code)
    return tuple(_placed(code, at) if inst.is_near else inst for at, inst in enumerate(code))


def _placed(code: Sequence[Instruction], at: int) -> Instruction:
    inst = code[at]
    inner = () if inst.line else inst.calls
    if inst.opcode[0] not in _ACCESSES or "param" in {part.split("::")[0] for part in inst.opcode}:
        inst = replace(inst, is_near=False)
        return replace(inst, line=inner[-1], calls=()) if inner else inst
    source = _by_use(code, at, inner) if _results(inst) else None
    source = source or _by_origin(code, at, inner)
    if inner and not source:  # merged from two branches: use their condition
        source = next((near for near in reversed(code[:at]) if _has_line(near, inner)), None)
    if source:
        return replace(inst, line=source.line, calls=source.calls, header=source.header)
    return replace(inst, line=inner[0], calls=inner[1:]) if inner else inst


def _results(inst: Instruction) -> set[str]:
    if inst.opcode[0] in _WITHOUT_RESULT or not inst.operands:
        return set()
    return set(_REGISTER.findall(inst.operands[0]))


def _sources(inst: Instruction) -> set[str]:
    parts = inst.operands if inst.opcode[0] in _WITHOUT_RESULT else inst.operands[1:]
    return {name for part in parts for name in _REGISTER.findall(part)} | {inst.predicate}


def _by_use(code: Sequence[Instruction], at: int, inside: tuple[int, ...]) -> Instruction | None:
    """The first user of the result, directly or indirectly: after the instruction, or before it in a loop."""
    wanted = _results(code[at])
    for inst in (*code[at + 1 :], *code[:at]):
        if not wanted.isdisjoint(_sources(inst)):
            if _has_line(inst, inside):
                return inst
            wanted |= _results(inst)
    return None


def _by_origin(code: Sequence[Instruction], at: int, inside: tuple[int, ...]) -> Instruction | None:
    """The last instruction that computed the value or the address."""
    wanted = _sources(code[at])
    for inst in reversed(code[:at]):
        if not wanted.isdisjoint(_results(inst)):
            if _has_line(inst, inside) and inst.opcode[0] != "mov":
                return inst
            wanted |= _sources(inst)
    return None


def _has_line(inst: Instruction, inside: tuple[int, ...]) -> bool:
    """Whether an instruction has its own line, in the function that these calls lead to."""
    return bool(inst.line) and not inst.is_near and inst.calls[len(inst.calls) - len(inside) :] == inside
