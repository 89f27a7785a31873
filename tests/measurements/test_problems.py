"""What is said of a GPU in problem, and what is refused because of it."""

import pytest

from tilewise.gpu.device import POWER_CAP, State
from tilewise.measurements.problems import clock_problem, explain


@pytest.mark.parametrize(
    ("said", "message", "stop"),
    [
        ("cudaErrorDevicesUnavailable: all CUDA-capable devices are busy", "the GPU failed", True),
        ("CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", "the GPU failed", True),
        ("cudaErrorMemoryAllocation: out of memory", "the memory did not suffice", False),
        ("Out of memory allocating 8,589,934,592 bytes", "the memory did not suffice", False),
        ("something nobody has seen", "recording failed: RuntimeError: something", False),
    ],
)
def test_an_error_of_cuda_is_explained(said, message, stop):
    problem = explain(RuntimeError(said))
    assert problem.message.startswith(message)
    assert problem.message.endswith("The old record is kept.")
    assert said.split(":", maxsplit=1)[0] in problem.message, "what CUDA said is kept"
    assert problem.stop == stop


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
def test_a_clock_that_is_held_down_is_refused_unless_by_the_power_cap(during, refused):
    problem = clock_problem(State(1980.0), during, "n = 8")
    assert (problem is not None) == bool(refused)
    if problem is not None:
        assert problem.message.startswith(refused)
