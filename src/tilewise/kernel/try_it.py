"""`try_it`: a kernel whose sizes a reader can change on the page, where it runs in the browser.

In: the function that makes a case from sizes, the kernel, and the choices for each size. Out: a `TryOutput`.
The function is called once with sizes that record the arithmetic on them, so that the page can repeat it for
other sizes, then with many plain sizes to check the recorded formulas.
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
    """An integer with the formula that computes it from the sizes that a reader can change."""

    formula: Formula

    def __new__(cls, value: int, formula: Formula) -> Size:
        """Make a number with its formula."""
        size = super().__new__(cls, value)
        size.formula = formula
        return size

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
    """Evaluate a formula, as ``site/web/run/launch.js`` does."""
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
    """Ascending."""
    start: int


def _range(name: str, choices: Choices) -> _Range:
    if isinstance(choices, list) and choices:
        return _Range(name, sorted(choices), choices[0])
    if isinstance(choices, tuple) and len(choices) == 3 and choices[0] <= choices[1] <= choices[2]:
        return _Range(name, range(choices[0], choices[2] + 1), choices[1])
    raise KernelError(
        f"try_it: {name} is {choices!r}. Give (least, start, most), or a list of choices, the start first."
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
        make: makes the case from the sizes, passed by name; it may only add, subtract, multiply and divide
            (``//``, ``%``, ``ceil_div``) them. If kernels are launched differently, one function per kernel
            label. Without a kernel: launches of fixed sizes by label.
        kernel: the kernel, or several by label; the first is shown.
        caption: a sentence below the title; None for a default instruction.
        **sizes: for each size ``(least, start, most)``, or a list of choices with the start first.

    Shows the run with the start sizes, which the page contains before any change and without scripts.

    Raises:
        KernelError: a size has no valid choices, the case is not computed from the sizes alone, or it has
            something that the page cannot make.
    """
    ranges = [_range(name, choices) for name, choices in sizes.items()]
    launched: dict[str, Any] = dict(make) if isinstance(make, Mapping) else {}
    if kernel is None:
        if not launched:
            raise KernelError("try_it: give a kernel, or launches by their labels.")
        kernel = {name: launch.kernel for name, launch in launched.items()}
        launched = {name: partial(as_case, launch) for name, launch in launched.items()}
    kernels = dict(kernel) if isinstance(kernel, Mapping) else {kernel.name: kernel}
    label, first = next(iter(kernels.items()))
    makes: dict[str, Make] = launched or dict.fromkeys(kernels, make)
    if list(makes) != list(kernels):
        raise KernelError(
            f"try_it: the cases are for {list(makes)}, the kernels {list(kernels)}. Use the same labels."
        )
    if not isinstance(make, Mapping):
        _check_same_parameters(kernels)
    start = {size.name: size.start for size in ranges}
    launches = {
        name: _launch_offer(makes[name], variant, ranges)
        for name, variant in kernels.items()
        if isinstance(make, Mapping) or variant is first
    }
    offer: dict[str, Any] = dict(launches[label])
    offer["kernels"] = [
        {
            "label": name,
            **_program(variant),
            **_compiled_with(variant),
            **({"launch": launches[name]} if isinstance(make, Mapping) else {}),
        }
        for name, variant in kernels.items()
    ]
    offer["sizes"] = [{"name": size.name, "start": size.start, **_steps(size.values)} for size in ranges]
    first_trace = Trace(blocks=[0], warps=[0], max_steps=1000)
    run = _run_at(makes[label](**start), first, offer, first_trace)
    offer["totals"] = _counters(run)
    traced = traced_of(run)
    caption = caption or (_CAPTION if ranges else _LAUNCHES)
    sink().add(TryOutput(run.as_output(), offer, caption, first_warp(traced.rows, traced.buffers)))


def _check_same_parameters(kernels: Mapping[str, Kernel]) -> None:
    label, first = next(iter(kernels.items()))
    for name, kernel in kernels.items():
        if [(parameter.name, parameter.ctype) for parameter in kernel.parameters] != [
            (parameter.name, parameter.ctype) for parameter in first.parameters
        ]:
            raise KernelError(
                f'try_it: "{name}" takes other parameters than "{label}". Give a case for each, by label.'
            )


def _launch_offer(make: Make, kernel: Kernel, ranges: Sequence[_Range]) -> dict[str, Any]:
    """Grid, block and arguments of a kernel as formulas, verified for many sizes."""
    traced = make(**{size.name: Size(size.start, size.name) for size in ranges})
    offer = _offer(traced, kernel)
    _verify(make, kernel, offer, ranges)
    return offer


def _steps(values: Sequence[int]) -> dict[str, Any]:
    if isinstance(values, range):
        return {"least": values[0], "most": values[-1]}
    return {"values": list(values)}


def _counters(run: Run) -> list[int]:
    """The counts of a run, flattened, in the order of the simulator's counters."""
    return [
        count
        for value in dataclasses.astuple(run.counts)
        for count in (value if isinstance(value, tuple) else (value,))
    ]


def _program(kernel: Kernel) -> dict[str, Any]:
    from tilewise.simulator.browser.program import program_data, watched_data

    watched = watched_data(kernel.entry)
    return {"program": program_data(kernel.entry), **({"watched": watched} if watched else {})}


def _compiled_with(kernel: Kernel) -> dict[str, Any]:
    """The defines and options for compiling a text that is edited on the page."""
    settings = {"defines": dict(kernel.defines), "options": list(kernel.options)}
    return {name: value for name, value in settings.items() if value}


def _offer(case: Case, kernel: Kernel) -> dict[str, Any]:
    """Grid, block and arguments as formulas."""
    if case.grid is None or case.block is None:
        raise KernelError("try_it: the case has no grid or no block. Give both to case(...).")
    missing = [parameter.name for parameter in kernel.parameters if parameter.name not in case.values]
    if missing:
        raise KernelError(f"try_it: the case has no {', '.join(missing)}, which {kernel.name} takes.")
    return {
        "grid": [_formula(extent) for extent in case.grid],
        "block": [_formula(extent) for extent in case.block],
        "sharedBytes": _formula(case.shared_bytes),
        "arguments": [
            {
                "name": parameter.name,
                "written": parameter.is_pointer and not parameter.is_const,
                **_argument(kernel, parameter, case),
            }
            for parameter in kernel.parameters
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
    """A tensor map: its array, of a fixed shape, and the bytes that are passed to the kernel."""
    source = case.values.get(value.name or "")
    if not isinstance(source, Recipe) or any(isinstance(extent, Size) for extent in source.shape):
        raise KernelError(
            f"try_it: {name} is a tensor map. Make it of an array of the case, by its name, whose shape no "
            "size changes."
        )
    number = [parameter.name for parameter in kernel.parameters].index(name)
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
    """An array as the page fills it initially; ``site/web/run/launch.js`` makes the same bits.

    Args:
        argument: one of an offer's arguments, with a ``shape``.
        size: the number of elements.
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
        uniform = _random_numbers(fill["seed"], 4 * size).reshape(size, 4)
        total = ((uniform[:, 0] + uniform[:, 1]) + uniform[:, 2]) + uniform[:, 3]
        numbers = (fill["scale"] * np.floor((total - 2) * 173 + 0.5)) / 100
    elif kind == "uniform":
        numbers = fill["low"] + (fill["high"] - fill["low"]) * _random_numbers(fill["seed"], size)
    else:
        numbers = fill["low"] + np.floor((fill["high"] - fill["low"]) * _random_numbers(fill["seed"], size))
    if dtype == "bf16":
        bits: Array = bf16.bits(numbers.astype(np.float32))
        return bits
    return numbers.astype(dtype)


def _random_numbers(seed: int, count: int) -> Any:
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
    """Reject a function that the page cannot reproduce, such as one that branches on a size."""
    draw = random.Random(0)
    ends = [{size.name: size.values[at] for size in ranges} for at in (0, -1)]
    for sizes in [*ends, *({size.name: draw.choice(size.values) for size in ranges} for _ in range(_TRIED))]:
        expected = _offer(make(**sizes), kernel)
        if _evaluated(expected, sizes) != _evaluated(offer, sizes):
            shown = ", ".join(f"{name}={value}" for name, value in sizes.items())
            raise KernelError(
                f"try_it: with {shown} the case is not what follows from the start. Compute with +, -, *, "
                "//, % and ceil_div alone, without if, min or max, and give arrays as recipes."
            )


def _evaluated(offer: Mapping[str, Any], sizes: Mapping[str, int]) -> Any:
    def values(formulas: Sequence[Formula]) -> list[int | float]:
        return [value_of(formula, sizes) for formula in formulas]

    arguments = [
        (
            argument["name"],
            argument["type"],
            argument.get("fill"),
            argument.get("data"),
            argument.get("raw"),
            values(argument.get("shape", ())),
            values([argument.get("value", 0)]),
        )
        for argument in offer["arguments"]
    ]
    return values(offer["grid"]), values(offer["block"]), values([offer["sharedBytes"]]), arguments


def _run_at(case: Case, kernel: Kernel, offer: Mapping[str, Any], trace: Trace) -> Run:
    """The run with the start sizes, on the same values as the page."""
    arguments: list[Any] = []
    for argument, parameter in zip(offer["arguments"], kernel.parameters, strict=True):
        value = case.values[parameter.name]
        if isinstance(value, TensorMap):
            source = filled(argument, int(np.prod(argument["shape"]))).reshape(argument["shape"])
            arguments.append(value.of(source))
        elif "shape" in argument:
            shape = value.shape if isinstance(value, Recipe | np.ndarray) else ()
            arguments.append(filled(argument, int(np.prod(shape))).reshape(shape))
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
