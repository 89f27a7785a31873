"""The machine's findings as sentences: who did what, where, and what is there.

In: a row of the machine's table of hazards. Out: ``Hazard``. The machine decides what is a hazard.
"""

from __future__ import annotations

from collections.abc import Mapping

from tilewise.cuda.variables import shown_name
from tilewise.simulator.decode.program import Program
from tilewise.simulator.engine.memory import Memory, short_name
from tilewise.simulator.engine.shared import HAZARD_KINDS, numbers
from tilewise.simulator.frontend import Entry
from tilewise.simulator.results.hazards import Hazard, repair_of

Row = Mapping[str, int]
"""A row of the machine's table."""
_, BY_BULK, BY_GROUP, BY_OBJECT = numbers("AGENT").values()
"""The kinds of agents, from ``engine/agents.h``."""


_USES = ("", "a store", "an address", "a branch", "an atomic", "printf or a copy")
_ABSENT = ("is elsewhere in the kernel", "has exited", "does not exist in this warp")


class Findings:
    """Turns the machine's findings into sentences, with one method per kind."""

    def __init__(
        self,
        entry: Entry,
        program: Program,
        memory: Memory,
        grid: tuple[int, int, int],
        block: tuple[int, int, int],
        max_steps: int,
        shared_bytes: int,
    ) -> None:
        self.entry, self.program, self.memory = entry, program, memory
        self.grid, self.block, self.lines = grid, block, entry.module.source.splitlines()
        self.max_steps, self.shared_bytes = max_steps, shared_bytes

    def hazard(self, row: Row) -> Hazard:
        """The hazard of a row."""
        line = self.program.lines[row["line"]]
        kind = HAZARD_KINDS[row["kind"]]
        caller, header = row["caller"], self.program.headers[row["header"]]
        return Hazard(
            kind,
            line,
            getattr(self, f"_{kind.replace(' ', '_').replace('-', '_')}")(row),
            row["count"],
            self._text(line),
            caller,
            self._text(caller),
            self._repair(kind, row),
            bool(row["near_line"]),
            header,
            self.entry.module.header_line(header) if header else "",
        )

    def _repair(self, kind: str, row: Row) -> str:
        if kind == "uninitialised" and row["buffer"] >= 0:
            name = self.memory.names[row["buffer"]]
            return (
                f'Set it before the launch, kernel.variables["{name}"] = ..., as cudaMemcpyToSymbol does; '
                f"tilewise trace takes --arg {name}=..."
            )
        if kind == "steps" and self.program.waits:
            return (
                "Check the loop's condition, or allow more steps with max_steps. A block may wait for a "
                "later one only in a cooperative launch, with grid.sync()."
            )
        text = self._text(self.program.lines[row["line"]])
        if kind == "undelivered" and row["size"] and text.find("wgmma") >= 0:
            return (
                "Wait for the mbarrier's phase of the right parity, in which the bytes of all copies are "
                "announced. If these bytes belong to another tile, correct the descriptor."
            )
        if kind == "out of bounds" and row["buffer"] == -2 and self._is_dynamic(row["address"]):
            return "Guard the access, or launch with more dynamic shared memory: shared_bytes=."
        if kind == "misaligned" and row["size"] >= 128:
            return "Align the buffer to 128 bytes; for a 128-byte swizzle to 1024: __align__(1024)."
        if kind == "mbarrier" and row["buffer"] == 2:
            return (
                "Compare the arrivals of a phase with the number that init set, and wait for a phase to end "
                "before you arrive for the next one."
            )
        if kind == "deadlock" and row["buffer"] == 2:
            return (
                "Let all four warps of the warpgroup execute it together. The number of a warpgroup's first "
                "warp is a multiple of 4."
            )
        if kind == "deadlock" and row["buffer"] == 3:
            return "Ask for fewer registers, and give some back in another warpgroup: setmaxnreg.dec."
        if kind == "tensor map" and row["buffer"] == 5:
            return (
                "Name the same swizzle in tensor_map(..., swizzle=) and in the descriptor's bits 62 and 63."
            )
        if kind == "shuffle" and row["index"] == -2 and not row["agent"]:
            return "Take it out of the branch, so that all lanes of the warp execute it."
        if kind == "race" and row["buffer"] < 0 and row["other_lane"]:
            return "Put __syncwarp between the two accesses."
        if kind == "race" and row["buffer"] >= 0 and row["other_block"] != row["block"]:
            return "Use an atomic, or two launches."
        if kind == "race" and row["buffer"] >= 0 and row["other_warp"] < 0:
            return "Let one of the threads write, or use an atomic."
        return repair_of(kind)

    def _text(self, line: int) -> str:
        return self.lines[line - 1] if 0 < line <= len(self.lines) else ""

    def _who(self, row: Row) -> str:
        return f"{self._thread(row['thread'])} of {self._block(row['block'])}"

    def _thread(self, number: int) -> str:
        x, y, _ = self.block
        place = (number % x, number // x % y, number // (x * y))
        return f"thread {_place(place, self.block)}"

    def _block(self, number: int) -> str:
        x, y, _ = self.grid
        return f"block {_place((number % x, number // x % y, number // (x * y)), self.grid)}"

    def _what(self, row: Row) -> str:
        number, size = row["buffer"], row["size"]
        if number >= 0 and number < len(self.memory.shown):
            dtype = self.memory.shown[number]
            step = dtype.itemsize if dtype is not None else size
            return f"{self.memory.names[number]}[{(row['index'] - self.memory.before(number)) // step}]"
        if number == -2:
            return self._shared(row["address"], size)
        if number == -3:
            return f"{size} bytes at byte {_signed(row['address'])} of its local arrays"
        return f"address {row['address']:#x}"

    def _at(self, row: Row) -> str:
        """Line and text of the other access; without inline assembly, which is long and says little."""
        line = self.program.lines[row["other_line"]]
        text = self._text(line).strip()
        quoted = f" (`{text}`)" if text and not text.startswith("asm") else ""
        return f"at line {line}{quoted}" if line else "at a line that the compiler does not name"

    def _other(self, row: Row) -> str:
        """The agent of the other access, with its block if that differs."""
        block = row["other_block"]
        where = f" of {self._block(block)}" if block >= 0 and block != row["block"] else ""
        sort, warp = row["agent"], row["other_warp"]
        if sort == BY_BULK:
            return f"a bulk copy that warp {warp}{where} began"
        if sort == BY_GROUP:
            return f"a wgmma of warps {warp} to {warp + 3}{where}"
        if sort == BY_OBJECT:
            return f"an asynchronous copy{where}"
        return f"warp {warp}{where}"

    def _verb(self, row: Row) -> str:
        return "writes" if row["write"] else "reads"

    def _out_of_bounds(self, row: Row) -> str:
        number = row["buffer"]
        shown = self.memory.shown[number] if number >= 0 else None
        what = self._what(row)
        if shown is not None:
            count = self.memory.elements(number)
            first = -(self.memory.before(number) // shown.itemsize)
            begin = (row["index"] - self.memory.before(number)) // shown.itemsize
            if first <= begin < first + count:  # it begins in the array and ends outside
                what = f"{row['size']} bytes from {what} on"
            extent = f"; {self.memory.names[number]} has {count} element{'s' if count != 1 else ''}"
            if first:
                extent += f", from {first} to {first + count - 1}"
        elif number == -2:
            extent = self._extent(row["address"], row["size"])
        elif number == -3:
            extent = f", which have {self.program.local_bytes} bytes from 0 on"
        else:
            extent = f", which belongs to no array{self._inner_pointers()}"
        return f"{self._who(row)} {self._verb(row)} {what}{extent}"

    def _inner_pointers(self) -> str:
        """A hint that an argument may contain pointers, which the simulator cannot follow."""
        if not self.memory.pointers:
            return ""
        return (
            f": if {' or '.join(self.memory.pointers)} holds pointers, the simulator does not know where "
            "they lead, so pass each array as a parameter of its own"
        )

    def _misaligned(self, row: Row) -> str:
        size, number = row["size"], row["buffer"]
        begins, name = self.memory.begins(number), self.memory.names[number] if number >= 0 else ""
        part = f": {name} was passed as a part of an array, {begins} bytes past a multiple of 16"
        if size > 128:
            return (
                f"{self._who(row)} gives a wgmma an operand with a {size // 8}-byte swizzle that begins at "
                f"byte {row['address']} of shared memory, no multiple of {size}: the swizzle's pattern "
                "begins only there"
            )
        text = f"{self._who(row)} {self._verb(row)} {size} bytes at an address that is no multiple of {size}"
        return f"{text}{part if begins else ''}"

    def _null(self, row: Row) -> str:
        missing = self.memory.missing
        what = f", and {' and '.join(missing)} was passed as None" if missing else self._inner_pointers()
        return f"{self._who(row)} {self._verb(row)} byte {row['index']} from a null pointer{what}"

    def _barrier(self, row: Row) -> str:
        if row["size"] == -2:
            return (
                f"{self._who(row)} waits here, but {self._thread(row['index'])} of the same warp skips "
                "this barrier and runs on: what happens then is undefined"
            )
        if row["size"] < 0:
            line = self.program.lines[row["other_line"]]
            return (
                f"{self._who(row)} waits here and {self._thread(row['index'])} of the same warp at line "
                f"{line}: the lanes of a warp must come to one barrier together"
            )
        block, wanted = self._block(row["block"]), row["address"]
        if row["index"] < 0:
            return (
                f"this barrier is for {wanted} threads, and only {row['size']} of {block} arrive; "
                "warps that have exited don't count at a barrier with a thread count"
            )
        exited = self.block[0] * self.block[1] * self.block[2] - wanted
        left = f" ({exited} have exited)" if exited else ""
        return (
            f"{row['size']} of the {wanted} threads of {block} wait here{left}, and "
            f"{self._thread(row['index'])} never comes"
        )

    def note(self, row: Row) -> str:
        """A sentence about a barrier that completed without exited threads."""
        line = self.program.lines[row["line"]]
        repeats = row["count"] - 1
        more = f", and likewise {repeats:,} more time{'s' if repeats != 1 else ''}" if repeats else ""
        threads = f"{row['size']} thread{'s' if row['size'] != 1 else ''}"
        return (
            f"The barrier at line {line} completed without {threads} of {self._block(row['block'])} "
            f"that had exited, the first of them {self._thread(row['thread'])}{more}. GPUs from compute "
            "capability 7.0 (Volta) on don't wait for exited threads; on older GPUs, don't rely on it."
        )

    def _shuffle(self, row: Row) -> str:
        if row["agent"]:
            why = _ABSENT[row["write"]]
            return f"{self._who(row)} takes a value from lane {row['index']}, which {why}{self._use(row)}"
        if row["index"] == -2:
            return (
                f"{self._who(row)} is one of {row['size']} lanes that come here, and the instruction is "
                "for all 32 of a warp"
            )
        mask = f"the mask {row['address']:#010x}"
        if row["index"] < 0:
            return f"{self._who(row)}, lane {row['lane']}, is not named in {mask}"
        return f"{self._who(row)} names lane {row['index']} in {mask}, and that lane does not come here"

    def _race(self, row: Row) -> str:
        if row["buffer"] >= 0:
            return self._global_race(row)
        if row["other_lane"]:
            return self._lanes_race(row)
        return (
            f"{self._who(row)} {self._verb(row)} {self._shared(row['address'], row['size'])}, "
            f"which {self._other(row)} touched {self._at(row)} with no barrier in between"
        )

    def _lanes_race(self, row: Row) -> str:
        thread = 32 * row["other_warp"] + row["other_lane"] - 1
        return (
            f"{self._who(row)} {self._verb(row)} {self._shared(row['address'], row['size'])}, "
            f"which {self._thread(thread)} of its warp touched {self._at(row)} with no __syncwarp in between"
        )

    def _global_race(self, row: Row) -> str:
        begin = f"{self._who(row)} {self._verb(row)} {self._what(row)}"
        block, warp = row["other_block"], row["other_warp"]
        if block == row["block"] and warp < 0:
            return f"{begin}, and another thread of its warp writes another value there at the same time"
        if block == row["block"]:
            return f"{begin}, which warp {warp} touched {self._at(row)} with no barrier in between"
        who = "other blocks" if block < 0 else self._block(block)
        return (
            f"{begin}, which {who} touched {self._at(row)}; "
            "within a launch nothing orders the two blocks here"
        )

    def _nearest(self, address: int) -> tuple[str, int, int] | None:
        """The shared variable nearest to an address: name, start and size."""
        variables = [
            (name, start, length or self.shared_bytes)
            for name, start, length in self.program.shared_variables
        ]
        signed = _signed(address)
        return min(variables, key=lambda it: max(it[1] - signed, signed - it[1] - it[2] + 1, 0), default=None)

    def _is_dynamic(self, address: int) -> bool:
        """Whether the launch sets the size of the shared variable nearest to an address."""
        nearest = self._nearest(address)
        if nearest is None:
            return False
        at_start = [variable for variable in self.program.shared_variables if variable[1] == nearest[1]]
        return len([variable for variable in at_start if not variable[2]]) > 0

    def _shared(self, address: int, size: int) -> str:
        """The element at an address, or the byte if the access is larger than an element."""
        nearest = self._nearest(address)
        if nearest is None:
            return f"byte {address} of shared memory"
        offset = _signed(address) - nearest[1]
        if size > 8:
            return f"byte {offset} of {short_name(nearest[0])}"
        return f"{short_name(nearest[0])}[{offset // size}]"

    def _extent(self, address: int, size: int) -> str:
        nearest = self._nearest(address)
        if nearest is None:
            return "; the block has none"
        if size > 8:
            return f", which has {nearest[2]} bytes"
        count = nearest[2] // size
        return f"; {short_name(nearest[0])} has {count} element{'s' if count != 1 else ''} of that size"

    def _uninitialised(self, row: Row) -> str:
        if row["buffer"] >= 0:
            variable = self.program.module_variables[row["buffer"] - len(self.memory.arrays)]
            sort = "__constant__" if variable.space == "const" else "__device__"
            name = shown_name(variable.name)
            return f"{self._who(row)} reads {name}, a {sort} variable that nobody has given a value"
        word = self._shared(row["address"], row["size"])
        return f"{self._who(row)} reads {word}, which nobody wrote{self._use(row)}"

    def _use(self, row: Row) -> str:
        """Where an uninitialised value was used."""
        where = _USES[row["agent"]]
        if not where:
            return ""
        line = self.program.lines[row["other_line"]]
        thread = 32 * row["other_warp"] + row["other_lane"] - 1
        who = "" if thread == row["thread"] else f" of {self._thread(thread)}"
        text = self._text(line).strip()
        quoted = f" (`{text}`)" if text else ""
        place = "here" if line == self.program.lines[row["line"]] else f"at line {line}{quoted}"
        return f"; the value reaches {where}{who} {place}"

    def _undelivered(self, row: Row) -> str:
        line = self.program.lines[row["other_line"]]
        if not row["size"]:
            block = self._block(row["other_block"])
            return f"{self._who(row)} began a copy to {block} here, which ends without waiting for it"
        word = self._shared(row["address"], row["size"])
        began = f" that warp {row['other_warp']} began" if row["other_warp"] >= 0 else ""
        return (
            f"{self._who(row)} {self._verb(row)} {word}, where an asynchronous copy{began} at line {line} "
            "has not been waited for"
        )

    def _steps(self, row: Row) -> str:
        block = self._block(row["block"])
        text = f"{block} is still running after {self.max_steps:,} warp instructions of the launch"
        last = self.grid[0] * self.grid[1] * self.grid[2] - 1
        if row["block"] == last or not self.program.waits:
            return text
        return f"{text}, and the blocks after it have not begun: here they run one after another"

    def _assert(self, row: Row) -> str:
        condition = self.memory.text_at(row["address"])
        return f"`{condition}` does not hold for {self._who(row)}"

    def _trap(self, row: Row) -> str:
        return f"{self._who(row)} reached a trap"

    def _read_only(self, row: Row) -> str:
        return f"{self._who(row)} writes {self._what(row)}, which is read-only"


def _signed(address: int) -> int:
    return address - (1 << 64) if address >= 1 << 63 else address


def _place(place: tuple[int, int, int], dims: tuple[int, int, int]) -> str:
    last = max((axis for axis in range(3) if dims[axis] != 1), default=0)
    return str(place[0]) if last == 0 else f"({', '.join(map(str, place[: last + 1]))})"
