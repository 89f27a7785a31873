"""Notes of the kernels that a lesson makes and launches."""

import numpy as np
import pytest

from tilewise.cuda.cases import case, normal, output
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.launches import AT_MOST, LaunchLog, logging_launches
from tilewise.kernel.saved_launches import decode, encode
from tilewise.simulator import HazardError

DOUBLE = """\
extern "C" __global__ void twice(const float* x, float* y, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * by;
}
"""


def _case(n: int, block: int) -> object:
    return case(x=normal(n), y=output(n), n=n, by=2.0, grid=-(-n // block), block=block)


def _only(log: LaunchLog) -> tuple[object, ...]:
    (logged,) = log.kernels()
    return tuple((one.case.values["n"], one.block[0]) for one in logged.launches)


def test_ragged_and_large_launches_come_first_and_those_with_other_blocks():
    with logging_launches() as log:
        kernel = Kernel(DOUBLE)
        for n, block in ((64, 32), (76, 32), (75, 32), (20_000, 32), (40, 32), (41, 64), (76, 32)):
            kernel.on(_case(n, block)).simulate()
    assert _only(log) == ((76, 32), (41, 64), (75, 32))
    assert len(_only(log)) == AT_MOST


def test_arrays_of_no_recipe_are_copied_before_the_kernel_writes_and_give_way_to_recipes():
    with logging_launches() as log:
        kernel = Kernel(DOUBLE)
        y = np.full(40, 7, np.float32)
        kernel.simulate(np.ones(40, np.float32), y, 40, 2.0, grid=2, block=32)
        (logged,) = log.kernels()
        assert (logged.launches[0].case.values["y"] == 7).all() and (y == 2).all()
        kernel.on(_case(33, 32)).run()
        kernel.simulate(np.ones(40, np.float32), y, 40, 2.0, grid=2, block=32)
    assert _only(log) == ((33, 32), (40, 32))


@pytest.mark.parametrize("hazards", ["raise", "collect"])
@pytest.mark.parametrize("by_case", [True, False])
def test_a_kernel_that_had_a_hazard_keeps_no_launch(hazards, by_case):
    with logging_launches() as log:
        kernel = Kernel(DOUBLE.replace("i < n", "i <= n"))
        made = _case(40, 32)
        try:
            if by_case:
                kernel.on(made).simulate(hazards=hazards)
            else:
                kernel.simulate(*made.make().values(), grid=2, block=32, hazards=hazards)
        except HazardError:
            pass
        kernel.on(case(x=normal(64), y=output(64), n=63, by=2.0, grid=2, block=32)).run()
    (logged,) = log.kernels()
    assert logged.kernel is kernel and logged.launches == ()


def test_what_is_noted_comes_back_from_json():
    import json

    with logging_launches() as log:
        kernel = Kernel(DOUBLE, defines={"T": 4}, options=("-fmad=false",))
        kernel.on(_case(40, 32)).run()
        kernel.simulate(
            np.arange(8, dtype=np.float32), np.zeros(8, np.float32), np.int32(8), 0.1, grid=1, block=32
        )
    (logged,) = log.kernels()
    again = decode(json.loads(json.dumps(encode(logged))), "lessons/part/one.py")
    assert [one.fingerprint() for one in again.launches] == [one.fingerprint() for one in logged.launches]
    assert again.kernel.origin == ("lessons/part/one.py", kernel.origin[1])
    assert again.kernel.fingerprint() == kernel.fingerprint()


def test_a_build_hands_on_the_kernels_of_a_lesson_also_from_the_cache(project):
    lesson = project.lesson(
        "# %%\nfrom tilewise import Kernel, case, normal, output\n\n"
        f'TWICE = Kernel(r"""{DOUBLE}""")\n'
        "for n in (40, 75):\n"
        "    TWICE.on(case(x=normal(n), y=output(n), n=n, by=2.0, grid=3, block=32)).run()\n"
    )
    for executed in (True, False):
        run = project.run(lesson)
        assert run.executed is executed
        (logged,) = (decode(one, lesson.path) for one in run.launches)
        assert logged.kernel.name == "twice" and [one.case.values["n"] for one in logged.launches] == [75, 40]
