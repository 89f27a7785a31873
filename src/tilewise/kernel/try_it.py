"""`try_it`: a kernel whose sizes a reader may change on the page, where it runs in the browser.

In: the function that makes a case from sizes, the kernel, and what each size may be. Out: a `TryOutput`. The
function is called once with sizes that write down what is computed from them, so the page can do the same for
others; then with many plain ones, to see that it does.
"""

from __future__ import annotations

import base64
import dataclasses
import random
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from tilewise import bf16
from tilewise.cuda.cases import Array, Case, Dim3, Recipe
from tilewise.cuda.kernel_source import KernelError
from tilewise.cuda.tensor_map import TensorMap
from tilewise.figures.kinds.stepped import traced_of
from tilewise.kernel.chains import as_case
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.launch import Launch
from tilewise.kernel.launches import without_logging
from tilewise.outputs.base import sink
from tilewise.outputs.try_it import TryOutput
from tilewise.simulator import HazardError, Run, Trace
from tilewise.simulator.engine.shared import GLOBAL_BASE, GLOBAL_SHIFT, numbers
from tilewise.simulator.results.first_warp import first_warp

Formula: TypeAlias = "int | float | str | list[Any]"
"""A number, a size's name, or an operator with two formulas."""
Choices: TypeAlias = "tuple[int, int, int] | list[int]"

_TRIED = 200
_CAPTION = "Change a size and the kernel runs again, in your browser."
_LAUNCHES = "Choose another option, and the kernel runs in your browser."


class Size(int):
    """A whole number that knows how it was computed from the sizes that a reader may change."""

    formula: Formula

    def __new__(cls, value: int, formula: Formula) -> Size:
        """A number with its formula."""
        made = super().__new__(cls, value)
        made.formula = formula
        return made

    def __add__(self, other: int) -> int:
        return _computed("+", self, other)

    def __radd__(self, other: int) -> int:
        return _computed("+", other, self)

    def __sub__(self, other: int) -> int:
        return _computed("-", self, other)

    def __rsub__(self, other: int) -> int:
        return _computed("-", other, self)

    def __mul__(self, other: int) -> int:
        return _computed("*", self, other)

    def __rmul__(self, other: int) -> int:
        return _computed("*", other, self)

    def __floordiv__(self, other: int) -> int:
        return _computed("//", self, other)

    def __rfloordiv__(self, other: int) -> int:
        return _computed("//", other, self)

    def __mod__(self, other: int) -> int:
        return _computed("%", self, other)

    def __rmod__(self, other: int) -> int:
        return _computed("%", other, self)

    def __neg__(self) -> int:
        return _computed("-", 0, self)


_OPERATORS: Mapping[str, Callable[[int, int], int]] = {
    "+": int.__add__,
    "-": int.__sub__,
    "*": int.__mul__,
    "//": int.__floordiv__,
    "%": int.__mod__,
}


def _computed(operator: str, left: int, right: int) -> int:
    if not isinstance(left, int) or not isinstance(right, int):
        return NotImplemented
    value = _OPERATORS[operator](int(left), int(right))
    return Size(value, [operator, _formula(left), _formula(right)])


def _formula(value: Any) -> Formula:
    if isinstance(value, Size):
        return value.formula
    if isinstance(value, np.generic):
        value = value.item()
    return int(value) if isinstance(value, bool | int) else float(value)


def value_of(formula: Formula, sizes: Mapping[str, int]) -> int | float:
    """What a formula is worth; ``site/web/run/launch.js`` does the same."""
    if isinstance(formula, str):
        return sizes[formula]
    if isinstance(formula, list):
        operator, left, right = formula
        return _OPERATORS[operator](int(value_of(left, sizes)), int(value_of(right, sizes)))
    return formula


@dataclass(frozen=True)
class _Range:
    name: str
    values: Sequence[int]
    """In order."""
    start: int


def _range(name: str, given: Choices) -> _Range:
    if isinstance(given, list) and given:
        return _Range(name, sorted(given), given[0])
    if isinstance(given, tuple) and len(given) == 3 and given[0] <= given[1] <= given[2]:
        return _Range(name, range(given[0], given[2] + 1), given[1])
    raise KernelError(
        f"try_it: {name} is {given!r}. Give (least, start, most), or a list of choices, the start first."
    )


Make: TypeAlias = "Callable[..., Case]"


def try_it(
    make: Make | Mapping[str, Make] | Mapping[str, Launch],
    kernel: Kernel | Mapping[str, Kernel] | None = None,
    *,
    caption: str | None = None,
    **sizes: Choices,
) -> None:
    """Let readers run a kernel on the page, with sizes of their own.

    Args:
        make: makes the case from the sizes, by their names; it may add, subtract, multiply and divide
            (``//``, ``%``, ``ceil_div``) them, and nothing else. Where kernels are launched differently,
            one for each, by the kernels' labels. Without a kernel: launches by their labels, which no size
            changes.
        kernel: what runs, or several by their labels; the first is shown.
        caption: a sentence below the title; None for one that says what to do.
        **sizes: of each size ``(least, start, most)``, or a list of choices with the start first.

    Shows the run at the start, which the page has before anything is changed and where no script runs.

    Raises:
        KernelError: a size has no possible choices, the case cannot be followed, or has something that the
            page cannot make.
    """
    ranges = [_range(name, given) for name, given in sizes.items()]
    launched: dict[str, Any] = dict(make) if isinstance(make, Mapping) else {}
    if kernel is None:
        if not launched:
            raise KernelError("try_it: give a kernel, or launches by their labels.")
        kernel = {name: one.kernel for name, one in launched.items()}
        launched = {name: partial(as_case, one) for name, one in launched.items()}
    kernels = dict(kernel) if isinstance(kernel, Mapping) else {kernel.name: kernel}
    label, first = next(iter(kernels.items()))
    makes: dict[str, Make] = launched or dict.fromkeys(kernels, make)
    if list(makes) != list(kernels):
        raise KernelError(
            f"try_it: the cases are for {list(makes)}, the kernels {list(kernels)}. Use the same labels."
        )
    if not isinstance(make, Mapping):
        _must_be_alike(kernels)
    start = {one.name: one.start for one in ranges}
    launches = {
        name: _launch_offer(makes[name], one, ranges)
        for name, one in kernels.items()
        if isinstance(make, Mapping) or one is first
    }
    offer: dict[str, Any] = dict(launches[label])
    offer["kernels"] = [
        {
            "label": name,
            **_program(one),
            **_compiled_with(one),
            **({"launch": launches[name]} if isinstance(make, Mapping) else {}),
        }
        for name, one in kernels.items()
    ]
    offer["sizes"] = [{"name": one.name, "start": one.start, **_steps(one.values)} for one in ranges]
    of_warp = Trace(blocks=[0], warps=[0], max_steps=1000)
    run = _run_at(makes[label](**start), first, offer, of_warp)
    offer["totals"] = _counters(run)
    traced = traced_of(run)
    caption = caption or (_CAPTION if ranges else _LAUNCHES)
    sink().add(TryOutput(run.as_output(), offer, caption, first_warp(traced.rows, traced.buffers)))


def _must_be_alike(kernels: Mapping[str, Kernel]) -> None:
    label, first = next(iter(kernels.items()))
    for name, other in kernels.items():
        if [(one.name, one.ctype) for one in other.parameters] != [
            (one.name, one.ctype) for one in first.parameters
        ]:
            raise KernelError(
                f'try_it: "{name}" takes other parameters than "{label}". Give a case for each, by label.'
            )


def _launch_offer(make: Make, kernel: Kernel, ranges: Sequence[_Range]) -> dict[str, Any]:
    """Grid, block and arguments of a kernel by formulas, which hold for all sizes."""
    traced = make(**{one.name: Size(one.start, one.name) for one in ranges})
    offer = _offer(traced, kernel)
    _verify(make, kernel, offer, ranges)
    return offer


def _steps(values: Sequence[int]) -> dict[str, Any]:
    if isinstance(values, range):
        return {"least": values[0], "most": values[-1]}
    return {"values": list(values)}


def _counters(run: Run) -> list[int]:
    """The counts of a run in the order of the machine's counters."""
    return [
        one
        for value in dataclasses.astuple(run.counts)
        for one in (value if isinstance(value, tuple) else (value,))
    ]


def _program(kernel: Kernel) -> dict[str, Any]:
    from tilewise.simulator.browser.program import program_data, watched_data

    watched = watched_data(kernel.entry)
    return {"program": program_data(kernel.entry), **({"watched": watched} if watched else {})}


def _compiled_with(kernel: Kernel) -> dict[str, Any]:
    """What a text that is edited on the page is compiled with, beside itself."""
    given = {"defines": dict(kernel.defines), "options": list(kernel.options)}
    return {name: value for name, value in given.items() if value}


def _offer(case: Case, kernel: Kernel) -> dict[str, Any]:
    """Grid, block and arguments by formulas."""
    if case.grid is None or case.block is None:
        raise KernelError("try_it: the case has no grid or no block. Give both to case(...).")
    missing = [one.name for one in kernel.parameters if one.name not in case.values]
    if missing:
        raise KernelError(f"try_it: the case has no {', '.join(missing)}, which {kernel.name} takes.")
    return {
        "grid": [_formula(extent) for extent in case.grid],
        "block": [_formula(extent) for extent in case.block],
        "sharedBytes": _formula(case.shared_bytes),
        "arguments": [
            {"name": one.name, "written": one.is_pointer and not one.is_const, **_argument(kernel, one, case)}
            for one in kernel.parameters
        ],
    }


def _argument(kernel: Kernel, parameter: Any, case: Case) -> dict[str, Any]:
    value = case.values[parameter.name]
    if isinstance(value, TensorMap):
        return _mapped(kernel, parameter.name, value, case)
    if isinstance(value, Recipe):
        dtype = bf16.NAME if value.element else value.dtype
        return {
            "type": _type(kernel, parameter.name, dtype),
            "shape": [_formula(extent) for extent in value.shape],
            "fill": _fill(parameter.name, value),
        }
    if isinstance(value, np.ndarray):
        return {
            "type": _type(kernel, parameter.name, value.dtype),
            "shape": list(value.shape),
            "fill": {"kind": "given"},
            "data": base64.b64encode(value.tobytes()).decode(),
        }
    if isinstance(value, int | float | np.generic) and parameter.dtype is not None:
        return {"type": _type(kernel, parameter.name, parameter.dtype), "value": _formula(value)}
    raise KernelError(f"try_it: {kernel.name} takes {parameter.name}, which the page can't make: {value!r}.")


def _mapped(kernel: Kernel, name: str, value: TensorMap, case: Case) -> dict[str, Any]:
    """A tensor map: its array, of one shape, and the bytes that the kernel gets for it."""
    source = case.values.get(value.name or "")
    if not isinstance(source, Recipe) or any(isinstance(extent, Size) for extent in source.shape):
        raise KernelError(
            f"try_it: {name} is a tensor map. Make it of an array of the case, by its name, whose shape no "
            "size changes."
        )
    number = [one.name for one in kernel.parameters].index(name)
    raw = value.of(source.make()).described(GLOBAL_BASE + (number << GLOBAL_SHIFT), numbers("TYPE"))
    dtype = bf16.NAME if source.element else source.dtype
    return {
        "type": _type(kernel, name, dtype),
        "shape": [_formula(extent) for extent in source.shape],
        "fill": _fill(value.name or "", source),
        "raw": list(raw),
    }


_TYPES = {"f8", "f4", "f2", "i8", "u8", "i4", "u4", "i2", "u2", "i1", "u1", "b1"}


def _type(kernel: Kernel, name: str, dtype: Any) -> str:
    if dtype == bf16.NAME:
        return "bf16"
    text = str(np.dtype(dtype).str[1:])
    if text not in _TYPES:
        raise KernelError(f"try_it: {kernel.name} takes {name} of {dtype}, which the page can't make.")
    return text


def _fill(name: str, recipe: Recipe) -> dict[str, Any]:
    seed = zlib.crc32(name.encode()) if recipe.seed is None else recipe.seed
    return {"kind": recipe.kind, "seed": seed, **dict(recipe.params)}


def filled(argument: Mapping[str, Any], size: int) -> Array:
    """An array as the page fills it at first: ``site/web/run/launch.js`` makes the same bits.

    Args:
        argument: one of an offer's arguments, with a ``shape``.
        size: how many elements.
    """
    fill, dtype = argument["fill"], argument["type"]
    kind = fill["kind"]
    if kind == "given":
        return np.frombuffer(base64.b64decode(argument["data"]), dtype).copy()
    if kind == "output":
        is_bf16 = dtype == "bf16"
        recipe = Recipe(
            "output", (size,), np.dtype("u2" if is_bf16 else dtype), element=bf16.NAME if is_bf16 else None
        )
        return recipe.make()
    if kind == "constant":
        numbers = np.full(size, fill["value"], np.float64)
    elif kind == "normal":
        drawn = _drawn(fill["seed"], 4 * size).reshape(size, 4)
        total = ((drawn[:, 0] + drawn[:, 1]) + drawn[:, 2]) + drawn[:, 3]
        numbers = (fill["scale"] * np.floor((total - 2) * 173 + 0.5)) / 100
    elif kind == "uniform":
        numbers = fill["low"] + (fill["high"] - fill["low"]) * _drawn(fill["seed"], size)
    else:
        numbers = fill["low"] + np.floor((fill["high"] - fill["low"]) * _drawn(fill["seed"], size))
    if dtype == "bf16":
        made: Array = bf16.bits(numbers.astype(np.float32))
        return made
    return numbers.astype(dtype)


def _drawn(seed: int, count: int) -> Any:
    """Numbers in [0, 1) by Tommy Ettinger's mulberry32."""
    with np.errstate(over="ignore"):
        state = np.uint32(seed & 0xFFFFFFFF) + np.arange(1, count + 1, dtype=np.uint32) * np.uint32(
            0x6D2B79F5
        )
        mixed = (state ^ (state >> np.uint32(15))) * (state | np.uint32(1))
        mixed ^= mixed + (mixed ^ (mixed >> np.uint32(7))) * (mixed | np.uint32(61))
    return (mixed ^ (mixed >> np.uint32(14))) / 2.0**32


def _verify(
    make: Callable[..., Case], kernel: Kernel, offer: Mapping[str, Any], ranges: Sequence[_Range]
) -> None:
    """Refuse a function that the page would not follow: one that branches on a size, say."""
    draw = random.Random(0)
    ends = [{one.name: one.values[at] for one in ranges} for at in (0, -1)]
    for sizes in [*ends, *({one.name: draw.choice(one.values) for one in ranges} for _ in range(_TRIED))]:
        wanted = _offer(make(**sizes), kernel)
        if _at(wanted, sizes) != _at(offer, sizes):
            said = ", ".join(f"{name}={value}" for name, value in sizes.items())
            raise KernelError(
                f"try_it: with {said} the case is not what follows from the start. Compute with +, -, *, //, "
                "% and ceil_div alone, without if, min or max, and give arrays as recipes."
            )


def _at(offer: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    def worth(formulas: Sequence[Formula]) -> list[int | float]:
        return [value_of(one, sizes) for one in formulas]

    arguments = [
        (
            one["name"],
            one["type"],
            one.get("fill"),
            one.get("data"),
            one.get("raw"),
            worth(one.get("shape", ())),
            worth([one.get("value", 0)]),
        )
        for one in offer["arguments"]
    ]
    return worth(offer["grid"]), worth(offer["block"]), worth([offer["sharedBytes"]]), arguments


def _run_at(case: Case, kernel: Kernel, offer: Mapping[str, Any], trace: Trace) -> Run:
    """The run at the start, with the numbers that the page will make."""
    arguments: list[Any] = []
    for one, parameter in zip(offer["arguments"], kernel.parameters, strict=True):
        value = case.values[parameter.name]
        if isinstance(value, TensorMap):
            source = filled(one, int(np.prod(one["shape"]))).reshape(one["shape"])
            arguments.append(value.of(source))
        elif "shape" in one:
            shape = value.shape if isinstance(value, Recipe | np.ndarray) else ()
            arguments.append(filled(one, int(np.prod(shape))).reshape(shape))
        else:
            arguments.append(value)
    grid, block = case.grid, case.block
    assert grid is not None and block is not None
    try:
        with without_logging():
            return kernel.simulate(
                *arguments,
                grid=_plain(grid),
                block=_plain(block),
                shared_bytes=case.shared_bytes,
                trace=trace,
            )
    except HazardError as error:
        return error.run


def _plain(extents: Dim3) -> Dim3:
    x, y, z = extents
    return (int(x), int(y), int(z))
