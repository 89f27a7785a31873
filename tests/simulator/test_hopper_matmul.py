"""A product of matrices by TMA, mbarriers and wgmma: right, counted, accepted by NVRTC; bugs are named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.simulator.hopper import MATMUL_SOURCE, line_of, matmul_arguments, matmul_inputs, matmul_kernel
from tilewise.gpu import compile_gate
from tilewise.simulator import ExpectationError, HazardError, Run, expect_hazard


def run(source: str = MATMUL_SOURCE, shape: tuple[int, int, int] = (128, 128, 320), stages: int = 3) -> Run:
    """Simulate, and require the exact product."""
    m, n, k = shape
    a, b, c = matmul_inputs(m, n, k)
    kernel = matmul_kernel(source, stages)
    grid = (-(-n // 128), -(-m // 128))
    done = kernel.simulate(
        *matmul_arguments(a, b, c), grid=grid, block=384, shared_bytes=max(stages * 32768, 65536)
    )
    assert np.array_equal(c, a @ b.T), "the product is wrong"
    return done


@pytest.mark.parametrize(
    ("shape", "stages"),
    [((128, 128, 64), 2), ((128, 128, 320), 3), ((256, 384, 192), 2), ((200, 136, 136), 3)],
)
def test_the_product_is_exact_and_without_hazards(shape: tuple[int, int, int], stages: int) -> None:
    assert run(shape=shape, stages=stages).hazards == ()


def test_what_it_counts() -> None:
    counts = run(shape=(256, 128, 128)).counts
    boxes = 2 * 2 * 2  # blocks, tiles of each, A and B
    assert counts.bulk_load.requests == boxes
    assert counts.bulk_load.useful_bytes == counts.bulk_load.shared_bytes == boxes * 128 * 64 * 2
    assert counts.bulk_load.sectors == boxes * 128 * 4
    assert counts.bulk_store.useful_bytes == 256 * 128 * 4
    assert counts.bulk_store.sectors == 256 * 128 * 4 // 32
    assert counts.wgmma == 2 * 2 * 2 * 4  # blocks, tiles, warpgroups, steps of 16 along K
    assert counts.global_load.requests == counts.global_store.requests == 0


def test_a_ragged_edge_is_read_as_zero_and_not_written() -> None:
    counts = run(shape=(200, 136, 136)).counts
    assert counts.bulk_store.useful_bytes == 200 * 136 * 4
    assert counts.bulk_load.shared_bytes > counts.bulk_load.useful_bytes


@pytest.mark.skipif(compile_gate.available() is not None, reason=str(compile_gate.available()))
def test_nvrtc_accepts_the_same_text_without_spills() -> None:
    (resources,) = compile_gate.compile_kernel(matmul_kernel())
    assert resources.architecture == "sm_90a"
    assert not resources.spills


MULTIPLY, LOAD_A = "multiply(d, descriptor", "load_2d(a + s"
BUGS = [
    ("            wait(&full[s], t / STAGES & 1);\n", "", "undelivered", MULTIPLY),
    (
        "wait(&full[s], t / STAGES & 1);",
        "wait(&full[s], (t / STAGES & 1) ^ 1);",
        "undelivered",
        MULTIPLY,
    ),
    ("                wait(&empty[s], (t / STAGES & 1) ^ 1);\n", "", "mbarrier", "expect(&full[s]"),
    (
        "wait(&empty[s], (t / STAGES & 1) ^ 1);",
        "wait(&empty[s], t / STAGES & 1);",
        "deadlock",
        "wait(&empty[s]",
    ),
    ("expect(&full[s], 32768);", "expect(&full[s], 16384);", "undelivered", MULTIPLY),
    ("expect(&full[s], 32768);", "expect(&full[s], 32784);", "deadlock", "wait(&full[s]"),
    ("            wgmma_wait<0>();\n", "", "overwritten", LOAD_A),
    (
        "wgmma_wait<0>();\n            if (threadIdx.x % 128 == 0) arrive(&empty[s]);",
        "if (threadIdx.x % 128 == 0) arrive(&empty[s]);\n            wgmma_wait<0>();",
        "overwritten",
        LOAD_A,
    ),
    ("            wgmma_fence();\n", "", "accumulator", MULTIPLY),
    ("            wgmma_commit();\n", "", "overwritten", LOAD_A),
    ("        fence_async();\n", "", "proxy", "store_2d(&C"),
    ("        fence_init();\n", "", "proxy", LOAD_A),
    ("    __syncthreads();\n    int group", "    int group", "mbarrier", "wait(&full[s]"),
    ("            bulk_wait<0>();\n", "", "overwritten", "store_2d(&C"),
    ("            bulk_commit();\n", "", "overwritten", "store_2d(&C"),
    ("init(&empty[s], 2);", "init(&empty[s], 1);", "deadlock", "wait(&empty[s]"),
    ("init(&empty[s], 2);", "init(&empty[s], 3);", "deadlock", "wait(&empty[s]"),
    (" init(&empty[s], 2);", "", "mbarrier", "wait(&empty[s]"),
    (
        '        asm volatile("bar.sync 1, 256;" ::: "memory");\n        if (t',
        "        if (t",
        "overwritten",
        "c[(row",
    ),
    (
        '        asm volatile("bar.sync 1, 256;" ::: "memory");\n        int w',
        "        int w",
        "overwritten",
        "c[(row",
    ),
    ("if (threadIdx.x % 128 == 0) arrive(&empty[s]);", "arrive(&empty[s]);", "deadlock", "wait(&empty[s]"),
    ("if (threadIdx.x % 128 == 0) arrive(&empty[s]);", "", "deadlock", "wait(&empty[s]"),
    ("a + s * 16384, &A", "a + s * 16384 + 64, &A", "misaligned", LOAD_A),
    ("inc.sync.aligned.u32 232", "inc.sync.aligned.u32 248", "deadlock", "setmaxnreg.inc"),
    ("load_2d(b + s * 16384", "load_2d(a + s * 16384", "undelivered", "load_2d(a + s * 16384, &B"),
    ("load_2d(b + s * 16384", "load_2d(b + (s + 1) * 16384", "out of bounds", "load_2d(b + (s + 1)"),
]
"""Text, what stands there instead, the hazard, and the line of the kernel at which it must happen."""


@pytest.mark.parametrize(("find", "put", "kind", "line_with"), BUGS)
def test_planted_bugs_are_named_with_their_line(find: str, put: str, kind: str, line_with: str) -> None:
    assert MATMUL_SOURCE.count(find) == 1
    source = MATMUL_SOURCE.replace(find, put)
    with pytest.raises(HazardError) as caught:
        run(source)
    hazard = caught.value.hazard
    assert hazard.kind == kind, str(caught.value)
    assert (hazard.caller or hazard.line) == line_of(source, line_with), str(caught.value)


@pytest.mark.parametrize(
    ("find", "put"),
    [
        ("16, 1024, 1),\n", "16, 1024, 2),\n"),
        ("k * 32, 16, 1024, 1), 1);", "k * 32, 16, 1024, 1), t);"),
        ("&A, t * 64", "&A, t * 32"),
        ("+ i / 2 % 2 * 8) * 128", "+ i / 2 % 2 * 4) * 128"),
        (
            "wgmma_wait<0>();\n            if",
            "wgmma_wait<0>();\n            if (t > 1) d[0] += 1;\n            if",
        ),
    ],
)
def test_what_no_hazard_shows_the_result_does(find: str, put: str) -> None:
    assert MATMUL_SOURCE.count(find) == 1

    def provoke() -> Any:
        return run(MATMUL_SOURCE.replace(find, put))

    with pytest.raises((AssertionError, HazardError), match=r"wrong|race|uninitialised"):
        provoke()


def test_expect_hazard_knows_the_line_that_called_the_faulty_function() -> None:
    source = MATMUL_SOURCE.replace("            wait(&full[s], t / STAGES & 1);\n", "")
    hazard = expect_hazard(lambda: run(source), "undelivered", line_with="multiply(d, descriptor(a + s")
    assert hazard.source_line.startswith("    asm volatile")
    with pytest.raises(ExpectationError, match="happened at line"):
        expect_hazard(lambda: run(source), "undelivered", line_with="wgmma_commit()")


def test_a_run_s_table_has_the_copies() -> None:
    text = str(run(shape=(128, 128, 128)))
    assert "wgmma" in text
    assert "bulk copies in" in text
    assert "65,536" in text


def test_collecting_goes_on_to_the_first_deadlock_or_the_end() -> None:
    a, b, c = matmul_inputs(128, 128, 128)
    source = MATMUL_SOURCE.replace("        fence_async();\n", "")
    launch = {"grid": 1, "block": 384, "shared_bytes": 98304}
    done = matmul_kernel(source).simulate(*matmul_arguments(a, b, c), **launch, hazards="collect")
    assert [one.kind for one in done.hazards] == ["proxy"]
    assert np.array_equal(c, a @ b.T)
    source = MATMUL_SOURCE.replace("init(&empty[s], 2)", "init(&empty[s], 3)")
    a, b, c = matmul_inputs(128, 128, 320)
    with pytest.raises(HazardError, match="deadlock"):
        matmul_kernel(source).simulate(*matmul_arguments(a, b, c), **launch, hazards="collect")
