"""The instructions that see more than one lane: barriers, shuffles and votes, branches and calls.

In: parsed instructions. Out: rows of the program. How lanes meet stands in ``engine/lanes.h``.
"""

from __future__ import annotations

from .accesses import MemoryInstructions
from .names import NO_SLOT, numbers
from .operands import FTZ, OTHER_NEGATED, UnknownInstructionError
from .ptx import Function, Variable, type_bytes

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


class Control(MemoryInstructions):
    """Handlers ``_op_<mnemonic>`` of these instructions."""

    def _op_bar(self) -> None:
        parts = self.instruction.opcode
        if parts[1] == "warp":
            self._emit("warp_sync", e=self._value(self._operands()[0], "u32"))
            return
        if "red" in parts:
            self._reducing_barrier()
            return
        if "arrive" in parts:
            number, _ = self._operands()
            self._emit("bar_arrive", a=self._value(number, "u32"))
            return
        if "sync" not in parts:
            raise self._unknown()
        operands = self._operands()
        count = self._value(operands[1], "u32") if len(operands) > 1 else NO_SLOT
        self._emit("bar", a=self._value(operands[0], "u32"), b=count)

    def _reducing_barrier(self) -> None:
        """``__syncthreads_count``, ``_and``, ``_or``: every thread gets what the predicates make."""
        how = next(part for part in self.instruction.opcode if part in ("popc", "and", "or"))
        target, number, *count, predicate = self._operands()
        self._emit(
            "bar",
            sub=("", "popc", "and", "or").index(how),
            d0=self._slot(target),
            a=self._value(number, "u32"),
            b=self._value(count[0], "u32") if count else NO_SLOT,
            c=self._value(predicate.lstrip("!"), "pred"),
            flags=OTHER_NEGATED if predicate.startswith("!") else 0,
        )

    def _op_barrier(self) -> None:
        self._op_bar()

    def _op_shfl(self) -> None:
        parts = self.instruction.opcode
        if parts[1] != "sync":
            raise self._unknown()
        targets, value, by, clamp, names = self._operands()
        first, _, second = targets.partition("|")
        self._emit(
            "shfl",
            sub=numbers("X")[parts[2]],
            d0=self._slot(first.strip()),
            d1=self._slot(second.strip()) if second else NO_SLOT,
            a=self._value(value, "b32"),
            b=self._value(by, "u32"),
            c=self._value(clamp, "u32"),
            e=self._value(names, "u32"),
        )

    def _op_vote(self) -> None:
        parts = self.instruction.opcode
        if parts[1] != "sync":
            raise self._unknown()
        target, predicate, names = self._operands()
        flags = OTHER_NEGATED if predicate.startswith("!") else 0
        self._emit(
            "vote",
            flags=flags,
            sub=("all", "any", "uni", "ballot").index(parts[2]),
            d0=self._slot(target),
            a=self._value(predicate.lstrip("!"), "pred"),
            e=self._value(names, "u32"),
        )

    def _op_activemask(self) -> None:
        self._emit("activemask", d0=self._slot(self._operands()[0]))

    def _op_match(self) -> None:
        _, how, sync, kind = self.instruction.opcode
        if how not in ("any", "all") or sync != "sync" or kind not in ("b32", "b64"):
            raise self._unknown()
        targets, value, names = self._operands()
        first, _, second = targets.partition("|")
        self._emit(
            "match",
            sub=int(how == "all"),
            type=self.types["u64" if kind == "b64" else "u32"],
            d0=self._target(first.strip()),
            d1=self._slot(second.strip()) if second else NO_SLOT,
            a=self._value(value, kind),
            e=self._value(names, "u32"),
        )

    def _op_redux(self) -> None:
        parts = self.instruction.opcode
        target, value, names = self._operands()
        kind = {"b32": "u32"}.get(parts[-1], parts[-1])
        self._emit(
            "redux",
            sub=numbers("A")[parts[2]],
            type=self.types[kind],
            d0=self._slot(target),
            a=self._value(value, "b32"),
            e=self._value(names, "u32"),
        )

    def _op_bra(self) -> None:
        row = self._emit("bra")
        self.jumps.append((row, self._operands()[0]))

    def _op_brx(self) -> None:
        index, table = self._operands()
        row = self._emit("brx", a=self._value(index, "u32"))
        self.branch_tables.append((row, self.function.targets[table]))

    def _op_ret(self) -> None:
        self._emit("exit" if self.function.is_entry else "ret")

    def _op_exit(self) -> None:
        self._emit("exit")

    def _op_tw(self) -> None:
        """``tw.watch.f32 number, value``: what the header's ``tw_watch`` leaves for a trace."""
        kind = self.instruction.opcode[-1]
        number, value = self._operands()
        self._emit(
            "watch",
            sub=int(number),
            type2=self.types[kind],
            e=type_bytes(kind),
            a=self._value(value, kind),
        )

    def _op_trap(self) -> None:
        self._emit("trap")

    def _op_brkpt(self) -> None:
        self._emit("nop")

    def _op_nanosleep(self) -> None:
        self._emit("nop")

    def _op_call(self) -> None:
        operands = list(self._operands())
        results = operands.pop(0) if operands[0].startswith("(") else "()"
        name = operands.pop(0)
        arguments = operands.pop(0) if operands else "()"
        given = [part.strip() for part in arguments.strip("()").split(",") if part.strip()]
        answers = [part.strip() for part in results.strip("()").split(",") if part.strip()]
        if name in self.module.functions:
            self._call_function(self.module.functions[name], given, answers)
        elif name == "vprintf":
            slots = [self._parameter_slot(part, 0, "b64") for part in given]
            self._emit("print", d0=self._parameter_slot(answers[0], 0, "b32"), a=slots[0], b=slots[1])
        elif name == "__assertfail":
            self._emit("assert", a=self._parameter_slot(given[0], 0, "b64"))
        else:
            self._call_math(name, given, answers)

    def _parts(self, variable: Variable) -> list[int]:
        """Offsets at which a parameter's slots lie: every multiple of its smallest register."""
        return [0] if variable.count == 1 else list(range(variable.size_bytes))

    def _call_function(self, callee: Function, given: list[str], answers: list[str]) -> None:
        for name, parameter in zip(given, callee.parameters, strict=True):
            self._copy_parameter((self.function.name, name), (callee.name, parameter.name), parameter)
        row = self._emit("call")
        self.fixups.append((row, callee.name))
        for name, result in zip(answers, callee.results, strict=True):
            self._copy_parameter((callee.name, result.name), (self.function.name, name), result)

    def _copy_parameter(self, source: tuple[str, str], target: tuple[str, str], variable: Variable) -> None:
        """Move what was stored to a parameter: one register, or for structs each offset in use."""
        offsets = {0: variable.type} if variable.count == 1 else self._struct_offsets(source, target)
        for offset, kind in offsets.items():
            a = self._parameter_slot(source[1], offset, kind, source[0])
            d = self._parameter_slot(target[1], offset, kind, target[0])
            self._emit("mov_64" if type_bytes(kind) == 8 else "mov_32", d0=d, a=a)

    def _struct_offsets(self, *places: tuple[str, str]) -> dict[int, str]:
        found: dict[int, str] = {}
        for function_name, name in places:
            for instruction in self.module.functions[function_name].instructions:
                if instruction.opcode[0] in ("ld", "st") and "param" in instruction.opcode:
                    address = next(part for part in instruction.operands if part.startswith("["))
                    base, offset = self._parameter(address)
                    if base == name:
                        kind = instruction.opcode[-1]
                        other = next(part for part in instruction.operands if not part.startswith("["))
                        for number in range(len(other.strip("{}").split(","))):
                            found[offset + number * type_bytes(kind)] = kind
        return found

    def _call_math(self, name: str, given: list[str], answers: list[str]) -> None:
        plain = _MATH_ALIASES.get(name, name)
        single = plain.endswith("f") and plain[:-1] in numbers("M") and plain not in ("erf",)
        base = plain[:-1] if single else plain
        if base not in numbers("M") or len(answers) != 1:
            raise UnknownInstructionError(f"a call of {name}, which is not defined", self.instruction.line)
        kind = "f32" if single else "f64"
        slots = [self._parameter_slot(part, 0, kind) for part in given]
        slots += [slots[0]] * (3 - len(slots))
        self._emit(
            f"math_{kind}",
            flags=FTZ if self.ftz else 0,
            sub=numbers("M")[base],
            d0=self._parameter_slot(answers[0], 0, kind),
            a=slots[0],
            b=slots[1],
            c=slots[2],
        )
