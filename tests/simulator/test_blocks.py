"""The order of basic blocks: lanes that leave a loop wait behind it, wherever clang has put that code."""

import numpy as np
import pytest

from tilewise.simulator.ptx.blocks import in_order
from tilewise.simulator.ptx.ptx import Function, Instruction

from .kernels import on_threads, simulate


def _instruction(text: str) -> Instruction:
    guard, text = text.split(" ", 1) if text.startswith("@") else ("", text)
    opcode, _, operands = text.partition(" ")
    names = tuple(part.strip() for part in operands.split(",")) if operands else ()
    return Instruction(tuple(opcode.split(".")), names, guard[1:], False, 1, text)


def _function(*lines: str, targets: dict[str, tuple[str, ...]] | None = None) -> Function:
    code: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in lines:
        if line.endswith(":"):
            labels[line[:-1]] = len(code)
        else:
            code.append(_instruction(line))
    return Function("f", True, (), (), {}, (), tuple(code), labels, targets or {})


def _lines(function: Function) -> list[str]:
    found: list[str] = []
    for at, one in enumerate((*function.instructions, None)):
        found += [f"{name}:" for name, place in function.labels.items() if place == at]
        if one is not None:
            guard = f"@{one.predicate} " if one.predicate else ""
            found.append(f"{guard}{'.'.join(one.opcode)} {', '.join(one.operands)}".strip())
    return found


def test_code_behind_a_loop_moves_behind_it():
    function = _function(
        "start", "bra.uni loop", "done:", "store", "ret", "loop:", "turn", "@p bra loop", "bra.uni done"
    )
    assert _lines(in_order(function)) == ["start", "loop:", "turn", "@p bra loop", "done:", "store", "ret"]


def test_the_code_behind_an_inner_loop_stays_in_the_outer_one():
    function = _function(
        "outer:", "a", "bra.uni inner", "last:", "ret", "behind:", "b", "@p bra outer", "bra.uni last",
        "inner:", "c", "@q bra inner", "bra.uni behind",
    )  # fmt: skip
    assert _lines(in_order(function)) == [
        "outer:", "a", "inner:", "c", "@q bra inner", "behind:", "b", "@p bra outer", "last:", "ret",
    ]  # fmt: skip


def test_branch_tables_lead_to_where_their_blocks_went():
    function = _function(
        "brx.idx i, ways", "end:", "ret", "one:", "a", "bra.uni end", "two:", "b", "bra.uni end",
        targets={"ways": ("one", "two")},
    )  # fmt: skip
    assert _lines(in_order(function)) == [
        "brx.idx i, ways", "one:", "a", "bra.uni end", "two:", "b", "end:", "ret",
    ]  # fmt: skip


@pytest.mark.parametrize("store", ["y[i] = n;", "if (n & 1) y[i] = n; else y[i] = n;"])
def test_lanes_that_leave_a_loop_at_different_times_store_together(store):
    body = f"long long v = x[i]; int n = 0; while (v != 1) {{ v = v % 2 ? 3 * v + 1 : v / 2; ++n; }} {store}"
    x = np.arange(1, 65, dtype=np.int32)
    y = np.zeros(64, np.int32)
    run = simulate(on_threads(body, "const int* x, int* y"), x, y, grid=2, block=32)
    assert y[[0, 1, 6, 26]].tolist() == [0, 1, 16, 111]
    assert (run.counts.global_store.requests, run.counts.global_store.sectors) == (2, 8)
