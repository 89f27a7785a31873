"""Instructions that involve several lanes: barriers, shuffles and votes, branches and calls.

In: parsed instructions. Out: rows of the program. ``engine/lanes.h`` implements how lanes synchronise.
"""

from __future__ import annotations

from tilewise.simulator.decode.accesses import parameter_of
from tilewise.simulator.decode.operands import (
    FTZ,
    OTHER_NEGATED,
    Assembler,
    Handlers,
    UnknownInstructionError,
    parts_of,
    source_name,
)
from tilewise.simulator.engine.shared import NO_SLOT, numbers
from tilewise.simulator.ptx.ptx import Function, Variable, type_bytes

_MATH_ALIASES = {
    "__expf": "expf",
    "__exp2f": "exp2f",
    "__logf": "logf",
    "__log2f": "log2f",
    "__log10f": "log10f",
    "__sinf": "sinf",
    "__cosf": "cosf",
    "__tanf": "tanf",
    "__powf": "powf",
}


def barrier(asm: Assembler) -> None:
    """``bar`` and ``barrier``: of a block, of some of its warps, of a warp."""
    parts = asm.opcode
    if parts[1] == "warp":
        asm.emit("warp_sync", e=asm.value(asm.operands[0], "u32"))
        return
    if "red" in parts:
        _reducing_barrier(asm)
        return
    if "arrive" in parts:
        number, _ = asm.operands
        asm.emit("bar_arrive", a=asm.value(number, "u32"))
        return
    if "sync" not in parts:
        raise asm.unknown()
    operands = asm.operands
    count = asm.value(operands[1], "u32") if len(operands) > 1 else NO_SLOT
    asm.emit("bar", a=asm.value(operands[0], "u32"), b=count)


def _reducing_barrier(asm: Assembler) -> None:
    """``__syncthreads_count``, ``_and``, ``_or``: every thread gets the reduction of the predicates."""
    how = next(part for part in asm.opcode if part in ("popc", "and", "or"))
    target, number, *count, predicate = asm.operands
    asm.emit(
        "bar",
        sub=("", "popc", "and", "or").index(how),
        d0=asm.slot(target),
        a=asm.value(number, "u32"),
        b=asm.value(count[0], "u32") if count else NO_SLOT,
        c=asm.value(predicate.lstrip("!"), "pred"),
        flags=OTHER_NEGATED if predicate.startswith("!") else 0,
    )


def _shfl(asm: Assembler) -> None:
    parts = asm.opcode
    if parts[1] != "sync":
        raise asm.unknown()
    targets, value, by, clamp, names = asm.operands
    first, _, second = targets.partition("|")
    asm.emit(
        "shfl",
        sub=numbers("SHUFFLE")[parts[2]],
        d0=asm.slot(first.strip()),
        d1=asm.slot(second.strip()) if second else NO_SLOT,
        a=asm.value(value, "b32"),
        b=asm.value(by, "u32"),
        c=asm.value(clamp, "u32"),
        e=asm.value(names, "u32"),
    )


def _vote(asm: Assembler) -> None:
    parts = asm.opcode
    if parts[1] != "sync":
        raise asm.unknown()
    target, predicate, names = asm.operands
    flags = OTHER_NEGATED if predicate.startswith("!") else 0
    asm.emit(
        "vote",
        flags=flags,
        sub=("all", "any", "uni", "ballot").index(parts[2]),
        d0=asm.slot(target),
        a=asm.value(predicate.lstrip("!"), "pred"),
        e=asm.value(names, "u32"),
    )


def _match(asm: Assembler) -> None:
    _, how, sync, kind = asm.opcode
    if how not in ("any", "all") or sync != "sync" or kind not in ("b32", "b64"):
        raise asm.unknown()
    targets, value, names = asm.operands
    first, _, second = targets.partition("|")
    asm.emit(
        "match",
        sub=int(how == "all"),
        type=asm.types["u64" if kind == "b64" else "u32"],
        d0=asm.target(first.strip()),
        d1=asm.slot(second.strip()) if second else NO_SLOT,
        a=asm.value(value, kind),
        e=asm.value(names, "u32"),
    )


def _redux(asm: Assembler) -> None:
    parts = asm.opcode
    target, value, names = asm.operands
    kind = {"b32": "u32"}.get(parts[-1], parts[-1])
    asm.emit(
        "redux",
        sub=numbers("ATOMIC")[parts[2]],
        type=asm.types[kind],
        d0=asm.slot(target),
        a=asm.value(value, "b32"),
        e=asm.value(names, "u32"),
    )


def _bra(asm: Assembler) -> None:
    row = asm.emit("bra")
    asm.jumps.append((row, asm.operands[0]))


def _brx(asm: Assembler) -> None:
    index, table = asm.operands
    row = asm.emit("brx", a=asm.value(index, "u32"))
    asm.branch_tables.append((row, asm.function.targets[table]))


def _return(asm: Assembler) -> None:
    asm.emit("exit" if asm.function.is_entry else "ret")


def _watch(asm: Assembler) -> None:
    """``tw.watch.f32 number, value``: emitted by the header's ``tw_watch`` for a trace; ``tw.grid.sync``."""
    if asm.opcode[1] == "grid":
        asm.agents = asm.grid_sync = True
        asm.emit("cluster_arrive")
        asm.emit("cluster_wait")
        return
    kind = asm.opcode[-1]
    number, value = asm.operands
    asm.emit(
        "watch",
        sub=int(number),
        type2=asm.types[kind],
        e=type_bytes(kind),
        a=asm.value(value, kind),
    )


def _call(asm: Assembler) -> None:
    operands = list(asm.operands)
    results = operands.pop(0) if operands[0].startswith("(") else "()"
    name = operands.pop(0)
    arguments = operands.pop(0) if operands else "()"
    names = [part.strip() for part in arguments.strip("()").split(",") if part.strip()]
    answers = [part.strip() for part in results.strip("()").split(",") if part.strip()]
    if name in asm.module.functions:
        _call_function(asm, asm.module.functions[name], names, answers)
    elif name == "vprintf":
        slots = [asm.parameter_slot(part, 0, "b64") for part in names]
        asm.emit("print", d0=asm.parameter_slot(answers[0], 0, "b32"), a=slots[0], b=slots[1])
    elif name == "__assertfail":
        asm.emit("assert", a=asm.parameter_slot(names[0], 0, "b64"))
    else:
        _call_math(asm, name, names, answers)


def _call_function(asm: Assembler, callee: Function, arguments: list[str], answers: list[str]) -> None:
    for name, parameter in zip(arguments, callee.parameters, strict=True):
        _copy_parameter(asm, (asm.function.name, name), (callee.name, parameter.name), parameter)
    row = asm.emit("call")
    asm.fixups.append((row, callee.name))
    for name, result in zip(answers, callee.results, strict=True):
        _copy_parameter(asm, (callee.name, result.name), (asm.function.name, name), result)


def _copy_parameter(
    asm: Assembler, source: tuple[str, str], target: tuple[str, str], variable: Variable
) -> None:
    """Copy a parameter's value: one register, or for structs each offset in use."""
    offsets = {0: variable.type} if variable.count == 1 else _struct_offsets(asm, source, target)
    for offset, kind in offsets.items():
        a = asm.parameter_slot(source[1], offset, kind, source[0])
        d = asm.parameter_slot(target[1], offset, kind, target[0])
        asm.emit("mov_64" if type_bytes(kind) == 8 else "mov_32", d0=d, a=a)


def _struct_offsets(asm: Assembler, *places: tuple[str, str]) -> dict[int, str]:
    offsets: dict[int, str] = {}
    for function_name, name in places:
        for instruction in asm.module.functions[function_name].instructions:
            if instruction.opcode[0] in ("ld", "st") and "param" in instruction.opcode:
                address = next(part for part in instruction.operands if part.startswith("["))
                base, offset = parameter_of(address)
                if base == name:
                    kind = instruction.opcode[-1]
                    values = next(part for part in instruction.operands if not part.startswith("["))
                    for number in range(len(parts_of(values))):
                        offsets[offset + number * type_bytes(kind)] = kind
    return offsets


def _undefined(asm: Assembler, name: str) -> UnknownInstructionError:
    if name in _ALLOCATIONS:
        return UnknownInstructionError(
            name,
            asm.instruction.line,
            "the kernel allocates memory by itself, with new or malloc, which the simulator does not do.",
            "Give it an array to work in, or a local array of a fixed size.",
        )
    return UnknownInstructionError(
        name,
        asm.instruction.line,
        f"the kernel calls {source_name(name)}, which its source declares and does not define.",
        "Put the function's definition into the source, or include the file that has it.",
    )


_ALLOCATIONS = {
    "_Znwm",
    "_Znam",
    "_Znwj",
    "_Znaj",
    "_ZdlPv",
    "_ZdaPv",
    "_ZdlPvm",
    "_ZdaPvm",
    "malloc",
    "free",
}


def _call_math(asm: Assembler, name: str, arguments: list[str], answers: list[str]) -> None:
    plain = _MATH_ALIASES.get(name, name)
    single = plain.endswith("f") and plain[:-1] in numbers("MATH") and plain not in ("erf",)
    base = plain[:-1] if single else plain
    if name.startswith("%"):
        raise asm.pointer_to_function()
    if base not in numbers("MATH") or len(answers) != 1:
        raise _undefined(asm, name)
    kind = "f32" if single else "f64"
    slots = [asm.parameter_slot(part, 0, kind) for part in arguments]
    slots += [slots[0]] * (3 - len(slots))
    asm.emit(
        f"math_{kind}",
        flags=FTZ if asm.ftz else 0,
        sub=numbers("MATH")[base],
        d0=asm.parameter_slot(answers[0], 0, kind),
        a=slots[0],
        b=slots[1],
        c=slots[2],
    )


HANDLERS: Handlers = {
    "bar": barrier,
    "shfl": _shfl,
    "vote": _vote,
    "activemask": lambda asm: asm.emit_operands("activemask"),
    "match": _match,
    "redux": _redux,
    "bra": _bra,
    "brx": _brx,
    "ret": _return,
    "exit": lambda asm: asm.emit("exit"),
    "tw": _watch,
    "trap": lambda asm: asm.emit("trap"),
    "brkpt": lambda asm: asm.emit("nop"),
    "nanosleep": lambda asm: asm.emit("nop"),
    "call": _call,
}
