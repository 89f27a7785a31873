"""Index arithmetic against loops, and the script's arithmetic against ours."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tilewise.figures import dims
from tilewise.frontend import find_node

WEB = Path(__file__).parent.parent.parent / "src" / "tilewise" / "web" / "figures"
LAUNCHES = [
    ((3, 1, 1), (64, 1, 1)),
    ((3, 2, 1), (4, 4, 1)),
    ((2, 3, 2), (5, 3, 2)),
    ((1, 1, 1), (33, 2, 1)),
    ((2, 1, 3), (1, 7, 5)),
]


@pytest.mark.parametrize(("grid", "block"), LAUNCHES)
def test_threads_come_in_the_order_of_six_loops(grid: dims.Dims, block: dims.Dims) -> None:
    rows = []
    for bz in range(grid[2]):
        for by in range(grid[1]):
            for bx in range(grid[0]):
                inside = 0
                for tz in range(block[2]):
                    for ty in range(block[1]):
                        for tx in range(block[0]):
                            place = (bx * block[0] + tx, by * block[1] + ty, bz * block[2] + tz)
                            rows.append(((bx, by, bz), (tx, ty, tz), place, inside // 32, inside % 32))
                            inside += 1
    every = dims.threads(grid, block)
    columns = (every.block, every.thread, every.position, every.warp, every.lane)
    for at, column in enumerate(columns):
        np.testing.assert_array_equal(column, [row[at] for row in rows])


@pytest.mark.parametrize("value", [0, (2, 0), (1, 2, 3, 4), (), 2.5, (1, "2")])
def test_what_is_no_size_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="grid is a whole number or up to three of them"):
        dims.dims(value, "grid")  # type: ignore[arg-type]


@pytest.mark.parametrize(("grid", "block"), LAUNCHES)
def test_the_script_counts_as_we_do(grid: dims.Dims, block: dims.Dims) -> None:
    extent = [max(1, g * b - 2) for g, b in zip(grid, block, strict=True)]
    program = f"""
        import {{ threadAt, threadOf, total, works, working }} from "{(WEB / "launch.js").as_uri()}";
        const [grid, block, extent] = {json.dumps([grid, block, extent])};
        const all = Array.from({{ length: total(grid) * total(block) }}, (_, k) => threadAt(k, grid, block));
        console.log(JSON.stringify({{
            block: all.map((who) => who.block),
            thread: all.map((who) => who.thread),
            position: all.map((who) => who.position),
            linear_block: all.map((who) => who.linearBlock),
            linear_thread: all.map((who) => who.linearThread),
            warp: all.map((who) => who.warp),
            lane: all.map((who) => who.lane),
            back: all.map((who) => threadOf(who.position, grid, block)),
            works: all.map((who) => works(who.position, extent)),
            working: working(grid, block, extent),
        }}));
    """
    command = [find_node().node, "--input-type=module", "--eval", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    ours = dims.threads(grid, block)
    inside = dims.works(ours.position, (extent[0], extent[1], extent[2]))
    for name in ("block", "thread", "position", "linear_block", "linear_thread", "warp", "lane"):
        np.testing.assert_array_equal(said[name], getattr(ours, name))
    assert said["back"] == list(range(len(ours.warp)))
    assert said["works"] == inside.tolist()
    assert said["working"] == int(inside.sum())
