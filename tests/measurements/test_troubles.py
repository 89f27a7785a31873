"""What is said of a GPU in trouble, and what is refused because of it."""

from __future__ import annotations

import pytest

from tilewise.gpu.device import POWER_CAP, State
from tilewise.measurements.troubles import company, counters_refused, explain, slowdown


@pytest.mark.parametrize(
    ("said", "message", "stop"),
    [
        ("cudaErrorDevicesUnavailable: all CUDA-capable devices are busy", "the GPU is gone at n = 8", True),
        ("cudaErrorNoDevice: no CUDA-capable device is detected", "the GPU is gone", True),
        ("CUDA_ERROR_UNKNOWN: unknown error", "the GPU is gone", True),
        ("cudaErrorECCUncorrectable: uncorrectable ECC error", "the GPU is gone", True),
        ("cudaErrorIllegalAddress: an illegal memory access", "a kernel faulted on the GPU at n = 8", True),
        ("CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", "a kernel faulted on the GPU", True),
        ("cudaErrorMemoryAllocation: out of memory", "the memory did not suffice at n = 8", False),
        ("Out of memory allocating 8,589,934,592 bytes", "the memory did not suffice", False),
        ("something nobody has seen", "recording failed at n = 8: RuntimeError: something", False),
    ],
)
def test_an_error_of_cuda_is_explained(said: str, message: str, stop: bool) -> None:
    trouble = explain(RuntimeError(said), "n = 8")
    assert trouble.message.startswith(message)
    assert trouble.message.endswith("The old record is kept.")
    assert said.split(":", maxsplit=1)[0] in trouble.message, "what CUDA said is kept"
    assert trouble.stop == stop


def test_out_of_memory_says_how_much_there_is() -> None:
    trouble = explain(MemoryError(), "", {"free_gb": 3.2, "total_gb": 85.0})
    assert "Its GPU has 3.2 of 85.0 GB free." in trouble.message
    assert trouble.repair.startswith("Stop what else uses the GPU")


def test_company_is_counted() -> None:
    assert company(None, "n = 8") is None, "what cannot be read is not held against anyone"
    assert company(0, "n = 8") is None
    one, more = company(1, "n = 8"), company(3, "")
    assert one is not None
    assert more is not None
    assert one.message.startswith("another process computes on this GPU at n = 8: its times")
    assert more.message.startswith("3 other processes compute on this GPU: its times")


@pytest.mark.parametrize(
    ("during", "refused"),
    [
        (State(1980.0), ""),
        (State(1900.0), ""),
        (State(1400.0), "the clock was held down at n = 8 from 1980 to 1400 MHz"),
        (State(1400.0, throttled_by=(POWER_CAP,)), ""),
        (State(1975.0, throttled_by=("its temperature (hardware)",)), "the clock was held down by its temp"),
        (State(None), ""),
    ],
)
def test_a_clock_that_is_held_down_is_refused_unless_by_the_power_cap(during: State, refused: str) -> None:
    trouble = slowdown(State(1980.0), during, "n = 8")
    assert (trouble is not None) == bool(refused)
    if trouble is not None:
        assert trouble.message.startswith(refused)


def test_counters_that_may_not_be_read_are_told_from_a_tool_that_fails() -> None:
    message, repair = counters_refused("==ERROR== ERR_NVGPUCTRPERM - The user does not have permission")
    assert message.endswith("(ERR_NVGPUCTRPERM).")
    assert "NVreg_RestrictProfilingToAdminUsers=0" in repair
    assert counters_refused("no kernels\n were profiled")[0].endswith("no kernels were profiled.")
