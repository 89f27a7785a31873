"""Kernels of the kind that lessons hold, against NumPy, at sizes that do not divide."""

import numpy as np

from tests.simulator.kernels import VEC_ADD, on_threads, simulate
from tilewise.simulator import Trace

RNG = np.random.Generator(np.random.PCG64(7))


def test_switch_reaches_each_case():
    source = on_threads(
        "switch (i % 7) { case 0: y[i] = 5; break; case 1: y[i] = i * 3; break; case 2: y[i] = -i; break;"
        " case 3: y[i] = i * i; break; case 4: y[i] = 8 ^ i; break; case 5: y[i] = i << 2; break;"
        " default: y[i] = 1; }",
        "int* y",
    )
    y = np.zeros(64, np.int32)
    simulate(source, y, block=64)
    i = np.arange(64)
    expected = np.choose(i % 7, [np.full(64, 5), i * 3, -i, i * i, 8 ^ i, i << 2, np.ones(64, int)])
    assert np.array_equal(y, expected)


def test_functions_that_are_not_inlined_are_called_from_divergent_lanes():
    source = """
struct Pair { int a; float b[2]; };
__device__ __noinline__ float scaled(float x, const Pair p) { return x * p.b[1] + p.a; }
__device__ __noinline__ float twice(float x) { Pair p{1, {0.0f, 2.0f}}; return scaled(x, p); }
extern "C" __global__ void calls(const float* x, float* y) {
    int i = threadIdx.x;
    y[i] = i % 3 ? twice(x[i]) : x[i];
}"""
    x = RNG.normal(size=64).astype(np.float32)
    y = np.zeros_like(x)
    simulate(source, x, y, block=64)
    assert np.array_equal(y, np.where(np.arange(64) % 3, x * 2 + 1, x).astype(np.float32))


def test_local_arrays_belong_to_their_thread():
    source = on_threads(
        "int a[8]; for (int k = 0; k < 8; ++k) a[k] = i * 8 + k; int s = 0;"
        " for (int k = 0; k < 8; ++k) s = s * 3 + a[(k * p[i]) % 8]; y[i] = s;",
        "const int* p, int* y",
    )
    p, y = np.arange(40, dtype=np.int32), np.zeros(40, np.int32)
    run = simulate(source, p, y, block=40)
    expected = []
    for i in range(40):
        s = 0
        for k in range(8):
            s = s * 3 + i * 8 + (k * i) % 8
        expected.append(s)
    assert y.tolist() == expected
    assert run.counts.global_load.requests == 2  # `.local` is no `.loc`, and no global memory


def test_constant_and_device_variables_hold_their_values():
    source = """
__constant__ float weights[3] = {1.0f, -2.0f, 0.5f};
__device__ int counter = 5;
extern "C" __global__ void use(float* y, int* c) {
    y[threadIdx.x] = weights[threadIdx.x % 3];
    int before = atomicAdd(&counter, 1);
    if (threadIdx.x == 31) c[0] = before;
}"""
    y, c = np.zeros(32, np.float32), np.zeros(1, np.int32)
    simulate(source, y, c)
    assert np.array_equal(y, np.array([1, -2, 0.5], np.float32)[np.arange(32) % 3])
    assert c[0] == 36


def test_structs_by_value_and_64_bit_scalars_arrive_whole():
    source = """
struct Scale { int first; double by[2]; };
extern "C" __global__ void scaled(double* y, Scale s, long long n, signed char small) {
    y[threadIdx.x] = s.by[threadIdx.x & 1] * s.first + (double)n + small;
}"""
    scale = np.zeros(1, np.dtype([("first", "i4"), ("by", "f8", 2)], align=True))
    scale["first"], scale["by"] = 3, (0.5, -0.25)
    y = np.zeros(4)
    simulate(source, y, scale, np.int64(1 << 40), np.int8(-7), block=4)
    assert np.array_equal(y, np.array([1.5, -0.75] * 2) + (1 << 40) - 7)


def test_lanes_that_loop_differently_meet_again():
    source = on_threads(
        "int s = 0; for (int k = 0; k < i; ++k) { if (k == 20) break; s += k; }\n y[i] = s;", "int* y"
    )
    y = np.zeros(32, np.int32)
    run = simulate(source, y)
    assert y.tolist() == [sum(range(min(i, 20))) for i in range(32)]
    assert run.counts.divergent_branches > 0
    assert run.lines[4].global_store.requests == 1


def test_the_same_array_twice_is_one_memory():
    x = np.arange(32, dtype=np.int32)
    simulate(
        on_threads("y[i] = x[i] + 1; z[i] = y[i] * x[i];", "const int* x, int* y, int* z"),
        x,
        x,
        z := x.copy(),
    )
    assert np.array_equal(x, np.arange(32) + 1)
    assert np.array_equal(z, x * x)


def test_a_trace_holds_who_read_what():
    a, b = np.arange(64, dtype=np.float32), np.ones(64, np.float32)
    run = simulate(VEC_ADD, a, b, np.zeros(64, np.float32), np.int32(60), grid=2, trace=Trace(blocks=[1]))
    seen = run.accesses
    assert set(seen.block) == {1} and set(seen.line) == {3}
    reads = seen.where((seen.kind == 0) & (seen.buffer == run.buffers.index("a")))
    assert reads.index.tolist() == list(range(32, 60)) == reads.value.tolist()
    writes = seen.where(seen.kind == 1)
    assert {run.buffers[number] for number in writes.buffer} == {"c"}
    assert np.array_equal(writes.value, np.arange(32, 60) + 1.0)


def test_the_table_adds_up():
    run = simulate(VEC_ADD, *np.zeros((3, 64), np.float32), np.int32(64), grid=2)
    assert sum(line.issued for line in run.lines.values()) == run.counts.issued
    assert "c[i] = a[i] + b[i]" in run.text()
    shown = run.as_output()
    assert [one.line for one in shown.lines] == [line for line in run.lines if line]
    at = {(one.group, one.name): number for number, one in enumerate(shown.columns)}
    cells = next(one for one in shown.lines if one.line == 3).cells
    assert cells[at["global loads", "requests"]].text == 4 == run.lines[3].global_load.requests
    assert cells[at["global loads", "sectors"]].text == 16
    assert ("shared loads", "requests") not in at and ("control", "barriers") not in at
    assert shown.total.cells[0].text == run.counts.issued
    assert [row[0].text for row in run.table().rows] == [one.line for one in shown.lines] + [""]


def test_the_table_marks_sectors_of_which_little_is_used_and_conflicts():
    source = on_threads(
        "__shared__ float s[32 * 33];\ns[i * 32] = x[i * 8];\ns[i * 33 + 1] = x[i];\n"
        "__syncthreads(); y[i] = s[i * 32] + s[i * 33 + 1];",
        "const float* x, float* y",
    )
    shown = simulate(source, np.zeros(256, np.float32), np.zeros(32, np.float32)).as_output()
    at = {(one.group, one.name): number for number, one in enumerate(shown.columns)}
    cells = {one.line: one.cells for one in shown.lines}
    sectors, passes = at["global loads", "sectors"], at["shared stores", "wavefronts"]
    assert [cells[line][sectors].mark for line in (4, 5)] == ["waste", None]
    assert cells[4][sectors].title == "128 bytes requested, 1,024 moved"
    assert [cells[line][passes].mark for line in (4, 5)] == ["waste", None]
    assert cells[4][passes].title == "1 would do without bank conflicts"
    assert shown.marked and "32*" in shown.text() and "* Marked" in shown.text()
    lanes = at["instructions", "lanes"]
    assert cells[4][lanes].text == "32"


WATCHED = """\
extern "C" __global__ void sums(const float* x, float* y, int n) {
    int row = threadIdx.x;
    float s = 0.0f;
    for (int k = 0; k < n; ++k) {
        s += x[row * n + k];  // watch: s, row
    }
    y[row] = s;
}
"""


def test_watched_variables_come_with_a_trace_and_change_nothing():
    x, y, plain = np.arange(24, dtype=np.float32), np.zeros(8, np.float32), np.zeros(8, np.float32)
    run = simulate(WATCHED, x, y, np.int32(3), block=8, trace=Trace())
    bare = simulate(WATCHED.replace("  // watch: s, row", ""), x, plain, np.int32(3), block=8, trace=Trace())
    assert np.array_equal(y, plain) and np.array_equal(y, x.reshape(8, 3).sum(1))
    assert run.counts == bare.counts
    assert all(
        np.array_equal(getattr(run.accesses, k), getattr(bare.accesses, k))
        for k in ("index", "line", "value")
    )
    assert bare.watched == {} and set(run.watched) == {"s", "row"}
    seen = run.watched["s"]
    assert set(seen.line) == {5}
    assert np.array_equal(seen.value[seen.lane == 2], np.cumsum(x[6:9]))
    assert np.array_equal(run.watched["row"].value, run.watched["row"].lane)
