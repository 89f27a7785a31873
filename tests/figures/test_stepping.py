"""Stepped figures: a run's own trace and a model's states become moments, and no file is too large."""

import gzip
from functools import cache
from typing import Any

import numpy as np
import pytest

from tilewise import Kernel, Trace, bf16, case, normal, output
from tilewise.cuda.shared_arrays import shared_arrays
from tilewise.figures import State, stepped
from tilewise.figures.dims import total
from tilewise.figures.kinds.stepped import traced_of
from tilewise.figures.kinds.stepped.moment_texts import texts_of
from tilewise.figures.kinds.stepped.moments import Buffer, Moment, Touch, moments_of

WORDS = {"title": "A statement", "caption": "What it shows."}

TREE = r"""
extern "C" __global__
void tree(const float* x, float* out, int n) {
    __shared__ float s[64];
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // watch: i
    s[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int half = 32; half > 0; half /= 2) {
        if (threadIdx.x < half) s[threadIdx.x] += s[threadIdx.x + half];  // watch: half
        __syncthreads();
    }
    if (threadIdx.x == 0) out[blockIdx.x] = s[0];
}
"""

STRIDE = r"""
extern "C" __global__
void stride(const float* x, float* out, int by) {
    __shared__ float s[256];
    for (int i = threadIdx.x; i < 256; i += 32) s[i] = x[i];
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x * by];
}
"""


@cache
def tree(block: int = -1) -> tuple[Any, Any]:
    launch = Kernel(TREE).on(case(x=normal(100), out=output(2), n=100, grid=2, block=64))
    return launch, launch.simulate(trace=Trace() if block < 0 else Trace(blocks=[block], warps=[1]))


@cache
def strided(by: int) -> Any:
    launch = Kernel(STRIDE).on(case(x=normal(256), out=output(32), by=by, grid=1, block=32))
    return launch.simulate(trace=Trace())


def moments(run: Any, *names: str) -> list[Moment]:
    numbers = [run.buffers.index(name) for name in names]
    traced = traced_of(run)
    return moments_of(traced.rows, traced.watched, numbers, None, total(run.block), [])


def test_the_steps_of_a_tree_reduction_read_as_sentences():
    _, run = tree()
    texts = stepped(run, **WORDS).steps
    assert texts[:9] == (
        "Step 1, line 4: i = 0 to 127 in threads 0 to 127.",
        "Step 2, line 5: threads 0 to 99 read x[0 to 99] in 13 sectors of 32 bytes, summed over 4 warps.",
        "Step 3, line 5: in each of blocks 0 and 1, threads 0 to 63 write s[0 to 63], no bank conflict.",
        "Step 4, line 6: the threads of a block synchronise at the barrier.",
        "Step 5, line 8: half = 32 in threads 32 to 63, 96 to 127.",
        "Step 6, line 8: in each of blocks 0 and 1, threads 0 to 31 read s[32 to 63], no bank conflict.",
        "Step 7, line 8: in each of blocks 0 and 1, threads 0 to 31 read s[0 to 31], no bank conflict.",
        "Step 8, line 8: in each of blocks 0 and 1, threads 0 to 31 write s[0 to 31], no bank conflict; "
        "half = 32.",
        "Step 9, line 9: the threads of a block synchronise at the barrier.",
    )
    assert (
        texts[-1]
        == "Step 36, line 11: threads 0, 64 write out[0 to 1] in 2 sectors of 32 bytes, summed over 2 warps."
    )


@pytest.mark.parametrize(
    ("threads", "elements", "said"),
    [
        ([0, 1, 4, 5, 8, 9], [0, 1, 0, 1, 0, 1], "in each of blocks 0 to 2, threads 0 to 1 write s[0 to 1]"),
        ([1, 5], [2, 2], "in each of blocks 0 and 1, thread 1 writes s[2]"),
        ([5, 6], [0, 1], "in block 1, threads 1 to 2 write s[0 to 1]"),
        ([0, 0, 8, 8], [3, 5, 3, 5], "in each of blocks 0 and 2, thread 0 writes s[3, 5]"),
        ([0, 4, 12, 20, 28], [0] * 5, "in each of 5 blocks, thread 0 writes s[0]"),
        ([0, 1], [0, 1], "threads 0 to 1 write s[0 to 1]"),
        ([0, 4], [0, 1], "threads 0, 4 write s[0 to 1]"),
        ([0, 5], [0, 0], "threads 0, 5 write s[0]"),
        ([0, 1, 4], [0, 1, 0], "threads 0 to 1, 4 write s[0 to 1]"),
    ],
)
def test_shared_memory_is_said_by_block_where_blocks_do_the_same(threads, elements, said):
    moment = Moment(3, [Touch(0, "write", elements, None, threads, 1)])
    in_shared = texts_of([moment], [Buffer("s", [8], "shared")], [], 4)
    assert in_shared == [f"Step 1, line 3: {said}."]
    of_all = texts_of([moment], [Buffer("s", [8], "global")], [], 4)
    assert of_all == texts_of([moment], [Buffer("s", [8], "shared")], [])
    assert "block" not in of_all[0]


def test_sectors_and_passes_of_all_steps_add_up_to_what_the_run_counted():
    for run in (tree()[1], strided(1), strided(8), strided(3)):
        every = [touch for moment in moments(run, "x", "out", "s") for touch in moment.touches]
        total = {"read": 0, "write": 0}
        passes = {"read": 0, "write": 0}
        for touch in every:
            total[touch.kind] += touch.sectors
            passes[touch.kind] += touch.wavefronts
        counts = run.counts
        assert total == {"read": counts.global_load.sectors, "write": counts.global_store.sectors}
        assert passes == {"read": counts.shared_load.wavefronts, "write": counts.shared_store.wavefronts}


def test_every_access_stands_in_one_moment_and_in_the_order_that_barriers_give():
    run = tree()[1]
    every = moments(run, "x", "out", "s")
    assert sum(len(t.elements) for m in every for t in m.touches) == len(run.accesses)
    written: dict[tuple[int, int], float] = {}
    for moment in every:
        for touch in moment.touches:
            if touch.array != 2 or touch.threads is None or touch.values is None:
                continue
            for thread, element, value in zip(touch.threads, touch.elements, touch.values, strict=True):
                if touch.kind == "write":
                    written[thread // 64, element] = value
                else:
                    assert written[thread // 64, element] == value


def test_a_bank_conflict_is_said():
    said = stepped(strided(8), **WORDS).steps[17]
    assert said.startswith("Step 18, line 6: threads 0 to 31 read s[0, 8, 16, 24 and 28 more]")
    assert said.endswith(" in 8 wavefronts instead of 1.")


def test_short_values_stand_32_to_a_row_and_unused_shared_memory_is_left_out():
    large = Kernel(TREE.replace("s[64]", "s[256]"))
    ones = case(x=np.ones(64, np.float32), out=output(1), n=64, grid=1, block=64)
    figure = stepped(large.on(ones).simulate(trace=Trace()), **WORDS)
    shared = next(one for one in figure.spec["arrays"] if one["space"] == "shared")
    assert (shared["shape"], shared["used"], 32 * shared["wide"] <= 690) == ([256], 64, True)
    _, run = tree()
    fractions = next(one for one in stepped(run, **WORDS).spec["arrays"] if one["name"] == "s")
    assert "wide" not in fractions and "used" not in fractions


def test_a_wide_matrix_of_short_values_is_tight_on_a_narrow_page():
    for shape, scale, tight in (((16, 16), 1, True), ((4, 4), 1, False), ((16, 16), 0.3, False)):
        lanes = scale * np.arange(shape[0] * shape[1]).reshape(shape)
        figure = stepped([State("Lane 0.", arrays={"A": lanes}, reads={"A": np.array([0])})], **WORDS)
        assert ("tight" in figure.spec["arrays"][0]) is tight


def test_shapes_come_from_launch_and_source():
    source = r"""
extern "C" __global__ void tile(const float* A, float* B) {
    __shared__ float a[T][T + 1], b[2];
    a[threadIdx.y][threadIdx.x] = A[threadIdx.y * T + threadIdx.x];
    b[threadIdx.x & 1] = 1.0f;
    __syncthreads();
    B[threadIdx.y * T + threadIdx.x] = a[threadIdx.x][threadIdx.y] + b[threadIdx.y & 1];
}
"""
    launch = Kernel(source, defines={"T": 4}).on(case(A=normal(4, 4), B=output(4, 4), grid=1, block=(4, 4)))
    run = launch.simulate(trace=Trace())
    figure = stepped(run, **WORDS)
    assert [(one["name"], one["shape"], one["space"]) for one in figure.spec["arrays"]] == [
        ("a", [4, 5], "shared"),
        ("b", [2], "shared"),
        ("A", [4, 4], "global"),
        ("B", [4, 4], "global"),
    ]


def test_an_access_to_several_elements_is_drawn_as_all_of_them():
    source = r"""
#include <cuda_fp16.h>
extern "C" __global__ void pairs(const void* x, void* y) {
    __shared__ __align__(8) __half tile[64];
    ((unsigned*)tile)[threadIdx.x] = ((const unsigned*)x)[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 16) ((uint2*)y)[threadIdx.x] = ((const uint2*)tile)[threadIdx.x];
}
"""
    numbers = np.arange(64, dtype=np.float16).reshape(2, 32) / 4
    launch = Kernel(source).on(case(x=numbers, y=output(2, 32, dtype=np.float16), grid=1, block=32))
    run = launch.simulate(trace=Trace())
    figure = stepped(run, **WORDS)
    assert [(one["name"], one["shape"], one["item"]) for one in figure.spec["arrays"]] == [
        ("tile", [64], 2),
        ("x", [2, 32], 2),
        ("y", [2, 32], 2),
    ]
    assert figure.steps == (
        "Step 1, line 4: threads 0 to 31 read x[0 to 1][0 to 31] in 4 sectors of 32 bytes.",
        "Step 2, line 4: threads 0 to 31 write tile[0 to 63], no bank conflict.",
        "Step 3, line 5: the threads of a block synchronise at the barrier.",
        "Step 4, line 6: threads 0 to 15 read tile[0 to 63].",
        "Step 5, line 6: threads 0 to 15 write y[0 to 1][0 to 31] in 4 sectors of 32 bytes.",
    )
    for moment in moments(run, "x", "tile", "y"):
        for touch in moment.touches:
            assert touch.values == (np.array(touch.elements) / 4).tolist()


def test_bf16_is_drawn_as_numbers():
    source = """
extern "C" __global__ void copy(const void* x, unsigned* y) {
    y[threadIdx.x] = ((const unsigned*)x)[threadIdx.x];
}
"""
    held = bf16.bits(np.arange(64, dtype=np.float32) / 4)
    recipe = normal(64, dtype="bfloat16")
    launch = Kernel(source).on(case(x=recipe, y=output(32, dtype=np.uint32), grid=1, block=32))
    run = Kernel(source).simulate(held, np.zeros(32, np.uint32), grid=1, block=32, trace=Trace())
    traced = traced_of(run, launch)
    assert traced.rows.value[:64] == (np.arange(64) / 4).tolist()
    assert traced_of(run).rows.value[:2] == [0, 0x3E80]


def test_declarations_are_read_as_far_as_they_can_be():
    found = shared_arrays(
        "#define N 8\n// __shared__ int no[1];\nconstexpr int M = N * 2;\n"
        "__shared__ float a[M][N + 1];\nextern __shared__ float dynamic[];\n__shared__ int flag;\n"
        "__shared__ unsigned int u[N / 2], v[unknown];"
    )
    assert {name: (one.shape, one.dtype) for name, one in found.items()} == {
        "a": ((16, 9), np.dtype("f4")),
        "dynamic": ((), np.dtype("f4")),
        "flag": ((), np.dtype("i4")),
        "u": ((4,), np.dtype("u4")),
        "v": ((), np.dtype("u4")),
    }


def states() -> list[State]:
    x = np.array([1.0, 3.0])
    return [
        State(
            "Nothing is read yet.", line=1, values={"m": -np.inf}, arrays={"x": x, "w": np.full(2, np.nan)}
        ),
        State("The first enters.", 2, {"m": 1.0}, {"x": x, "w": np.array([1.0, np.nan])}, {"x": [0]}),
        State("The second enters.", 2, {"m": 3.0}, {"x": x, "w": np.array([0.5, 1.0])}, {"x": x > 2}),
    ]


def test_a_model_steps_through_its_states():
    figure = stepped(states(), source="m = -inf\nfor v in x: ...", **WORDS)
    assert figure.steps == (
        "Step 1, line 1: Nothing is read yet. m = -inf.",
        "Step 2, line 2: The first enters. m = 1.",
        "Step 3, line 2: The second enters. m = 3.",
    )
    assert "grid" not in figure.spec
    assert figure.spec["arrays"][1] == {"name": "w", "shape": [2], "space": "model", "start": ["c", "nan"]}
    assert figure.spec["moments"][2] == {
        "l": 2,
        "p": [
            {"a": 0, "k": "r", "i": [1], "v": [3]},
            {"a": 1, "k": "w", "i": [0, 1], "v": [0.5, 1]},
        ],
        "w": [{"n": 0, "v": [3]}],
    }


def test_matrices_of_short_values_stand_side_by_side():
    def rooms(scale: float) -> Any:
        shapes = {"array": np.arange(60).reshape(6, 10) / scale, "tile": np.arange(32).reshape(4, 8) / scale}
        return stepped([State("Both.", arrays=shapes)], **WORDS).spec

    short, long = rooms(1), rooms(7)
    assert short["arrays"][0]["wide"] * 18 < 620
    assert "wide" not in long["arrays"][0]
    assert short["rooms"]["wide"]["memory"] <= long["rooms"]["wide"]["memory"] < 220  # one line of both


def test_a_model_says_whether_nan_is_an_empty_place():
    states = [State("Nothing is there.", arrays={"y": [np.nan]}), State("It is made.", arrays={"y": [1.0]})]
    drawn = stepped(states, blanks=True, **WORDS).spec
    assert drawn["blanks"] is True and drawn["arrays"][0]["start"] == ["nan"]
    assert "blanks" not in stepped(states, **WORDS).spec


def test_cells_of_a_model_that_are_no_threads_are_called_by_their_name():
    figure = stepped([State("Two of them.", threads=[0, 1])], grid=2, block=2, cell="multiply-add", **WORDS)
    assert figure.spec["cell"] == "multiply-add"
    assert "Each of 4 cells is a multiply-add." in figure.alt
    assert "thread" not in figure.alt
    assert "cell" not in stepped([State("a")], grid=2, block=2, **WORDS).spec


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: stepped([], **WORDS), "at least one state"),
        (
            lambda: stepped([State("a", arrays={"x": [1]}), State("b", arrays={"x": [1, 2]})], **WORDS),
            r"state 2 holds x \(2\), and the first one x \(1\)",
        ),
        (lambda: stepped([State("a", arrays={"x": np.zeros((1, 1, 1))})], **WORDS), "3 dimensions"),
        (lambda: stepped([State("a", reads={"y": [0]})], **WORDS), "state 1 reads 'y'"),
        (lambda: stepped([State("a")], grid=9, block=1024, **WORDS), "draws at most 4,096 threads"),
        (lambda: stepped([State("a")], start=1, **WORDS), "starts at step 1"),
        (lambda: stepped(tree()[1], arrays=["y"], **WORDS), "no array 'y'; its arrays are x, out, n, s"),
        (lambda: stepped([State("a")] * 601, **WORDS), "would have 601 steps.*Trace less"),
    ],
)
def test_what_cannot_be_stepped_is_said(make, said):
    with pytest.raises(ValueError, match=said):
        make()


WIDE = r"""
extern "C" __global__ void wide(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    for (int k = 0; k < n; ++k) y[i] += x[k * gridDim.x * blockDim.x + i];
}
"""


def test_a_figure_is_at_most_200_kb_and_the_error_says_how_to_trace_less():
    launch = Kernel(WIDE).on(case(x=normal(32, 2048), y=output(2048), n=32, grid=8, block=256))
    run = launch.simulate(trace=Trace())
    with pytest.raises(ValueError, match=r"KB when it is sent, and at most 200 KB.*Trace\(blocks=\[0\]"):
        stepped(run, **WORDS)
    less = stepped(launch.simulate(trace=Trace(blocks=[0])), **WORDS)
    assert len(gzip.compress(less.json_bytes())) < 200_000
