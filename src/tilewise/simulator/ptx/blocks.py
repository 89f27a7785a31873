"""The order of a function's basic blocks: blocks that lanes reach first come first.

In: a parsed function with clang's block layout. Out: the same function, with the code that follows a loop
placed after it. The machine runs the lanes with the lowest instruction first, so only then do lanes that
leave a loop early wait for the others there, as on a GPU.
"""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tilewise.simulator.ptx.ptx import Function, Instruction

_ENDS = {"ret", "exit"}


@dataclass(frozen=True)
class _Block:
    """A basic block."""

    first: int
    """Index of the first instruction."""
    end: int
    """Index after the last instruction."""
    next: int | None
    """The block that it falls through to."""
    jumps: tuple[int, ...]
    """The blocks that it may jump to."""

    @property
    def after(self) -> tuple[int, ...]:
        """Every block that may run next."""
        return self.jumps if self.next is None else (self.next, *self.jumps)


def in_order(function: Function) -> Function:
    """Return the function with its blocks ordered so that only a loop's own jumps go backwards.

    A function in such an order is returned unchanged. When blocks move, a jump is added where a block no
    longer falls through to its successor, and dropped where it leads to the next block.
    """
    if not any(inst.opcode[0] in ("bra", "brx") for inst in function.instructions):
        return function
    blocks = _blocks(function)
    edges = {number: block.after for number, block in enumerate(blocks)}
    order = _ordered(range(len(blocks)), edges, 0)
    if order == sorted(order):
        return function
    return _laid_out(function, blocks, order)


def _blocks(function: Function) -> list[_Block]:
    code, labels = function.instructions, function.labels
    jumps = {at: _targets(function, inst) for at, inst in enumerate(code) if inst.opcode[0] in ("bra", "brx")}
    starts = {0, *(labels[name] for names in jumps.values() for name in names)}
    starts |= {at + 1 for at in jumps} | {at + 1 for at, inst in enumerate(code) if _leaves(inst)}
    firsts = sorted(start for start in starts if start < len(code))
    number = {first: at for at, first in enumerate(firsts)}
    blocks = []
    for at, (first, end) in enumerate(zip(firsts, [*firsts[1:], len(code)], strict=True)):
        last = code[end - 1]
        gone = _leaves(last) or (last.opcode[0] in ("bra", "brx") and not last.predicate)
        below = at + 1 if not gone and end < len(code) else None
        to = (labels[name] for name in jumps.get(end - 1, ()))
        blocks.append(_Block(first, end, below, tuple(number[place] for place in to if place in number)))
    return blocks


def _targets(function: Function, instruction: Instruction) -> tuple[str, ...]:
    if instruction.opcode[0] == "brx":
        return function.targets[instruction.operands[1]]
    return (instruction.operands[0],)


def _leaves(instruction: Instruction) -> bool:
    return instruction.opcode[0] in _ENDS and not instruction.predicate


def _ordered(numbers: Sequence[int], edges: Mapping[int, Sequence[int]], entry: int) -> list[int]:
    """Order blocks so that edges lead forwards and a loop's blocks are contiguous, its head first."""
    inside = set(numbers)
    parts = _loops(sorted(inside), {at: [to for to in edges[at] if to in inside] for at in inside})
    part_of = {at: number for number, part in enumerate(parts) for at in part}
    follows = {
        number: {part_of[to] for at in part for to in edges[at] if to in inside} - {number}
        for number, part in enumerate(parts)
    }
    waits = dict.fromkeys(follows, 0)
    for behind in follows.values():
        for number in behind:
            waits[number] += 1
    ready = [(min(parts[number]), number) for number, count in waits.items() if not count]
    heapq.heapify(ready)
    order: list[int] = []
    while ready:
        _, number = heapq.heappop(ready)
        part = parts[number]
        if len(part) == 1:
            order += part
        else:
            heads = {to for at in edges.keys() - set(part) for to in edges[at]} & set(part)
            head = entry if entry in part else min(heads or part)
            order += [head, *_ordered([at for at in part if at != head], edges, head)]
        for later in follows[number]:
            waits[later] -= 1
            if not waits[later]:
                heapq.heappush(ready, (min(parts[later]), later))
    return order


def _loops(numbers: Sequence[int], edges: Mapping[int, Sequence[int]]) -> list[list[int]]:
    """Strongly connected components: a block outside loops is its own group."""
    finished: list[int] = []
    seen: set[int] = set()
    for start in numbers:
        _walk(start, edges, seen, finished)
    back: dict[int, list[int]] = {at: [] for at in numbers}
    for at in numbers:
        for to in edges[at]:
            back[to].append(at)
    seen.clear()
    groups: list[list[int]] = []
    for start in reversed(finished):
        group: list[int] = []
        _walk(start, back, seen, group)
        if group:
            groups.append(group)
    return groups


def _walk(start: int, edges: Mapping[int, Sequence[int]], seen: set[int], finished: list[int]) -> None:
    """Depth-first search from a block, which appends blocks in postorder."""
    if start in seen:
        return
    seen.add(start)
    stack = [(start, iter(edges[start]))]
    while stack:
        at, rest = stack[-1]
        to = next((successor for successor in rest if successor not in seen), None)
        if to is None:
            finished.append(at)
            stack.pop()
        else:
            seen.add(to)
            stack.append((to, iter(edges[to])))


def _laid_out(function: Function, blocks: Sequence[_Block], order: Sequence[int]) -> Function:
    code = function.instructions
    names = {place: name for name, place in function.labels.items()}
    labels = dict(function.labels)
    laid: list[Instruction] = []
    moved: dict[int, int] = {}
    for place, number in enumerate(order):
        block = blocks[number]
        below = order[place + 1] if place + 1 < len(order) else None
        for at in range(block.first, block.end):
            moved[at] = len(laid)
            laid.append(code[at])
        last = code[block.end - 1]
        if last.opcode[0] == "bra" and not last.predicate and block.jumps and block.jumps[0] == below:
            laid.pop()
        elif block.next is not None and block.next != below:
            first = blocks[block.next].first
            name = names.get(first, f"$tilewise_{first}")
            labels.setdefault(name, first)
            laid.append(replace(last, opcode=("bra", "uni"), operands=(name,), predicate="", negated=False))
        elif block.next is None and not _leaves(last) and (last.predicate or not block.jumps):
            laid.append(replace(last, opcode=("ret",), operands=(), predicate="", negated=False))
    end = len(laid)
    return replace(
        function,
        instructions=tuple(laid),
        labels={name: moved.get(place, end) for name, place in labels.items()},
    )
