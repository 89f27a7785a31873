"""Lines of accesses that the compiler moves: near ones, and said to be so; files keep the lines they have."""

from pathlib import Path

import numpy as np
import pytest

from tests.simulator.kernels import simulate
from tilewise.__main__ import main
from tilewise.simulator import HazardError, Trace
from tilewise.simulator.engine.trace import GLOBAL

MOVED = """\
extern "C" __global__ void moved(const float* __restrict__ x, const float* __restrict__ b,
                                 float* __restrict__ y, int n) {
    int i = threadIdx.x;
    float s = 0.0f;
    for (int j = 0; j < n; ++j) {
        float v = x[j * 32 + i];
        float w = b[i];  // leaves the loop
        s += v * w;
    }

    float late = x[i + 7];  // sinks into a branch
    float later = b[i + 9];
    if (s > 3.0f) {
        y[i] = late + s;  // one store for both branches
    } else {
        y[i] = later - s;
    }
}
"""


def _inputs(of_b: int = 41, of_y: int = 32) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.int32]:
    x = np.random.default_rng(3).standard_normal(96).astype(np.float32)
    return x, np.linspace(1, 2, of_b, dtype=np.float32), np.zeros(of_y, np.float32), np.int32(3)


def test_a_load_that_left_a_loop_is_near_its_use():
    with pytest.raises(HazardError) as caught:
        simulate(MOVED, *_inputs(of_b=30))
    hazard = caught.value.hazard
    assert (hazard.kind, hazard.line, hazard.is_near) == ("out of bounds", 8, True)
    assert "thread 30 of block 0 reads argument 1[30]" in hazard.message or "reads b[30]" in hazard.message
    assert "near line 8, `s += v * w;`" in hazard.place
    assert f"near line {caught.value.line}, `s += v * w;`" in str(caught.value)


def test_a_store_of_two_branches_is_near_one_of_them():
    with pytest.raises(HazardError) as caught:
        simulate(MOVED, *_inputs(of_y=31))
    hazard = caught.value.hazard
    assert (hazard.kind, hazard.is_near) == ("out of bounds", True)
    assert hazard.line in (14, 16)


INLINED = """\
__device__ __forceinline__ float pick(const float* x, int i) {
    float v;
    if (i & 1)
        v = x[i + 2] + 1;
    else
        v = x[i + 2] * 3;
    return v;
}
__device__ __forceinline__ float twice(const float* x, int i) {
    return 2 * pick(x, i);
}
__device__ __forceinline__ void fill(float* y, int i, int n) {
    if (n > i * 2) {
        y[i + 3] = 7;
        y[i + 1] = 1;
    } else {
        y[i + 3] = 7;
        y[i + 2] = 2;
    }
}
extern "C" __global__ void k(const float* x, float* y, int n) {
    int i = threadIdx.x;
    float v = twice(x, i);
    fill(y, i, n);
    y[i] = v;
}"""


def test_what_two_branches_of_an_inlined_function_share_is_near_a_line_of_that_function():
    x, y = np.zeros((2, 32), np.float32)
    run = simulate(INLINED, x, y, np.int32(32), collect=True)
    read, shared, last = run.hazards
    assert (read.line in range(3, 8), read.caller, read.is_near) == (True, 23, True)
    assert "called at line 23, `float v = twice(x, i);`" in read.place
    assert (shared.line in range(13, 18), shared.caller, shared.is_near) == (True, 24, True)
    assert "thread 29 of block 0 writes" in shared.message
    assert (last.line, last.caller, last.is_near) == (18, 24, False)
    assert {*run.lines} >= {read.line, shared.line, 18, 25}


def test_every_access_has_a_line_within_reach_of_its_own():
    x, b, y, n = _inputs()
    run = simulate(MOVED, x, b, y, n, trace=Trace())
    s = sum(x[32 * j : 32 * j + 32] * b[:32] for j in range(3))
    truth = np.where(s > 3, x[np.arange(32) + 7] + s, b[np.arange(32) + 9] - s)
    assert np.allclose(y, truth, atol=1e-5)
    lines = {
        name: sorted({int(line) for line in run.accesses.line[run.accesses.buffer == number]})
        for number, name in enumerate(run.buffers)
        if (run.accesses.space[run.accesses.buffer == number] == GLOBAL).any()
    }
    assert list(lines.values()) in ([[6, 11], [8, 12], [14]], [[6, 11], [8, 12], [16]])


def test_an_exact_line_is_not_called_near():
    with pytest.raises(HazardError) as caught:
        x, b, y, _ = _inputs()
        simulate(MOVED, x[:90].copy(), b, y, np.int32(3))
    assert (caught.value.hazard.line, caught.value.hazard.is_near) == (6, False)
    assert ", in `float v = x[j * 32 + i];`" in str(caught.value)


def test_a_file_keeps_its_lines_and_a_hazard_says_its_own(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("late.cu").write_text(
        "\n\n\n#include <cstdio>\n\n__global__ void late(float* y, int n) {\n    int i = threadIdx.x;\n"
        "    if (i <= n) y[i] = 1.0f;\n}\n"
    )
    words = ["--grid", "1", "--block", "64", "--arg", "y=f32[32]", "--arg", "n=32"]
    assert main(["trace", "late.cu", *words]) == 1
    out, err = capsys.readouterr()
    assert err.startswith(
        "late.cu:8: out of bounds: thread 32 of block 0 writes y[32]; y has 32 elements, in `if (i"
    )
    assert "   8" in out and "if (i <= n) y[i] = 1.0f;" in out


def test_a_hazard_in_a_header_says_its_line_there_and_the_call(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("helper.cuh").write_text(
        "// Moves.\n__device__ float at(const float* x, int i) {\n    return x[i];\n}\n"
        "__device__ __noinline__ void put(float* y, int i, float v) {\n    y[i] = v;\n}\n"
    )
    Path("calls.cu").write_text(
        '#include "helper.cuh"\n__device__ float next(const float* x, int i) {\n    return at(x, i + 1);\n}\n'
        "__global__ void calls(const float* x, float* y) {\n    int i = threadIdx.x;\n"
        "    float v = next(x, i);\n    put(y, i + 2, v);\n}\n"
    )
    words = ["--grid", "1", "--block", "32", "--arg", "x=f32[32]", "--arg", "y=f32[32]"]
    assert main(["trace", "calls.cu", *words]) == 1
    out, err = capsys.readouterr()
    inlined, called = sorted(err.splitlines()[:2], key=lambda line: "writes" in line)
    assert inlined.startswith("calls.cu:3: out of bounds: thread 31 of block 0 reads x[32]")
    assert ", in `return x[i];` (helper.cuh:3), called at line 3, `return at(x, i + 1);`" in inlined
    assert ", called at line 7, `float v = next(x, i);`" in inlined
    assert "thread 30 of block 0 writes y[32]" in called and "in `y[i] = v;` (helper.cuh:6)" in called
    assert called.startswith("helper.cuh:6: ")
    assert "   3" in out and "return at(x, i + 1);" in out
    page = Path("calls.trace.html").read_text()
    assert "helper.cuh:3: <code>return x[i];</code>" in page
