"""The course's kernels come under the comparison by being launched in a lesson, and by nothing else."""

import pytest

from tilewise.kernel.kernel import Kernel
from validation.collection import COURSE, load_specimens, save_specimens, specimens
from validation.specimen import inexact

LESSON = '''\
# %%
from tilewise import Kernel, case, expect_hazard, normal, output

SOURCE = r"""
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i LESS n) y[i] = x[i] * BY;
}
"""
kernels = [Kernel(SOURCE, defines={"LESS": "<", "BY": by}) for by in (2, 3)]
WRONG = Kernel(SOURCE, defines={"LESS": "<=", "BY": 2})

# %%
def lines(n, block):
    return case(x=normal(n), y=output(n), n=n, grid=-(-n // block), block=block)


for kernel in kernels:
    for n, block in ((40, 32), (75, 32), (64, 64)):
        kernel.on(lines(n, block)).run()
WRONG.on(case(x=normal(40), y=output(40), n=39, grid=2, block=32)).run()
expect_hazard(WRONG.on(lines(40, 32)), "out of bounds")
'''


def test_every_kernel_that_a_lesson_launches_rightly_is_a_specimen(project):
    project.lesson(LESSON)
    found = specimens(project.root / "lessons")
    assert [(one.name, one.launch.case.values["n"]) for one in found] == [
        ("part/one: scale with LESS=<, BY=2, blocks of 32", 75),
        ("part/one: scale with LESS=<, BY=2, blocks of 64", 64),
        ("part/one: scale with LESS=<, BY=3, blocks of 32", 75),
        ("part/one: scale with LESS=<, BY=3, blocks of 64", 64),
    ]
    assert all(one.exact and one.launch.kernel.origin == ("lessons/part/one.py", 10) for one in found)


def test_specimens_come_back_from_a_file(tmp_path):
    file = tmp_path / "list.json"
    some = [one for one in specimens(COURSE) if one.name.startswith(("machine/warps", "memory/precision"))]
    save_specimens(some, file)
    known = {one.name: (one.key, one.tolerance, one.launch.kernel.origin) for one in some}
    assert {
        one.name: (one.key, one.stated, one.launch.kernel.origin) for one in load_specimens(file)
    } == known


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y[i] = x[i] * 0.5f + 1.0f;", False),
        ("y[i] = x[i] / 3.0f + sqrtf(x[i]);", False),
        ("y[i] = expf(x[i]);", True),
        ("y[i] = __expf(x[i]);", True),
        ("y[i] = rsqrtf(x[i]);", True),
        ("atomicAdd(y, x[i]);", True),
        ("atomicAdd((int*)y, 1);", False),
        ("atomicExch(y, x[i]);", False),
    ],
)
def test_what_need_not_give_the_same_bits(line, expected):
    kernel = Kernel(
        f'extern "C" __global__ void k(const float* x, float* y) {{ int i = threadIdx.x; {line} }}\n'
    )
    assert inexact(kernel) is expected
