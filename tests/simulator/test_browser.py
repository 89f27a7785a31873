"""What Python hands to the browser's side of the simulator; `tests/browser/test_replay.py` runs it there."""

import ast
import json

import numpy as np
import pytest

from tilewise import Kernel
from tilewise.simulator.browser import stepping
from tilewise.simulator.browser.layout import layout
from tilewise.simulator.browser.program import program_data
from tilewise.simulator.browser.translation import Translation
from tilewise.simulator.engine.shared import COUNTERS, INSTRUCTION
from tilewise.simulator.results import table

SWITCH = Kernel(r"""
__constant__ double weights[3] = {0.5, 2.0, 4.0};
extern "C" __global__ void choose(const int* x, double* y, long long far, int n) {
    int i = threadIdx.x;
    if (i >= n) return;
    switch (x[i]) {
        case 0: y[i] = weights[0]; break;
        case 1: y[i] = y[i + 1] * 3; break;
        case 2: y[i] = far; break;
        case 3: y[i] = weights[x[i + 1]]; break;
        case 4: y[i] = sqrt(y[i]); break;
        case 5: y[i] = -y[i]; break;
        default: y[i] = 0x123456789abcdefLL;
    }
}
""")


def test_a_program_travels_as_json_with_tables_by_number_and_wide_numbers_as_text():
    program = SWITCH.entry.program
    data = json.loads(json.dumps(program_data(SWITCH.entry)))
    assert len(data["code"]["op"]) == len(program.code)
    assert len(data["tables"]) == len(program.tables)
    for row, number in data["table_rows"]:
        assert program.tables[number].ctypes.data == program.code["imm"][row]
        assert data["code"]["imm"][row] == 0
    again = np.zeros(len(program.code), INSTRUCTION)
    for name, column in data["code"].items():
        if name == "d":
            for at, one in enumerate(column):
                again["d"][:, at] = one
        else:
            again[name] = [int(value) for value in column] if column else 0
    tabled = [row for row, _ in data["table_rows"]]
    again["imm"][tabled] = program.code["imm"][tabled]
    assert (again == program.code).all()
    assert [parameter[0] for parameter in data["parameters"]] == ["x", "y", "far", "n"]
    assert data["read_only"] == [True, False, False, False]


def test_structures_are_laid_out_for_pointers_of_32_bits():
    structures = layout()["structures"]
    fields = structures["Buffer"]["fields"]
    assert (fields["size"], fields["data"], fields["writable"]) == (
        [0, "u64", 1],
        [8, "u32", 1],
        [12, "i32", 1],
    )
    assert structures["Ins"]["size"] == INSTRUCTION.itemsize
    assert structures["Launch"]["fields"]["grid"][1:] == ["i32", 3]
    assert structures["Launch"]["size"] % 8 == 0


def test_every_column_names_the_counters_that_its_cell_takes():
    columns = {(one["group"], one["name"]): one for one in table.columns()}
    taken = columns["shared loads", "wavefronts"]
    assert [COUNTERS[at] for at in taken["takes"]] == ["sl_wavefronts", "sl_requests", "sl_useful"]
    assert COUNTERS[columns["instructions", "lanes"]["used"]] == "issued"


@pytest.mark.parametrize("code", ["while x: pass", "y = x @ 2", "return {**x}", "return f'{x!r}'", "x @= 1"])
def test_python_without_a_translation_stops_with_its_line(code):
    [function] = ast.parse(f"def f(x):\n    {code}").body
    with pytest.raises(NotImplementedError, match="line 2"):
        Translation(big=True).function(function)


def test_whole_numbers_are_of_one_kind_and_modules_take_names_from_each_other():
    [function] = ast.parse("def f(x):\n    x += 1\n    return x // 2").body
    assert "x += 1n; return floorDiv(x, 2n)" in Translation(big=True).function(function).replace("\n", " ")
    assert "x += 1; return floorDiv(x, 2)" in Translation(big=False).function(function).replace("\n", " ")
    made = stepping.script()
    assert "const { SECTOR_BYTES, Buffer, Moment, Rows, Touch, Watch } = MOMENTS;" in made
    assert "const Buffer = (name, shape, space) => ({ name, shape, space });" in made
