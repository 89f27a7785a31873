"""Sizes of a launch, and the script's index arithmetic against six loops."""

import json
import subprocess
from pathlib import Path

import pytest

from tilewise.figures import dims
from tilewise.site.frontend import find_node

WEB = Path(__file__).parent.parent.parent / "src" / "tilewise" / "site" / "web" / "figures"


@pytest.mark.parametrize("value", [0, (2, 0), (1, 2, 3, 4), (), 2.5, (1, "2")])
def test_what_is_no_size_is_refused(value):
    with pytest.raises(ValueError, match="grid is a whole number or up to three of them"):
        dims.dims(value, "grid")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("grid", "block"), [((3, 1, 1), (64, 1, 1)), ((2, 3, 2), (5, 3, 2)), ((2, 1, 3), (1, 7, 5))]
)
def test_the_script_counts_as_six_loops_do(grid, block):
    extent = [max(1, g * b - 2) for g, b in zip(grid, block, strict=True)]
    program = f"""
        import {{ threadAt, threadOf, total, works, working }} from "{(WEB / "launch.js").as_uri()}";
        const [grid, block, extent] = {json.dumps([grid, block, extent])};
        const all = Array.from({{ length: total(grid) * total(block) }}, (_, k) => threadAt(k, grid, block));
        console.log(JSON.stringify([
            all.map((who) => [who.block, who.thread, who.position, who.warp, who.lane]),
            all.map((who) => threadOf(who.position, grid, block)),
            all.map((who) => works(who.position, extent)),
            working(grid, block, extent),
        ]));
    """
    command = [find_node(), "--input-type=module", "--eval", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    who, back, works, working = json.loads(done.stdout)
    rows = [
        [[bx, by, bz], [tx, ty, tz], [bx * block[0] + tx, by * block[1] + ty, bz * block[2] + tz]]
        for bz in range(grid[2]) for by in range(grid[1]) for bx in range(grid[0])
        for tz in range(block[2]) for ty in range(block[1]) for tx in range(block[0])
    ]  # fmt: skip
    inside = [at % dims.total(block) for at in range(len(rows))]
    assert who == [[*row, at // 32, at % 32] for row, at in zip(rows, inside, strict=True)]
    assert back == list(range(len(rows)))
    assert works == [all(p < e for p, e in zip(row[2], extent, strict=True)) for row in rows]
    assert working == sum(works)
