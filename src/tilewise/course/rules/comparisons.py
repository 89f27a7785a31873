"""Comparisons: pseudocode and other front ends next to a CUDA tab compute what the kernel does."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tilewise.course.lesson import Cell, Lesson
from tilewise.course.rules.model import RunRule
from tilewise.errors import LessonError
from tilewise.kernel.front_ends import FRONT_ENDS, PSEUDOCODE
from tilewise.outputs import AgreeOutput

if TYPE_CHECKING:
    from tilewise.build.run.runner import LessonRun


def _faults(lesson: Lesson, run: LessonRun) -> Iterator[LessonError]:
    agreed = {
        (output.by, output.function, output.kernel)
        for outputs in run.outputs
        for output in outputs
        if isinstance(output, AgreeOutput)
    }
    by_title = {name.casefold(): name for name in FRONT_ENDS}
    for members in lesson.tab_sets:
        shown = [index for index in members if index not in run.skipped]
        for left in (index for index in shown if lesson.cells[index].tab.casefold() in by_title):
            by = by_title[lesson.cells[left].tab.casefold()]
            functions = _functions(lesson.cells[left])
            for right in (index for index in shown if lesson.cells[index].tab.casefold().startswith("cuda")):
                kernels = {kernel.name: name for name, kernel in run.kernels[right].items()}
                if not any((by, function, kernel) in agreed for function in functions for kernel in kernels):
                    yield _not_agreed(lesson.cells[left], lesson.cells[right], by, functions, kernels)


def _functions(cell: Cell) -> list[str]:
    return [node.name for node in ast.parse(cell.source).body if isinstance(node, ast.FunctionDef)]


def _not_agreed(
    left: Cell, right: Cell, by: str, functions: Sequence[str], kernels: Mapping[str, str]
) -> LessonError:
    if not functions:
        message = f'the tab "{left.tab}" defines no function that could be compared with "{right.tab}".'
        return LessonError(left.path, left.first_line, message, "Write it as one function.")
    if not kernels:
        message = f'the tab "{right.tab}" defines no Kernel that could be compared with "{left.tab}".'
        return LessonError(right.path, right.first_line, message, 'Write NAME = Kernel(r"""...""").')
    pair = f"{functions[-1]}, {next(iter(kernels.values()))}"
    message = f'the tabs "{left.tab}" and "{right.tab}" were not compared.'
    named = "" if by == PSEUDOCODE else f', by="{by}"'
    repair = f"Add agree({pair}, cases, rtol=...{named}) in a cell below them."
    return LessonError(left.path, left.first_line, message, repair)


_TABS = """# %%
from tilewise import Kernel, agree, case, normal, output, parallel

# %% tab="Pseudocode"
def double(x, y):
    for i in parallel(len(x)):
        y[i] = 2 * x[i]

# %% tab="CUDA C"
DOUBLE = Kernel('extern "C" __global__ void twice(const float* x, float* y, int n) {'
                '    int i = blockIdx.x * 32 + threadIdx.x; if (i < n) y[i] = 2 * x[i]; }')
"""
COMPARISONS = RunRule(
    "comparisons",
    "Pseudocode and other front ends beside a CUDA tab are compared with it by agree, below them.",
    _TABS
    + """
# %%
sizes = [case(x=normal(n), y=output(n), n=n, grid=2, block=32) for n in (33, 45)]
agree(double, DOUBLE, sizes, atol=0)
""",
    _TABS,
    _faults,
)
