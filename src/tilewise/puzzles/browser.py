"""A puzzle's data for judging in the browser: launches with expected results, and compiled programs.

In: a `Puzzle`. Out: plain data for ``site/web/run/judge.js`` and ``site/web/play/solve.js``; and, for the
scripts' build, ``wording`` in JavaScript. Results and limits are computed here, because they are Python code.
"""

from __future__ import annotations

import ast
import base64
import itertools
import zlib
from operator import attrgetter
from typing import Any

import numpy as np

from tilewise import bf16
from tilewise.cuda.cases import Array
from tilewise.cuda.tensor_map import TensorMap
from tilewise.errors import LessonError
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.launches import without_logging
from tilewise.puzzles import wording
from tilewise.puzzles.judging import MAX_STEPS, signature
from tilewise.puzzles.model import COUNTERS, Puzzle, Trial
from tilewise.puzzles.wrong_values import marked
from tilewise.simulator.browser.program import program_data
from tilewise.simulator.browser.stepping import HELPERS
from tilewise.simulator.browser.translation import Translation, named
from tilewise.simulator.engine.shared import COUNTERS as COLUMNS
from tilewise.simulator.engine.shared import GLOBAL_BASE, GLOBAL_SHIFT, numbers
from tilewise.simulator.results import hazards
from tilewise.simulator.results.counts import Counts

_GENERAL = r"""
/** A number as Python's `g` writes it. */
export function general(value) {
  if (!Number.isFinite(value)) return named(value);
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
  const sign = value < 0 ? "-" : "";
  const [digits, power] = rounded(value, 6);
  const cut = (text) => (text.includes(".") ? text.replace(/\.?0*$/, "") : text);
  if (power < -4 || power >= 6) {
    const exponent = String(Math.abs(power)).padStart(2, "0");
    return `${sign}${cut(`${digits[0]}.${digits.slice(1)}`)}e${power < 0 ? "-" : "+"}${exponent}`;
  }
  if (power < 0) return sign + cut(`0.${"0".repeat(-power - 1)}${digits}`);
  return sign + cut(`${digits.slice(0, power + 1)}.${digits.slice(power + 1)}`);
}
export { grouped };
"""


def page_data(puzzle: Puzzle) -> dict[str, Any]:
    """The page's data to show, run and judge a puzzle.

    ``code``: the solution in pieces, between which the ``blanks`` are, each a list of texts. ``programs``:
    one for each choice of texts, the last blank's varying fastest. ``trials``: launches, as
    ``kernel/try_it.py`` has them, with ``expected`` arrays and the ``most`` of each of ``limits``.

    Raises:
        LessonError: a blank is not in the solution, or one of its texts does not compile.
    """
    kernel = Kernel(puzzle.solution, options=puzzle.options)
    with without_logging():
        variants = [
            program_data(Kernel(text, kernel.name, options=puzzle.options).entry) for text in texts(puzzle)
        ]
        trials = [_trial(puzzle, kernel, trial) for trial in puzzle.trials]
    index = Counts.of(np.arange(len(COLUMNS), dtype=np.uint64))
    return {
        "kernel": kernel.name,
        "signature": signature(kernel),
        "options": list(puzzle.options),
        "gaps": puzzle.gaps,
        "code": list(_pieces(puzzle)),
        "blanks": [_shuffled(puzzle, at) for at in range(len(puzzle.blanks))],
        "programs": variants,
        "trials": trials,
        "limits": [
            {
                "short": (counter := COUNTERS[limit.counter]).short,
                "words": counter.words,
                "repair": counter.repair,
                "because": limit.because,
                "counter": attrgetter(limit.counter)(index),
            }
            for limit in puzzle.limits
        ],
        "rtol": puzzle.rtol,
        "atol": puzzle.atol,
        "maxSteps": MAX_STEPS,
    }


def texts(puzzle: Puzzle) -> list[str]:
    """The kernel's text for each choice, the last blank's varying fastest."""
    pieces = _pieces(puzzle)
    choices = itertools.product(*(_shuffled(puzzle, at) for at in range(len(puzzle.blanks))))
    return [
        "".join(part for pair in zip(pieces, (*chosen, ""), strict=True) for part in pair)
        for chosen in choices
    ]


def _pieces(puzzle: Puzzle) -> tuple[str, ...]:
    """The solution's text between its blanks, each at its first place after the previous one."""
    pieces, rest = [], puzzle.solution
    for right, *_ in puzzle.blanks:
        before, blank, rest = rest.partition(right)
        if not blank or "\n" in right:
            message = f"the blank `{right}` is no part of a line of the solution behind the blank before."
            raise LessonError(puzzle.file, 0, message)
        pieces.append(before)
    return (*pieces, rest)


def _shuffled(puzzle: Puzzle, at: int) -> list[str]:
    """The texts of a blank in an order that gives nothing away."""
    return sorted(puzzle.blanks[at], key=lambda text: zlib.crc32(f"{puzzle.name} {text}".encode()))


def _trial(puzzle: Puzzle, kernel: Kernel, trial: Trial) -> dict[str, Any]:
    values = marked(trial.case.make())
    case = trial.case
    assert case.grid is not None and case.block is not None, "a puzzle's case has its launch"
    return {
        "label": trial.label,
        "grid": list(case.grid),
        "block": list(case.block),
        "sharedBytes": case.shared_bytes,
        "arguments": [
            {
                "name": parameter.name,
                "written": parameter.is_pointer and not parameter.is_const,
                **_argument(values, parameter, number),
            }
            for number, parameter in enumerate(kernel.parameters)
        ],
        "expected": [
            {"name": name, "type": right.dtype.str[1:], "data": _encoded(right)}
            for name, right in puzzle.expected(values).items()
        ],
        "most": [limit.most(values) for limit in puzzle.limits],
    }


def _argument(values: Any, parameter: Any, number: int) -> dict[str, Any]:
    value = values[parameter.name]
    if not isinstance(value, TensorMap):
        if isinstance(value, np.ndarray) and value.ndim:
            return _array(parameter.name, value)
        dtype = parameter.dtype
        return {"type": dtype.str[1:], "value": np.asarray(value, dtype).item()}
    assert value.name is not None, "a puzzle's tensor map names its array"
    source = values[value.name]
    raw = value.of(source).described(GLOBAL_BASE + (number << GLOBAL_SHIFT), numbers("TYPE"))
    kind = "bf16" if value.kind == bf16.NAME else None
    return {**_array(value.name, source, kind), "raw": list(raw)}


def _array(name: str, value: Array, kind: str | None = None) -> dict[str, Any]:
    """An array; arguments with equal ``same`` share it."""
    return {
        "type": kind or value.dtype.str[1:],
        "shape": list(value.shape),
        "fill": {"kind": "given"},
        "data": _encoded(value),
        "same": name,
    }


def _encoded(value: Array) -> str:
    return base64.b64encode(np.ascontiguousarray(value).tobytes()).decode()


def script() -> str:
    """``wording`` as a JavaScript module, with the place of a hazard, and Python's number formats."""
    translate = Translation(big=False)
    hazard = named(hazards, "Hazard")
    (place,) = (
        node for node in ast.walk(hazard) if isinstance(node, ast.FunctionDef) and node.name == "place"
    )
    return "\n".join(
        [
            HELPERS,
            _GENERAL,
            f"export const wording = {translate.module(wording, {})};",
            translate.function(place),
            "export const placeOf = (hazard) => place.call(hazard);",
        ]
    )
