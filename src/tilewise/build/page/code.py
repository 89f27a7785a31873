"""Code cells: Python as Python, kernels as CUDA with their own line numbers, tabs as sets, outputs below.

In: a code cell and its outputs. Out: Markdown. A kernel that a cell assigns is taken out of its Python string
and becomes a separate block; the rest of the cell stays around it, in order. Further kernels with a text that
is already shown in the cell stay lines of Python. A folded cell comes below its outputs, and so does a line
that only shows a region of a kernel.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from html import escape
from types import MappingProxyType

from tilewise.build.page.by_machine import blocks
from tilewise.course.lesson import Cell
from tilewise.frameworks import listed
from tilewise.kernel.front_ends import PSEUDOCODE
from tilewise.outputs import Context, HazardOutput, KernelOutput, Output, Task, Text
from tilewise.outputs.kernel import LONGEST_OPEN, without_markers
from tilewise.outputs.kinds import attribute, fence, folded

AROUND = "Code that makes the kernel"
"""The title of the fold with the Python around a kernel in a CUDA tab."""
EXCERPT = "Code of the excerpt"
"""The title of the fold of a cell that only shows regions of kernels."""
_EXTRAS = frozenset({"torch", "triton"})
"""Packages for which a build without them shows how to add them."""
_TASKS = frozenset({"exercise", "puzzle"})
"""Functions whose calls contain an answer, which readers only see in a fold."""
_SHOWING = _TASKS | {"agree", "check", "expect_hazard", "measure", "print", "show"}
"""Functions that show an output."""
_FOR_FORMATTERS = re.compile(r"[ \t]*# fmt: (?:skip|off|on)$", re.M)
"""Comments that only concern formatters."""


def code_cell(
    cell: Cell,
    outputs: Sequence[Output],
    kernels: Mapping[str, KernelOutput],
    missing: Sequence[str],
    context: Context,
    pending: str = "",
    others: Mapping[str, Sequence[Output]] = MappingProxyType({}),
    machine: str = "",
) -> str:
    """A code cell and its outputs.

    Args:
        cell: the cell.
        outputs: its outputs, in order.
        kernels: the kernels that it bound to names.
        missing: its needs that the building machine lacks.
        context: the page, as outputs see it.
        pending: the note for a cell that has not ended; ``outputs`` are then those of the last run.
        others: by further machine, the outputs with its records.
        machine: the machine whose records the outputs use.
    """
    called = _calls(cell.source) if pending else frozenset()
    is_task = any(isinstance(output, Task) for output in outputs) or bool(called & _TASKS)
    fold = cell.fold or (EXCERPT if _is_excerpt(cell.source) else "")
    is_folded = bool(fold)
    code = "" if is_task and not is_folded else source(cell, kernels, context)
    first, further = _reports(outputs)
    below = blocks(first, {name: _reports(shown)[0] for name, shown in others.items()}, machine, context)
    if further:
        below.append(_also_reported(further, context))
    missing_note = ""
    if missing:
        is_recorded = any(
            isinstance(output, Text) and output.source.startswith("recorded") for output in outputs
        )
        missing_note = "" if is_folded and is_recorded else _missing_note(missing, is_recorded, context)
        if is_folded and is_recorded:
            code = f"This cell needs {listed(list(missing))}; its output was recorded.\n\n{code}"
    if is_folded and code:
        code = folded(fold, "code", code)
    if pending and (outputs or called & _SHOWING or _ends_with_a_value(cell.source)):
        below.insert(0, context.html_block(f'<div class="tw-pending">{pending}</div>'))
    below.append(missing_note)
    parts = [*below, code] if is_task or is_folded else [code, *below]
    return "\n\n".join(part for part in parts if part)


def _reports(outputs: Sequence[Output]) -> tuple[Sequence[Output], list[HazardOutput]]:
    """The outputs without the hazards after the first one, and those hazards."""
    hazards = [output for output in outputs if isinstance(output, HazardOutput)]
    further = hazards[1:]
    return [output for output in outputs if not any(output is hazard for hazard in further)], further


def _also_reported(hazards: Sequence[HazardOutput], context: Context) -> str:
    """A fold with the hazards after a cell's first."""
    kinds = escape(listed([hazard.hazard for hazard in hazards]), quote=False)
    inside = "\n".join(hazard.markdown(replace(context, plain=True)) for hazard in hazards)
    return context.html_block(
        f'<details class="code"><summary>Also reported: {kinds}</summary>\n{inside}\n</details>'
    )


def tab_set(cells: Sequence[tuple[str, str]], fresh: bool) -> str:
    """A set of tabs.

    Args:
        cells: title and Markdown of each tab.
        fresh: whether another set is directly above, which this one must not join.
    """
    tabs = []
    for at, (title, body) in enumerate(cells):
        opening = "===!" if fresh and at == 0 else "==="
        inside = "\n".join(f"    {line}" if line.strip() else "" for line in body.splitlines())
        tabs.append(f'{opening} "{escape(attribute(title), quote=False)}"\n\n{inside}')
    return "\n\n".join(tabs)


def source(cell: Cell, kernels: Mapping[str, KernelOutput], context: Context) -> str:
    """A cell's code: its Python, with its kernels as CUDA in between, or above in a CUDA tab."""
    statements = _statements(cell.source)
    is_cuda = cell.tab.casefold().startswith("cuda")
    lines = cell.source.split("\n")
    parts: list[str] = []
    python: list[str] = parts
    if is_cuda and not cell.fold and any(_kernel_of(each, kernels, is_cuda) for each in statements):
        python = []  # code that prepares a kernel goes into a fold below it
    texts: set[str] = set()  # of the kernels already shown
    pending = 1  # the first line not yet shown
    if cell.tab == PSEUDOCODE:  # imports are noise in pseudocode
        for statement in statements:
            if not isinstance(statement, ast.Import | ast.ImportFrom):
                break
            pending = (statement.end_lineno or pending) + 1
    for statement in statements:
        kernel = _kernel_of(statement, kernels, is_cuda)
        if kernel is not None and kernel[1].source.strip() in texts:
            kernel = None
        if kernel is None:
            continue
        first = _first_line(statement)
        python += _python(lines, pending, first - 1, cell, is_cuda)
        texts.add(kernel[1].source.strip())
        parts.append(_cuda(kernel[0], kernel[1], context, _literal_line(statement, cell)))
        pending = (statement.end_lineno or first) + 1
    python += _python(lines, pending, len(lines), cell, is_cuda)
    if python and python is not parts:
        parts.append(folded(AROUND, "code", "\n\n".join(python)))
    return "\n\n".join(parts)


@lru_cache(maxsize=1024)
def _statements(source: str) -> tuple[ast.stmt, ...]:
    """A cell's statements; cached, because every edit of its prose renders a page again."""
    return tuple(ast.parse(source).body)


@lru_cache(maxsize=1024)
def _calls(source: str) -> frozenset[str]:
    nodes = (node for statement in _statements(source) for node in ast.walk(statement))
    return frozenset(
        node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    )


def _ends_with_a_value(source: str) -> bool:
    statements = _statements(source)
    return bool(statements) and isinstance(statements[-1], ast.Expr)


def _is_excerpt(source: str) -> bool:
    """Whether a cell only shows regions of kernels: ``KERNEL.region("loop")``."""
    statements = _statements(source)
    return bool(statements) and all(
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Attribute)
        and statement.value.func.attr == "region"
        for statement in statements
    )


def _first_line(statement: ast.stmt) -> int:
    decorators: list[ast.expr] = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(decorator.lineno for decorator in decorators)])


def _python(lines: Sequence[str], first: int, last: int, cell: Cell, is_cuda: bool) -> list[str]:
    """The Python between two kernels as a fence; in a CUDA tab, nothing if it is only imports."""
    body = list(lines[first - 1 : last])
    while body and not body[0].strip():
        body.pop(0)
        first += 1
    text = _FOR_FORMATTERS.sub("", "\n".join(body)).rstrip()
    if not text or (is_cuda and _only_imports(text)):
        return []
    shown, regions, markers = without_markers(text, blank=False)
    language = "python-cuda" if "__global__" in shown else "python"
    attributes = [f".{language} .tw-code", f'data-line="{cell.source_line + first - 1}"']
    if regions:
        attributes.append(f'data-regions="{regions}" data-dropped="{markers}"')
    if cell.title:
        attributes.append(f'title="{attribute(cell.title)}"')
    return [fence(shown, " ".join(attributes))]


def _only_imports(text: str) -> bool:
    return all(isinstance(statement, ast.Import | ast.ImportFrom) for statement in ast.parse(text).body)


def _kernel_of(
    statement: ast.stmt, kernels: Mapping[str, KernelOutput], is_cuda: bool
) -> tuple[str, KernelOutput] | None:
    """The name and the kernel, or kernels' text, that a statement assigns, if that is all it does."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return None
    target, value = statement.targets[0], statement.value
    text_literal = _kernel_text(value) if is_cuda else None
    if isinstance(target, ast.Name) and text_literal is not None:
        return target.id, KernelOutput(name=target.id, source=text_literal.lstrip("\n"))
    if not (isinstance(target, ast.Name) and isinstance(value, ast.Call)):
        return None
    is_kernel, text = _literal(value)
    known = kernels.get(target.id)
    if known is not None and (text is not None or is_cuda):
        return target.id, known
    if is_kernel and text is not None:
        return target.id, KernelOutput(name=target.id, source=text.lstrip("\n"))
    return None


def _kernel_text(value: ast.expr) -> str | None:
    """A value's text if it is a literal with kernels."""
    text = value.value if isinstance(value, ast.Constant) else None
    return text if isinstance(text, str) and "__global__" in text else None


def _literal(call: ast.Call) -> tuple[bool, str | None]:
    """Whether a call creates a kernel, and the kernel's text if it is a literal."""
    is_kernel = isinstance(call.func, ast.Name) and call.func.id == "Kernel"
    literal = call.args[0] if is_kernel and call.args else None
    text = literal.value if isinstance(literal, ast.Constant) and isinstance(literal.value, str) else None
    return is_kernel, text


def _literal_part(call: ast.Call) -> str | None:
    """The literal part of a kernel's text in a call, alone or added to other text."""
    is_kernel, text = _literal(call)
    if is_kernel and call.args and isinstance(call.args[0], ast.BinOp):
        parts = [node.value for node in ast.walk(call.args[0]) if isinstance(node, ast.Constant)]
        text = "\n".join(part for part in parts if isinstance(part, str))
    return text


def open_lines(cell: Cell) -> int:
    """The number of a cell's code lines that are open on its page; long kernels and folded cells are not."""
    if cell.fold or _is_excerpt(cell.source):
        return 0
    is_cuda = cell.tab.casefold().startswith("cuda")
    lines, shown = len(cell.source.splitlines()), 0
    has_kernel = False
    for statement in _statements(cell.source):
        value = statement.value if isinstance(statement, ast.Assign) else None
        text = _literal_part(value) if isinstance(value, ast.Call) else None
        if value is not None and is_cuda:
            text = text or _kernel_text(value)
        has_kernel |= bool(text)
        kernel_lines = len((text or "").strip().splitlines())
        lines -= kernel_lines if kernel_lines > LONGEST_OPEN else 0
        shown += kernel_lines if kernel_lines <= LONGEST_OPEN else 0
    return shown if is_cuda and has_kernel else lines


def _literal_line(statement: ast.stmt, cell: Cell) -> int:
    """The line in the lesson's file of a kernel's line 1; 0 if its text is not there."""
    assert isinstance(statement, ast.Assign)
    value = statement.value
    literal = value if not isinstance(value, ast.Call) else value.args[0] if value.args else None
    if not (isinstance(literal, ast.Constant) and isinstance(literal.value, str)):
        return 0
    blank = len(literal.value) - len(literal.value.lstrip("\n"))
    return cell.source_line + literal.lineno - 1 + blank


def _cuda(variable: str, kernel: KernelOutput, context: Context, line: int) -> str:
    block = kernel.fence(context.unique(f"kernel-{kernel.name}"), variable, line)
    if len(kernel.source.strip().splitlines()) <= LONGEST_OPEN:
        return block
    return folded(f"{variable}, {len(kernel.source.strip().splitlines())} lines of CUDA C", "kernel", block)


def _missing_note(missing: Sequence[str], is_recorded: bool, context: Context) -> str:
    rest = "its output was recorded." if is_recorded else "this build ran without it."
    if not is_recorded and _EXTRAS.issuperset(missing):
        rest += " Run <code>make frameworks</code> to include it."
    what = escape(listed(list(missing)))
    return context.html_block(
        f'<details class="tw-needs"><summary>Needs {what}</summary>'
        f"<p>This cell needs {what}; {rest}</p></details>"
    )
