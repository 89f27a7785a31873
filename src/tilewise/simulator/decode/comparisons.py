"""Comparisons, selections and conversions.

In: parsed instructions. Out: rows of the program. ``engine/integer_cases.h`` implements them.
"""

from __future__ import annotations

from tilewise.simulator.decode.operands import OTHER_NEGATED, Assembler, Handlers, UnknownInstructionError
from tilewise.simulator.engine.shared import NO_SLOT, numbers
from tilewise.simulator.ptx.ptx import type_bytes


def _set_predicate(asm: Assembler) -> None:
    parts = asm.opcode
    kind = parts[-1]
    combine = next((number for number, name in enumerate(("and", "or", "xor"), 1) if name in parts[2:-1]), 0)
    targets, left, right, *rest = asm.operands
    first, _, second = targets.partition("|")
    flags = asm.flags()
    fields: dict[str, int] = {}
    if combine:
        flags |= OTHER_NEGATED if rest[0].startswith("!") else 0
        fields["c"] = asm.value(rest[0].removeprefix("!"), "pred")
    plain = {"b16": "u16", "b32": "u32", "b64": "u64"}.get(kind, kind)
    asm.emit(
        f"setp_{plain}",
        flags=flags,
        sub=numbers("COMPARE")[parts[1]],
        e=combine,
        d0=asm.slot(first.strip()),
        d1=asm.slot(second.strip()) if second else NO_SLOT,
        a=asm.value(left, kind),
        b=asm.value(right, kind),
        **fields,
    )


def _select(asm: Assembler) -> None:
    kind = asm.opcode[-1]
    asm.emit_operands("selp_64" if type_bytes(kind) == 8 else "selp_32", kind, kind, "pred")


def _test(asm: Assembler) -> None:
    names = ("finite", "infinite", "number", "notanumber", "normal", "subnormal")
    if asm.opcode[-1] != "f32":
        raise asm.unknown()
    asm.emit_operands("testp", "f32", sub=names.index(asm.opcode[1]))


def _is_wide(asm: Assembler, source: str) -> bool:
    """Whether an operand is a 64-bit register, not a number or special register."""
    try:
        return type_bytes(asm.register_type(source)) == 8
    except UnknownInstructionError:
        return False


def _convert(asm: Assembler) -> None:
    parts = asm.opcode
    to, source_type = parts[-2], parts[-1]
    target, *sources = asm.operands
    if to in ("f16x2", "bf16x2"):
        if len(sources) != 2 or source_type != "f32":
            raise asm.unknown()
        high, low = (asm.value(part, "f32") for part in sources)
        asm.emit(f"cvt_pack_{to[:-2]}", d0=asm.slot(target), a=high, b=low)
        return
    if to == "tf32" and source_type == "f32" and len(parts) == 4 and parts[1] in ("rna", "rn", "rz"):
        asm.emit_operands("cvt_tf32", "f32", sub=("rna", "rn", "rz").index(parts[1]))
        return
    if to not in asm.types or source_type not in asm.types:
        raise asm.unknown()
    plain = f"cvt_{to}_{source_type}"
    value = asm.value(sources[0], source_type)
    how = next((part for part in parts[1:-2] if part in asm.rounding), "none")
    # A register may be wider than the type that is read from it: cvt.s64.s8 %rd2, %rd1.
    source_wide = _is_wide(asm, sources[0])
    if plain in asm.op and len(parts) == 3 and (not source_wide or type_bytes(source_type) == 8):
        asm.emit(plain, d0=asm.slot(target), a=value)
        return
    target_wide = type_bytes(asm.register_type(target)) == 8
    asm.emit(
        "cvt",
        flags=asm.flags(),
        sub=asm.rounding[how],
        type=asm.types[to],
        type2=asm.types[source_type],
        e=int(target_wide) | 2 * int(source_wide),
        d0=asm.slot(target),
        a=value,
    )


HANDLERS: Handlers = {
    "setp": _set_predicate,
    "selp": _select,
    "testp": _test,
    "cvt": _convert,
}
