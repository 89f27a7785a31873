"""A proposed first launch of a kernel: the one in its file, or one with small sizes.

In: a kernel's declaration, and the text around it with the host's launches. Out: a ``Proposal`` for the
Playground and ``tilewise trace``, whose arrays are large enough for its sizes. The reader can change it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np

from tilewise.cuda.host_values import Scope
from tilewise.cuda.kernel_source import GlobalFunction, KernelError, Parameter, three, without_comments
from tilewise.cuda.launch_sites import LaunchSite, launch_sites
from tilewise.cuda.variables import DeviceVariable, device_variables
from tilewise.kernel.access_patterns import KernelText

if TYPE_CHECKING:
    from tilewise.kernel.kernel import Kernel

ELEMENTS = 1024
"""Elements of an array of unknown length."""
_MOST_ELEMENTS = 1 << 20
_MOST_BYTES = 1 << 28
_MOST_BLOCKS = 256
_BLOCK = 256
_EDGE = 16
"""Threads per block along x and y of a kernel that uses y, and the most blocks along each axis."""
_STRUCT_BYTES = 64
_FAR = 1 << 16
"""Elements of an array whose indices are not bounded by the kernel's sizes."""
_PLACE = re.compile(r"(?i).*(?:offset|base|begin|start|first|index|idx)|(?:offset|base|begin|start|first)\w*")
"""A parameter that is an index or an offset."""
_SIZE = re.compile(
    r"(?i)^(?:n|m|k|h|w|b|t|c|d|[nhi][xyzijklm]|"
    r"\w*(?:size|len|length|num|count|rows?|cols?|width|height|dim|elem|points|channels|batch)\w*)$"
)
_THREADS = re.compile(r"(?i)x?block(?:_?(?:size|dim|x))?|(?:num_?|n_?)?threads(?:_?per_?block)?")
"""A parameter that is the number of threads per block."""
_NO_LAUNCH = LaunchSite("", "", (), (), {}, Scope(), frozenset())
_Formula = tuple[str, int]
"""A formula of sizes, and its initial value."""


@dataclass(frozen=True)
class ProposedArray:
    """An array for a pointer, or the contents of a struct or vector that is passed by value."""

    name: str
    ctype: str
    dtype: np.dtype[np.generic]
    """uint8 if the element is a struct."""
    shape: tuple[int, ...]
    length: str
    """Its number of elements, as a formula of sizes: ``4 * n``."""
    is_written: bool
    """Whether the kernel may write it."""
    is_by_value: bool = False
    is_struct: bool = False
    """Whether its element type is defined in the file: its members may be indices, so only zeros are safe."""
    fill: str = ""
    """Its contents in the syntax of ``tilewise trace``; random values if empty."""
    first: int = 0
    """The element that the kernel's pointer points to, as in ``x + 3``."""


@dataclass(frozen=True)
class ProposedNumber:
    """A value for a numeric parameter."""

    name: str
    ctype: str
    dtype: np.dtype[np.generic]
    value: float


@dataclass(frozen=True)
class Proposal:
    """A proposed launch."""

    arguments: tuple[ProposedArray | ProposedNumber, ...]
    """One per parameter."""
    variables: tuple[ProposedArray, ...]
    """Variables of the source that have no value yet."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    grid_formulas: tuple[str, str, str]
    """The grid as formulas of sizes and ``blockDim``."""
    shared_bytes: int
    assumed: tuple[str, ...]
    """What the text does not determine: ``grid``, ``block``, ``shared``, and parameters by name.

    ``x.values`` if it determines the length of ``x`` but not its contents, which a kernel may use as indices.
    """


def proposal(
    function: GlobalFunction,
    text: str,
    variables: Sequence[DeviceVariable] = (),
    *,
    sites: Sequence[LaunchSite] | None = None,
    bytes_of: Mapping[str, int] = MappingProxyType({}),
) -> Proposal:
    """Propose a launch on small inputs.

    Args:
        function: the kernel's declaration.
        text: the source, including host code.
        variables: those that need a value.
        sites: the launches in the text, if already known.
        bytes_of: the sizes of structs that the kernel takes by value or reads from variables, by name.
    """
    parameters = function.parameters
    kernel = KernelText.of(function.name, text)
    is_plane = kernel.is_plane
    site = _site(function.name, launch_sites(text) if sites is None else sites)
    numeric = [
        parameter.name for parameter in parameters if parameter.dtype is not None and not parameter.is_pointer
    ]
    scope = site.small(min(kernel.loops_over(numeric), 2))
    extents, threads, shared = site.extents(scope)
    block = _block(threads, function.max_threads, kernel)
    names = [parameter.name for parameter in parameters if _is_size(parameter)]
    is_square = is_plane or any(map(kernel.multiplies_by, names))
    is_tiled = bool(re.search(r"<.*\d", function.name))
    blocks = extents or (None if kernel.is_for_several_blocks else (1,))
    threads_along = blocks[0] * block[0] if blocks and math.prod(blocks) <= 4 * _MOST_BLOCKS else 0
    elements = threads_along * (2 if kernel.has_pairs else 1)
    numbers = _numbers(parameters, site, scope, elements, is_square, _EDGE << 2 * is_tiled, block[0])
    sizes = {name: int(numbers[name]) for name in names if numbers[name] >= 1}
    grid, formulas = _grid(blocks, sizes, _length(sizes, is_plane), block, is_plane)
    length = _at_least(math.prod(grid) * math.prod(block), _length(sizes, is_square))
    is_far = (is_tiled or not is_square) and kernel.reaches_far
    if is_square and not names and kernel.has_large_factor:
        length = _at_least(_MOST_ELEMENTS, length)
    if is_far:
        length = _at_least(min(max(_FAR, 4 * length[1]), _MOST_ELEMENTS), length)
    lengths = [site.bytes_of(at, scope) or 0 for at in range(len(parameters))]
    arguments = [
        _array(
            parameter,
            length if is_far else _times(length, kernel.factor(parameter.name)),
            lengths[at],
            site.first(at, scope),
        )
        if parameter.is_pointer
        else _by_value(parameter, numbers[parameter.name], bytes_of.get(parameter.name, _STRUCT_BYTES))
        for at, parameter in enumerate(parameters)
    ]
    below = [site.random_below(at, text, scope) for at in range(len(parameters))]
    zeroed = [site.is_zeroed(at, text) for at in range(len(parameters))]
    dynamic = shared or kernel.shared_bytes
    known = {"grid": extents, "block": threads, "shared": shared or not dynamic}
    for at, parameter in enumerate(parameters):
        says = site.says_length if parameter.is_pointer else site.says
        known[parameter.name] = says(at, scope) and lengths[at] <= _MOST_BYTES
        is_float = parameter.dtype is not None and parameter.dtype.kind == "f"
        is_filled = is_float or below[at] or zeroed[at]
        if known[parameter.name] and parameter.is_pointer and not is_filled and kernel.leads(parameter.name):
            known[f"{parameter.name}.values"] = False
    values = tuple(
        array for variable in variables if (array := _variable(variable, bytes_of.get(variable.name, 0)))
    )
    shapes = [argument.shape for argument in arguments if isinstance(argument, ProposedArray)]
    smallest = min(map(math.prod, shapes), default=1)
    return Proposal(
        arguments=tuple(
            argument
            if isinstance(argument, ProposedNumber) or argument.is_struct
            else replace(argument, fill="zeros")
            if zeroed[at]
            else replace(
                argument, fill=kernel.fill(argument.name, "char" in argument.ctype, smallest, below[at])
            )
            if argument.dtype.kind in "iu"
            else argument
            for at, argument in enumerate(arguments)
        ),
        variables=values,
        grid=grid,
        block=block,
        grid_formulas=formulas,
        shared_bytes=dynamic,
        assumed=(
            *(name for name, is_known in known.items() if not is_known),
            *(variable.name for variable in values if variable.is_struct),
        ),
    )


def unset_variables(source: str, compiled: str) -> list[DeviceVariable]:
    """The variables of a source that need a value before a kernel reads them."""
    plain = without_comments(compiled)
    return [
        variable
        for variable in device_variables(source, compiled).values()
        if variable.needs_a_value and len(re.findall(rf"\b{variable.name.rpartition('::')[2]}\b", plain)) > 1
    ]


def struct_bytes(kernel: Kernel, variables: Sequence[DeviceVariable], text: str) -> dict[str, int]:
    """The sizes of the variables that are structs, which only a compiler knows."""
    sizes: dict[str, int] = {}
    for variable in variables:
        is_pointer = re.search(rf"\*\s*{variable.name.rpartition('::')[2]}\s*[;=,[]", text)
        if variable.dtype is None and not is_pointer:
            with suppress(KernelError):  # no kernel uses it
                sizes[variable.name] = kernel.simulated_variable(variable.name).size
    return sizes


def _site(name: str, sites: Sequence[LaunchSite]) -> LaunchSite:
    """The file's best-known launch of a kernel, preferably with its template arguments; empty if none."""
    base, _, template = name.partition("<")
    own = [site for site in sites if site.kernel == base.rpartition("::")[2]]
    exact = [site for site in own if site.template == f"<{template}"] if template else own
    return max(exact or own, key=_known, default=_NO_LAUNCH)


def _known(site: LaunchSite) -> int:
    scope = site.small()
    arguments = range(len(site.arguments))
    passed = [site.passed(at, scope) is not None or site.bytes_of(at, scope) is not None for at in arguments]
    return sum(extents is not None for extents in site.extents(scope)) + sum(passed)


def _is_size(parameter: Parameter) -> bool:
    whole = parameter.dtype is not None and parameter.dtype.kind in "iu" and parameter.width == 1
    is_named = _SIZE.fullmatch(parameter.name) and not _THREADS.fullmatch(parameter.name)
    return whole and not parameter.is_pointer and bool(is_named)


def _block(threads: Sequence[int] | None, promised: int | None, kernel: KernelText) -> tuple[int, int, int]:
    """A block: the file's, or a row of the promised number of threads, the usual launch of such kernels.

    Otherwise one thread per element of a shared tile, if the kernel has one.
    """
    most = promised or 1024
    if threads is not None and math.prod(threads) <= most:
        return three(threads)
    if kernel.tile and not promised:
        return (*kernel.tile, 1)
    if kernel.has_rows:
        return min(_EDGE, most), max(min(_EDGE, most // _EDGE), 1), 1
    return promised or _BLOCK, 1, 1


def _numbers(
    parameters: Sequence[Parameter],
    site: LaunchSite,
    scope: Scope,
    elements: int,
    is_square: bool,
    edge: int,
    threads: int,
) -> dict[str, float]:
    """A value for each scalar parameter; an unknown size is a multiple of the edge.

    Args:
        parameters: all of them.
        site: the file's launch.
        scope: the values of names there.
        elements: the elements that a known grid's threads along x process; 0 if unknown.
        is_square: whether a single size applies to two axes.
        edge: the threads per block along an axis.
        threads: the threads per block along x.
    """
    count = sum(map(_is_size, parameters))
    assumed = edge if count > 2 else 2 * edge if count == 2 or is_square else ELEMENTS
    if elements and count < 2:
        assumed = elements
    numbers: dict[str, float] = {}
    for at, parameter in enumerate(parameters):
        passed = site.passed(at, scope)
        if isinstance(passed, int | float):
            numbers[parameter.name] = passed
        elif _is_size(parameter):
            numbers[parameter.name] = assumed
        elif _THREADS.fullmatch(parameter.name):
            numbers[parameter.name] = threads
        else:
            is_float = parameter.dtype is not None and parameter.dtype.kind == "f"
            numbers[parameter.name] = 0.5 if is_float else 0 if _PLACE.fullmatch(parameter.name) else 1
    return numbers


def _length(sizes: Mapping[str, int], is_square: bool) -> _Formula:
    """The number of elements of an array with all of the sizes as its extents."""
    names = [*sizes, *sizes] if len(sizes) == 1 and is_square else [*sizes]
    value = math.prod(sizes[name] for name in names)
    if not names:
        return str(ELEMENTS), ELEMENTS
    if len(names) < 3 and value <= _MOST_ELEMENTS:
        return " * ".join(names), value
    value = min(max(value, ELEMENTS), _MOST_ELEMENTS)
    return str(value), value


def _times(length: _Formula, factor: int) -> _Formula:
    text, count = length
    if factor == 1:
        return length
    return (f"{factor} * {text}" if text.isidentifier() else str(factor * count)), factor * count


def _at_least(count: int, length: _Formula) -> _Formula:
    """A length that is at least the count."""
    return (str(count), count) if length[1] < count else length


def _grid(
    launched: Sequence[int] | None,
    sizes: Mapping[str, int],
    length: _Formula,
    block: tuple[int, int, int],
    is_plane: bool,
) -> tuple[tuple[int, int, int], tuple[str, str, str]]:
    """A grid that covers the sizes, and its formulas; or the file's grid if it is small."""
    single: _Formula = ("1", 1)
    if not is_plane and block[1] == 1:
        text, elements = length
        along = [(f"ceil_div({text}, blockDim.x)", -(-elements // block[0])), single]
    elif len(sizes) == 1:
        ((name, size),) = sizes.items()
        along = [
            (f"ceil_div({name}, blockDim.{axis})", -(-size // threads)) if threads > 1 else single
            for axis, threads in zip("xy", block[:2], strict=True)
        ]
    else:
        largest = sorted(sizes.values(), reverse=True) or [2 * _EDGE]
        wanted = [*largest, largest[0]][:2]
        counts = [
            -(-size // threads) if threads > 1 else 1 for size, threads in zip(wanted, block, strict=False)
        ]
        along = [(str(count), count) for count in counts]
    most = _EDGE if is_plane else _MOST_BLOCKS
    covering = [(text, count) if count <= most else (str(most), most) for text, count in [*along, single]]
    if launched is not None and math.prod(launched) <= 4 * _MOST_BLOCKS:
        covering = [
            (text, count) if count == own else (str(own), own)
            for (text, count), own in zip(covering, three(launched), strict=True)
        ]
    (x, columns), (y, rows), (z, layers) = covering
    return (columns, rows, layers), (x, y, z)


def _array(parameter: Parameter, length: _Formula, bytes_: int, first: int) -> ProposedArray:
    """An array of a length, or of the bytes that the host allocates, passed from element ``first`` on."""
    dtype = parameter.dtype if parameter.dtype is not None else np.dtype(np.uint8)
    width = max(parameter.width, 1) if parameter.dtype is not None else _STRUCT_BYTES
    text, count = length
    elements, formula = width * count, text if width == 1 else f"{width} * {text}"
    own, rest = divmod(bytes_, dtype.itemsize)
    if own not in (0, elements) and not rest and own * dtype.itemsize <= _MOST_BYTES:
        elements, formula = own, str(own)
    first *= parameter.width if 0 < first * parameter.width < own and parameter.dtype is not None else 0
    is_struct = parameter.dtype is None
    return ProposedArray(
        parameter.name,
        parameter.ctype,
        dtype,
        (elements,),
        formula,
        not parameter.is_const,
        is_struct=is_struct,
        first=first,
    )


def _by_value(parameter: Parameter, value: float, bytes_: int) -> ProposedArray | ProposedNumber:
    if parameter.dtype is not None and parameter.width == 1:
        if parameter.dtype.kind in "iu":
            info = np.iinfo(parameter.dtype)
            value = min(max(int(value), int(info.min)), int(info.max))
        return ProposedNumber(parameter.name, parameter.ctype, parameter.dtype, value)
    dtype, count = (
        (np.dtype(np.uint8), bytes_) if parameter.dtype is None else (parameter.dtype, parameter.width)
    )
    return ProposedArray(
        parameter.name, parameter.ctype, dtype, (count,), str(count), False, True, parameter.dtype is None
    )


def _variable(variable: DeviceVariable, bytes_: int) -> ProposedArray | None:
    """An array for a variable; for a struct, zeros of its size in bytes."""
    if variable.dtype is None and bytes_:
        written, kind = not variable.is_constant, np.dtype(np.uint8)
        return ProposedArray(variable.name, "struct", kind, (bytes_,), str(bytes_), written, is_struct=True)
    if variable.dtype is None or variable.shape is None or -1 in variable.shape:
        return None
    shape = variable.shape or (1,)
    length = str(math.prod(shape))
    return ProposedArray(
        variable.name, str(variable.dtype), variable.dtype, shape, length, is_written=not variable.is_constant
    )
