"""The explorers' specifications and texts: block grid, ribbon, memory map, loop nest, timeline."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewise.figures import Loop, Span, Stage, block_grid, loop_nest, memory_map, ribbon, timeline
from tilewise.figures.block_grids import launch_text
from tilewise.figures.dims import Dims, threads, works

WORDS = {"title": "A statement", "caption": "What it shows."}


def test_the_block_grid_of_a_small_launch() -> None:
    figure = block_grid((2, 1), (2, 2), extent=(3, 2), axes=("col", "row"), **WORDS)
    assert figure.to_dict() == {
        "kind": "block_grid",
        "title": "A statement",
        "caption": "What it shows.",
        "alt": "A grid of 2 blocks, each of 2 by 2 threads: 2 blocks, 8 threads, 1 warp in each block. "
        "The problem has 3 by 2 cells: 6 threads work, 2 are idle.",
        "height": 452,
        "narrow_height": 748,
        "spec": {
            "grid": [2, 1, 1],
            "block": [2, 2, 1],
            "extent": [3, 2, 1],
            "axes": ["col", "row", "z"],
            "colour_by": "block",
            "view": "2d",
            "most": {"grid": [8, 4, 3], "block": [16, 8, 4]},
            "max_threads": 4096,
        },
        "steps": [
            "Block (0, 0): col 0 to 1, row 0 to 1; 0 of 4 threads idle.",
            "Block (1, 0): col 2 to 3, row 0 to 1; 2 of 4 threads idle.",
        ],
    }


@pytest.mark.parametrize("seed", range(8))
def test_idle_threads_are_counted_as_brute_force_counts_them(seed: int) -> None:
    random = np.random.default_rng(seed)
    grid, block, extent = (tuple(int(n) for n in random.integers(1, 5, 3)) for _ in range(3))
    every = threads(_three(grid), _three(block))
    idle = int((~works(every.position, _three(extent))).sum())
    assert f"{len(every.warp) - idle:,} threads work, {idle:,} are idle." in launch_text(
        _three(grid), _three(block), _three(extent)
    )


def _three(size: tuple[int, ...]) -> Dims:
    return size[0], size[1], size[2]


def test_a_launch_brings_its_sizes_source_and_shapes(addition: Any) -> None:
    launch = SimpleNamespace(
        grid=(1, 1, 1),
        block=(64, 1, 1),
        kernel=SimpleNamespace(source="one\ntwo\nfloat s = a[i] + b[i];\nc[i] = s;"),
        case=SimpleNamespace(values={"a": np.zeros(40), "n": 40}),
    )
    figure = block_grid(launch, run=addition, extent=40, arrays=["a", "c"], **WORDS)
    assert figure.spec["run"]["arrays"] == [
        {"name": "a", "shape": [40], "space": "global"},
        {"name": "c", "shape": [40], "space": "global"},
    ]
    assert [step["source"] for step in figure.spec["run"]["steps"]] == [
        "float s = a[i] + b[i];",
        "c[i] = s;",
    ] * 2
    assert figure.steps[0] == "Step 1, line 3: threads 0 to 31 read a[0 to 31]."


def test_a_block_of_too_many_threads_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 1024 threads"):
        block_grid(1, (64, 32), **WORDS)


def test_sliders_reach_at_least_what_the_figure_starts_with() -> None:
    figure = block_grid((20, 1), (8, 8), most={"grid": (4, 4, 4)}, **WORDS)
    assert figure.spec["most"] == {"grid": [20, 4, 4], "block": [16, 8, 4]}


def test_a_large_grid_says_its_first_blocks() -> None:
    figure = block_grid(1000, 32, **WORDS)
    assert figure.steps[63:] == ("Block (63): x 2016 to 2047.", "936 more blocks follow in the same order.")


def test_the_ribbon_counts_blocks_and_idle_threads() -> None:
    figure = ribbon(20_000, 256, blocks=(128, 512), **WORDS)
    assert figure.spec == {"n": 20_000, "block": 256, "blocks": [128, 256, 512], "most": 40_000, "array": "c"}
    assert figure.steps == (
        "Blocks of 128 threads: 157 blocks, 20,096 threads, 96 idle.",
        "Blocks of 256 threads: 79 blocks, 20,224 threads, 224 idle.",
        "Blocks of 512 threads: 40 blocks, 20,480 threads, 480 idle.",
    )


@pytest.mark.parametrize(("n", "block"), [(0, 32), (5, 0), (5, 2048)])
def test_a_ribbon_of_no_launch_is_refused(n: int, block: int) -> None:
    with pytest.raises(ValueError, match="a ribbon takes n from 1 on"):
        ribbon(n, block, **WORDS)


def test_a_memory_map_marks_sectors_by_the_size_of_an_element(addition: Any) -> None:
    figure = memory_map(addition, 1, 64, sectors=True, item_bytes=2, arrays=["c"], **WORDS)
    assert figure.spec["sector_elements"] == 16
    assert figure.alt == "The arrays c (40) over 2 steps of the run; each step is a line below."
    assert figure.steps[1] == "Step 2, line 4: threads 32 to 39 write c[32 to 39]."


LOOPS = [Loop("i", 6), Loop("j", 5), Loop("k", 4, reduction=True)]


def test_a_loop_nest_says_threads_and_passes_of_each_stage() -> None:
    stages = [Stage("All serial."), Stage("j folds.", {"j": "x"}), Stage("i folds.", {"j": "x", "i": "y"})]
    figure = loop_nest(LOOPS, stages, body="s += a", **WORDS)
    assert figure.steps == (
        "Stage 1: All serial. 1 thread, each with 120 passes over i, j, k.",
        "Stage 2: j folds. 5 threads, each with 24 passes over i, k.",
        "Stage 3: i folds. 30 threads, each with 4 passes over k.",
    )
    assert figure.spec["stages"][2] == {"text": "i folds.", "axes": {"j": "x", "i": "y"}}


@pytest.mark.parametrize(
    ("stage", "why"),
    [
        (Stage("s", {"k": "x"}), "loop 'k' is a reduction"),
        (Stage("s", {"m": "x"}), "folds 'm' into 'x'"),
        (Stage("s", {"i": "w"}), "folds 'i' into 'w'"),
        (Stage("s", {"i": "x", "j": "x"}), "folds two loops into one axis"),
    ],
)
def test_a_loop_that_cannot_fold_is_refused(stage: Stage, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        loop_nest(LOOPS, [stage], body="s", **WORDS)


def test_a_nest_too_long_to_draw_is_refused() -> None:
    with pytest.raises(ValueError, match="1 to 12 passes"):
        loop_nest([Loop("i", 13), Loop("j", 2)], [Stage("s")], body="s", **WORDS)


def test_a_timeline_orders_its_text_by_start() -> None:
    figure = timeline(
        [("device", 1.5, 3.0, "kernel", "measured"), Span("host", 0, 1, "launch")], unit="µs", **WORDS
    )
    assert figure.steps == (
        "host: launch, from 0 to 1 µs (1 µs).",
        "device: kernel, from 1.5 to 3 µs (1.5 µs).",
    )
    assert figure.spec["rows"] == ["device", "host"]
    assert figure.spec["moments"] == [0, 1, 1.5, 3]


def test_a_schematic_timeline_names_no_times() -> None:
    figure = timeline([("host", 0, 1, "launch")], unit="µs", schematic=True, **WORDS)
    assert figure.steps == ("host: launch.",)


def test_a_span_that_ends_before_it_starts_is_refused() -> None:
    with pytest.raises(ValueError, match="'launch' ends at 1, before it starts at 2"):
        timeline([("host", 2, 1, "launch")], unit="µs", **WORDS)


def test_a_simulated_run_is_drawn_from_its_own_accesses() -> None:
    from tilewise import Kernel, Trace, case, normal, output

    kernel = Kernel(
        r"""
extern "C" __global__ void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= M || col >= N) return;
    float s = 0.0f;
    for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
    C[row * N + col] = s;
}
"""
    )
    product = case(A=normal(3, 4), B=normal(4, 5), C=output(3, 5), M=3, N=5, K=4, grid=(3, 2), block=(2, 2))
    launch = kernel.on(product)
    run = launch.simulate(trace=Trace())
    figure = block_grid(launch, run=run, extent=(5, 3), axes=("col", "row"), **WORDS)
    assert [(array["name"], array["shape"]) for array in figure.spec["run"]["arrays"]] == [
        ("A", [3, 4]),
        ("B", [4, 5]),
        ("C", [3, 5]),
    ]
    touched = {(0, "read"): set(), (1, "read"): set(), (2, "write"): set()}
    for step in figure.spec["run"]["steps"]:
        for touch in step["touches"]:
            for thread, element in zip(touch["t"], touch["i"], strict=True):
                touched[touch["a"], touch["k"]].add((thread, element))
    every = threads((3, 2, 1), (2, 2, 1))
    cells = [(k, int(y), int(x)) for k, (x, y, _) in enumerate(every.position) if x < 5 and y < 3]
    assert touched == {
        (0, "read"): {(k, y * 4 + i) for k, y, _ in cells for i in range(4)},
        (1, "read"): {(k, i * 5 + x) for k, _, x in cells for i in range(4)},
        (2, "write"): {(k, y * 5 + x) for k, y, x in cells},
    }
    assert figure.spec["run"]["steps"][-1]["source"] == "C[row * N + col] = s;"
