"""The course's own headers: put in place for both backends, with true lines, and part of every key."""

import numpy as np
import pytest

from tilewise import HazardError, Header, Kernel, tensor_map
from tilewise.cuda.headers import as_written, header, names, whole_text, with_headers
from tilewise.cuda.kernel_source import KernelError

SOURCE = """#include "hopper.cuh"
#define ROWS 8

// "out" has ROWS * 32 integers. #include "hopper.cuh" in a comment stays.
extern "C" __global__ void load_box(const __grid_constant__ TensorMap map, int* out) {
    __shared__ __align__(1024) int tile[ROWS * 32];
    __shared__ u64 full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init_fence();
        mbarrier_arrive_expect_tx(&full, sizeof(tile));
        tma_load_2d(tile, &map, 0, 0, &full);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    for (int i = threadIdx.x; i < ROWS * 32; i += 32) out[i] = tile[i];
}
"""
OPTIONS = ("-std=c++17", "-arch=sm_90a")


def launch(source: str) -> np.ndarray:
    array = np.arange(16 * 32, dtype=np.int32).reshape(16, 32)
    out = np.zeros((8, 32), np.int32)
    Kernel(source, options=OPTIONS).simulate(tensor_map(array, box=(8, 32)), out, grid=1, block=32)
    assert (out == array[:8]).all()
    return out


def test_a_kernel_with_a_header_runs():
    launch(SOURCE)


def test_in_place_and_back_again():
    whole = with_headers(SOURCE)
    assert whole.count("static __device__ void mbarrier_init(") == 1
    assert '#line 2 "kernel.cu"\n#define ROWS 8' in whole
    assert as_written("#define A 1\n#line 1\n" + whole) == SOURCE
    assert as_written(whole) == SOURCE
    assert with_headers(whole) == whole
    assert "#line" not in whole_text(SOURCE)
    launch(whole_text(SOURCE))


def test_hazards_in_a_header_name_the_line_that_called_it():
    with pytest.raises(HazardError) as caught:
        launch(SOURCE.replace("        mbarrier_init_fence();\n", ""))
    line = next(at for at, text in enumerate(SOURCE.split("\n"), 1) if "tma_load_2d" in text) - 1
    assert caught.value.hazard.line == line
    with pytest.raises(HazardError) as caught:
        launch("\n\n" + SOURCE.replace("    mbarrier_wait(&full, 0);\n", ""))
    assert caught.value.hazard.kind == "undelivered"


def test_the_header_counts_in_tokens_and_lines_stay():
    kernel = Kernel(SOURCE, options=OPTIONS)
    assert {"mbarrier_arrive_expect_tx", "cvt"} - set(kernel.tokens) == {"cvt"}
    assert kernel.function.line == 5
    assert kernel.parameters[0].name == "map"
    assert '#line 2 "test_headers.py"' in kernel.gpu_source


@pytest.mark.parametrize("file", ['"missing.cuh"', '"../secret.cuh"', '"/etc/passwd"', "<../kernel.py>"])
def test_other_files_are_not_read(file):
    kernel = Kernel(f"#include {file}\n{SOURCE}", options=OPTIONS)
    assert [(one.line, one.what) for one in kernel.left_out] == [(1, f"#include {file}")]
    assert "root" not in kernel.whole


def test_regions_of_a_header():
    shown = Header("hopper.cuh").region("mbarrier")
    assert "mbarrier_wait" in shown.source
    first = header("hopper.cuh").split("\n")[shown.first_line - 1]
    assert shown.source.startswith(first)
    with pytest.raises(KernelError, match="no region"):
        Header("hopper.cuh").region("nothing")
    general = ("general_16bit.cuh", "general_activation.cuh", "general_clusters.cuh", "general_rows.cuh")
    assert names() == (*general, "hopper.cuh")
