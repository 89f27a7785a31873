"""Faults of mbarriers, copies, clusters and wgmma, as sentences.

In: a row of the machine's table of hazards. Out: the sentence. The machine decides what is a hazard;
``findings`` has the code for all findings.
"""

from __future__ import annotations

from tilewise.simulator.engine.memory import short_name
from tilewise.simulator.results.findings import BY_OBJECT, Findings, Row


class Describer(Findings):
    """Sentences for all hazards, including those of ``engine/agents.h`` and the headers that use it."""

    def _object(self, address: int) -> str:
        """An mbarrier, named by its variable: ``full[1]``."""
        for name, start, length in self.program.shared_variables:
            if start <= address < start + max(length, 8):
                number = (address - start) // 8
                return short_name(name) + (f"[{number}]" if length > 8 or number else "")
        return self._shared(address, 8)

    def _mbarrier(self, row: Row) -> str:
        name = self._object(row["address"])
        index = row["index"]
        if row["buffer"] < 0:
            word = self._shared(row["address"], row["size"])
            return (
                f"{self._who(row)} {self._verb(row)} {word}, which is part of the mbarrier that was "
                f"initialised {self._at(row)}"
            )
        what = {
            0: f"uses {name} as an mbarrier, and it has not been initialised",
            1: f"initialises {name}, which is an mbarrier in use since line {self._line_of(row)}",
            2: f"arrives too often at {name}, which expects {index or 'no'} more arrivals in this phase",
            3: f"initialises {name} for {index} arrivals; 1 to 1048575 are possible",
            4: f"leaves {name} waiting for {index} bytes; less than 1048576 are possible either way",
            5: f"uses {name}, and no barrier since {self._at(row)[3:]} tells it that it is initialised",
        }[row["buffer"]]
        if row["buffer"] == 0 and index:
            what = f"copies to one block and names {name} in another: the mbarrier lies beside the bytes"
        if row["buffer"] == 3 and index < 0:
            what = f"initialises {name}, one more mbarrier than the 64 of a block that the simulator follows"
        return f"{self._who(row)} {what}"

    def _line_of(self, row: Row) -> int:
        return self.program.lines[row["other_line"]]

    def _deadlock(self, row: Row) -> str:
        what = row["buffer"]
        if what == 0:
            missing = []
            if row["other_warp"]:
                missing.append(f"{row['other_warp']} more arrivals")
            if row["index"] > 0:
                missing.append(f"{row['index']} more bytes")
            states = [f"lacks {' and '.join(missing)}"] if missing else []
            if row["index"] < 0:
                states.append(f"has received {-row['index']} more bytes than were announced")
            return (
                f"{self._who(row)} waits at {self._object(row['address'])}, set up {self._at(row)}, "
                f"whose phase {row['other_block']} {' and '.join(states) or 'lacks nothing'}, "
                "and no thread can go on"
            )
        if what == 1:
            missing_thread = f"{self._thread(row['index'])} of {self._block(row['other_block'])}"
            return f"{self._who(row)} waits for its cluster, and {missing_thread} never arrives"
        if what == 2:
            first = row["other_warp"] // 4 * 4
            return (
                f"{self._who(row)} waits for its warpgroup, warps {first} to {first + 3}, and warp "
                f"{row['other_warp']} never comes to this instruction with all its lanes"
            )
        return (
            f"{self._who(row)} asks for registers that bring the block to {row['index']}; "
            "a multiprocessor has 65536"
        )

    def _overwritten(self, row: Row) -> str:
        if not row["size"]:
            return (
                f"{self._who(row)} began a bulk copy out of shared memory here, and its block ends without "
                "waiting for it"
            )
        word = self._shared(row["address"], row["size"])
        return f"{self._who(row)} writes {word}, which {self._other(row)} {self._at(row)} may still read"

    def _proxy(self, row: Row) -> str:
        if row["agent"] == BY_OBJECT:
            return (
                f"{self._who(row)} starts a copy that reports to {self._object(row['address'])}, "
                f"which warp {row['other_warp']} initialised {self._at(row)}, "
                "with no fence.mbarrier_init since"
            )
        word = self._shared(row["address"], row["size"])
        return (
            f"{self._who(row)} has {word} read asynchronously, which warp {row['other_warp']} wrote "
            f"{self._at(row)} with no fence.proxy.async since"
        )

    def _accumulator(self, row: Row) -> str:
        if row["buffer"] == 2:
            return f"{self._who(row)} gives a wgmma registers with no wgmma.fence since they were used"
        verb = "reads" if row["buffer"] == 0 else "writes"
        return (
            f"{self._who(row)} {verb} a register that belongs to the wgmma {self._at(row)}, "
            "which has not been waited for"
        )

    def _cluster(self, row: Row) -> str:
        why, block = row["index"], row["other_block"]
        if why == 4:
            return f"{self._who(row)} arrives at its cluster's barrier twice without waiting in between"
        if why == 5:
            return f"{self._who(row)} waits at its cluster's barrier without having arrived"
        if why == 3:
            return (
                f"{self._who(row)} touches shared memory of {self._block(block)}, which may be gone by then"
            )
        if why == 2:
            return f"{self._who(row)} names block {block} of its cluster, which has no such block"
        begun = "has ended" if why else "need not have begun"
        return f"{self._who(row)} {self._verb(row)} shared memory of {self._block(block)}, which {begun}"

    def _tensor_map(self, row: Row) -> str:
        why = row["buffer"]
        if why == 1:
            return f"{self._who(row)} uses a tensor map that is no parameter declared const __grid_constant__"
        if why == 2:
            return f"{self._who(row)} gives {row['size']} coordinates for a tensor map of {row['index']} axes"
        if why == 3:
            size = row["size"]
            return (
                f"{self._who(row)} gives {row['index']} as the first coordinate of elements of "
                f"{size} bytes: the TMA takes only multiples of {16 // size}, or 16 bytes"
            )
        if why == 4:
            return (
                f"{self._who(row)} stores a box at the coordinate {row['index']}: "
                "loads may begin before an array, stores may not"
            )
        if why == 5:
            stored, wanted = self._swizzle(row["index"]), self._swizzle(row["size"])
            return (
                f"{self._who(row)} has a wgmma read {self._shared(row['address'], 16)} with {wanted}, "
                f"and the TMA load {self._at(row)} stored it with {stored}"
            )
        return f"{self._who(row)} uses as a tensor map what is none"

    def _swizzle(self, bits: int) -> str:
        return f"a {bits + 16}-byte swizzle" if bits else "no swizzle"
