"""Every hazard with its line; and right kernels that look like one, which must pass."""

from collections.abc import Callable

import numpy as np
import pytest

from tests.simulator.kernels import ORIGIN, TILED, VEC_ADD, meets, on_threads, simulate
from tilewise.simulator import ExpectationError, HazardError, Run, expect_hazard


def _hazard(call: Callable[[], Run], kind: str, line: int, *words: str) -> HazardError:
    with pytest.raises(HazardError) as caught:
        call()
    error = caught.value
    assert (error.hazard.kind, error.hazard.line) == (kind, line), str(error)
    assert (error.path, error.line) == (ORIGIN[0], ORIGIN[1] + line - 1)
    for word in words:
        assert word in f"{error} {error.hazard}"
    assert error.run.hazards == (error.hazard,)
    assert error.run.counts.issued > 0
    return error


def _ints(count: int) -> np.ndarray:
    return np.arange(count, dtype=np.int32)


def test_a_read_beyond_the_array_passed():
    a, b, c = np.zeros((3, 40), np.float32)
    _hazard(
        lambda: simulate(VEC_ADD, a, b, c, np.int32(41), grid=2),
        "out of bounds",
        3,
        "block 1",
        "thread 8",
        "[40]",
    )


OFF = "x[i] = i;\nif (i == 7) y[{}] = 1;"
LOCAL = (
    "int a[4]; for (int k = 0; k < 4; ++k) a[k] = y[k];\na[y[i]] = 5;\nint s = 0;"
    " for (int k = 0; k < 4; ++k) s += a[k] * y[k + 1]; y[i] = s;"
)
COUNTED = 'asm volatile("bar.sync 1, 96;" ::: "memory");\ny[i] = 1;'
FAULTS = {
    "before an array": ("int* y, int* x", OFF.format("-1"), 32, "out of bounds", 4, "writes y[-1]"),
    "behind an array": ("int* y, int* x", OFF.format("32"), 32, "out of bounds", 4, "writes y[32]"),
    "far behind": ("int* y, int* x", OFF.format("1 << 29"), 32, "out of bounds", 4, "writes y[536870912]"),
    "into the next shared array": (
        "int* y",
        "__shared__ int a[32], b[32]; b[i] = 0;\na[i + 1] = i;\n__syncthreads();\ny[i] = a[i] + b[i];",
        *(32, "out of bounds", 4, "a[32]"),
    ),
    "wider than an element": (
        "int* y",
        "__shared__ __align__(16) int s[8]; if (i < 8) s[i] = i;\n__syncthreads();\n"
        "if (i < 8) ((int4*)y)[i] = ((int4*)s)[i];",
        *(32, "out of bounds", 5, "reads byte 32 of s, which has 32 bytes"),
    ),
    "behind a local array": ("int* y", LOCAL.replace("y[i]]", "y[i] + 64]"), 33, "out of bounds", 4, ""),
    "before a local array": ("int* y", LOCAL.replace("y[i]]", "-y[i] - 1]"), 33, "out of bounds", 4, ""),
    "a barrier that lanes skip": (
        "int* y",
        "if (i < 20)\n__syncthreads();\ny[i] = i;",
        *(32, "barrier", 4, "thread 20 of the same warp skips this barrier"),
    ),
    "a barrier in one branch": (
        "int* y",
        "if (i % 2) {\n__syncthreads(); } else y[i] = 2;\nif (i > 3) y[i] += 1;",
        *(64, "barrier", 4, "thread 0 of the same"),
    ),
    "a barrier in a loop's branch": (
        "int* y",
        "for (int h = 32; h > 0; h /= 2)\nif (i < h) {\n__syncthreads(); }\ny[i] = 1;",
        *(64, "barrier", 5, "same warp"),
    ),
    "a barrier of a warp and a part": (
        "int* y",
        "if (i < 40) {\n__syncthreads(); }\ny[i] += 1;",
        *(64, "barrier", 4, "thread 40 of the same warp"),
    ),
    "two barriers are not one": (
        "int* y",
        "if (i < 16) {\n__syncthreads(); y[i] = 1;\n} else {\n__syncthreads(); y[i] = 2; }",
        *(32, "barrier", 4, "line 6"),
    ),
    "a barrier that live threads never reach": (
        "int* y",
        f"if (i >= 96) return;\nif (i < 32)\n__syncthreads();\nelse {COUNTED}",
        *(128, "barrier", 5),
        "32 of the 96 threads of block 0 wait here (32 have exited), and thread 32 never comes",
    ),
    "a count that exits do not reach": (
        "int* y",
        f"if (i >= 64) return;\n{COUNTED}",
        *(96, "barrier", 4, "for 96 threads, and only 64 of block 0 arrive"),
    ),
    "a __syncwarp that lanes never reach": (
        "int* y",
        "if (i < 5) {\n__syncwarp(); y[i] = 1; }\ny[i] += y[31 - i];",
        32,
        "shuffle",
        4,
        "",
    ),
    "a write after another warp's read": (
        "int* y",
        "__shared__ int s[64]; s[i] = i; __syncthreads();\ny[i] = s[(i + 32) % 64];\ns[i] = y[i] * 3;\n"
        "__syncthreads(); y[i] += s[i];",
        *(64, "race", 4, "warp 0 touched at line 5"),
    ),
    "a word that nobody wrote": (
        "int* y",
        "__shared__ int s[64]; if (i < 30) s[i] = 1;\n__syncthreads();\ny[i] = s[i];",
        *(32, "uninitialised", 5, "thread 30 of block 0 reads s[30]"),
    ),
}
"""By name: parameters, body, threads and elements, and the hazard with its line and some of its words."""


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_its_line(name):
    parameters, body, threads, kind, line, words = FAULTS[name]
    arrays = [_ints(threads) for _ in parameters.split(",")]
    block = min(threads, 32) if "local" in name else threads
    _hazard(lambda: simulate(on_threads(body, parameters), *arrays, block=block), kind, line, words)


def test_a_wide_access_that_begins_in_the_array_and_ends_outside():
    source = on_threads("y[i] = ((const int*)x)[i];", "int* y, const short* x")
    said = "thread 31 of block 0 reads 4 bytes from x[62] on; x has 63 elements"
    _hazard(lambda: simulate(source, _ints(32), np.zeros(63, np.int16)), "out of bounds", 3, said)
    _hazard(lambda: simulate(source, _ints(32), np.zeros(62, np.int16)), "out of bounds", 3, "reads x[62]; x")


def test_beyond_dynamic_shared_memory():
    source = on_threads("extern __shared__ int s[];\ns[i] = i;\ny[i] = s[i];", "int* y")
    simulate(source, _ints(32), shared_bytes=128)
    more = "launch with more dynamic shared memory: shared_bytes="
    _hazard(lambda: simulate(source, _ints(32), shared_bytes=124), "out of bounds", 4, "s[31]", more)


def test_a_message_counts_the_lines_of_the_file_but_not_in_code_that_it_quotes():
    source = on_threads("__shared__ int s[64];\ns[i] = i;  // not line 1\ny[i] = s[i & 31];", "int* y")
    error = _hazard(lambda: simulate(source, _ints(64), block=64), "race", 5, "warp 0 touched at line 4 (`")
    assert f"warp 0 touched at line {error.line - 1} (`s[i] = i; // not line 1`)" in str(error)


def test_writing_a_read_only_array():
    y = _ints(32)
    y.flags.writeable = False
    _hazard(lambda: simulate(on_threads("y[i] = 1;", "int* y"), y), "read-only", 3)


def test_threads_that_returned_early_are_not_waited_for():
    source = on_threads("if (i >= 300) return;\n__syncthreads();\ny[i] = i + 1;", "int* y")
    y = _ints(512)
    run = simulate(source, y, grid=2, block=256)
    assert (y[:300] == np.arange(1, 301)).all()
    (note,) = run.notes
    assert note.startswith("The barrier at line 4 completed without 212 threads of block 1 that had exited")
    assert "the first of them thread 44" in note and "Volta" in note
    assert (
        run.text().endswith(f"Note: {note}") and f"Note: {note.split(chr(39))[0]}" in run.as_output().html()
    )
    assert not simulate(source, y, grid=1, block=256).notes


@pytest.mark.parametrize(
    "body",
    [
        "if (i >= 40) { y[i] = -1; return; }\n__syncthreads();\ny[i] = 1;",
        "if (i < 40) {\n__syncthreads(); y[i] = 1; }",
        "for (int k = 0; k < 3; ++k) { if (i > 40 + k) { y[i] = k; return; }\n__syncthreads(); y[i] = 1; }",
        "if (i >= 64) return;\n__syncthreads();\nif (i >= 40) return;\n__syncthreads();\ny[i] = 1;",
    ],
)
def test_early_returns_of_many_forms_are_none_of_a_barriers_hazards(body):
    run = simulate(on_threads(body, "int* y"), _ints(96), grid=1, block=96)
    assert run.notes


def test_a_barrier_with_a_count_counts_by_warps():
    source = on_threads(
        'if (i >= 50) return;\nasm volatile("bar.sync 1, 64;" ::: "memory");\ny[i] = 1;', "int* y"
    )
    y = _ints(64)
    assert not simulate(source, y, grid=1, block=64).notes
    assert (y[:50] == 1).all()


REVERSE = """\
extern "C" __global__ void reverse(const int* x, int* y) {
    __shared__ int s[64];
    int t = threadIdx.x;
    s[t] = x[t];
    __syncthreads();
    y[t] = s[63 - t];
}
"""


def test_a_missing_barrier_between_write_and_read():
    simulate(REVERSE, _ints(64), _ints(64), block=64)
    without = REVERSE.replace("    __syncthreads();\n", "\n")
    # The warp that runs first reads what nobody wrote yet: either name is true of this bug.
    with meets(("uninitialised", "race"), 6):
        simulate(without, _ints(64), _ints(64), block=64)


@pytest.mark.parametrize(("drop", "line"), [(0, 8), (1, 5)])
def test_each_barrier_of_a_tiled_product_is_needed(drop, line):
    parts = TILED.split("        __syncthreads();\n")
    source = (
        parts[0] + "\n" + parts[1] + "        __syncthreads();\n" + parts[2]
        if drop == 0
        else parts[0] + "        __syncthreads();\n" + parts[1] + "\n" + parts[2]
    )
    a = np.random.Generator(np.random.PCG64(1)).normal(size=(16, 16)).astype(np.float32)
    with pytest.raises(HazardError) as caught:
        simulate(source, a, a, np.zeros_like(a), *[np.int32(16)] * 3, grid=(2, 2), block=(8, 8))
    assert caught.value.hazard.kind in {"race", "uninitialised"}
    assert caught.value.hazard.line >= line


def test_an_atomic_races_with_a_plain_access_but_not_with_atomics():
    right = (
        "__shared__ int s[1]; if (i == 0) s[0] = 0;\n__syncthreads();\natomicAdd(s, 1);\n"
        "__syncthreads();\ny[i] = s[0];"
    )
    y = _ints(96)
    simulate(on_threads(right, "int* y"), y, block=96)
    assert set(y) == {96}
    wrong = right.replace("atomicAdd(s, 1);\n__syncthreads();", "atomicAdd(s, 1);\n")
    _hazard(lambda: simulate(on_threads(wrong, "int* y"), _ints(96), block=96), "race", 5)


# ---- what must not be reported


def test_neighbouring_bytes_of_one_word_belong_to_different_warps():
    source = on_threads(
        "__shared__ unsigned char s[128]; s[(i % 32) * 4 + i / 32] = i;\n__syncthreads(); y[i] = s[i];",
        "unsigned char* y",
    )
    simulate(source, np.zeros(128, np.uint8), block=128)


def test_a_warp_may_read_what_it_wrote_itself():
    source = on_threads("__shared__ int s[128]; s[i] = i; __syncwarp();\ny[i] = s[i ^ 1];", "int* y")
    y = _ints(128)
    simulate(source, y, block=128)
    assert np.array_equal(y, np.arange(128) ^ 1)


def test_a_shuffle_after_lanes_have_left():
    source = on_threads("if (i >= 16) return;\ny[i] = __shfl_xor_sync(0xffffffff, i, 1);", "int* y")
    y = _ints(32)
    simulate(source, y)
    assert np.array_equal(y[:16], np.arange(16) ^ 1)


def test_a_full_mask_in_a_partial_warp():
    source = on_threads(
        "y[i] = __any_sync(0xffffffff, i == 3) + 2 * __shfl_sync(0xffffffff, i, 0);", "int* y"
    )
    y = _ints(20)
    simulate(source, y, block=20)
    assert set(y) == {1}


def test_a_producer_arrives_and_a_consumer_waits():
    source = on_threads(
        "__shared__ int s[32]; if (i < 32) { s[i] = 7 * i;"
        'asm volatile("bar.arrive 1, 64;" ::: "memory"); }\n'
        'else { asm volatile("bar.sync 1, 64;" ::: "memory"); y[i] = s[i - 32]; }',
        "int* y",
    )
    y = _ints(64)
    simulate(source, y, block=64)
    assert np.array_equal(y[32:], 7 * np.arange(32))


# ---- collecting, and the lesson's form


def test_collecting_runs_on_and_counts_each_fault():
    y = _ints(16)
    run = simulate(on_threads("y[i] = x[i];", "const int* x, int* y"), _ints(20) + 1, y, collect=True)
    assert np.array_equal(y, np.arange(16) + 1)
    assert [(hazard.kind, hazard.line, hazard.count) for hazard in run.hazards] == [("out of bounds", 3, 28)]


def test_expect_hazard_shows_what_happened(capsys):
    hazard = expect_hazard(
        lambda: simulate(on_threads("y[i] = 1;", "int* y"), _ints(16)), "out of bounds", line_with="y[i] = 1"
    )
    assert hazard.line == 3
    assert "out of bounds" in capsys.readouterr().out


def test_expect_hazard_shows_the_call_of_a_function_of_assembly(capsys):
    source = """
static __device__ void store(int* p) {
    asm volatile("st.global.u32 [%0], 1;" :: "l"(p) : "memory");
}
extern "C" __global__ void kernel(int* y) {
    store(y + threadIdx.x);
}
"""
    hazard = expect_hazard(lambda: simulate(source, _ints(16)), "out of bounds")
    assert (hazard.line, hazard.caller) == (3, 6)
    assert "6: store(y + threadIdx.x);" in capsys.readouterr().out


def test_expect_hazard_fails_where_nothing_or_something_else_happens():
    def right() -> Run:
        return simulate(on_threads("y[i] = 1;", "int* y"), _ints(32))

    def wrong() -> Run:
        return simulate(on_threads("y[i] = 1;", "int* y"), _ints(16))

    with pytest.raises(ExpectationError, match="nothing happened"):
        expect_hazard(right, "race")
    with pytest.raises(ExpectationError, match="this happened"):
        expect_hazard(wrong, "race")
    with pytest.raises(ExpectationError, match="not at"):
        expect_hazard(wrong, "out of bounds", line_with="z[i]")
    with pytest.raises(ValueError, match="no hazard"):
        expect_hazard(wrong, "bug")
