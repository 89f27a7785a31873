"""A first launch of a kernel that nobody has described: as its file makes it, else of small sizes.

In: a kernel's declaration, and the text around it with the host's launches. Out: a ``Proposal``, for the
Playground and for ``tilewise trace``, whose arrays are large enough for the sizes that go with them. It is
the reader's to change.
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
"""Elements of an array of which nothing is known."""
_MOST_ELEMENTS = 1 << 20
_MOST_BYTES = 1 << 28
_MOST_BLOCKS = 256
_BLOCK = 256
_EDGE = 16
"""Threads of a block along x and y, where a kernel has threads along y; and the most blocks along each."""
_STRUCT_BYTES = 64
_FAR = 1 << 16
"""Elements of an array that a kernel indexes in a way that nothing of its sizes bounds."""
_PLACE = re.compile(r"(?i).*(?:offset|base|begin|start|first|index|idx)|(?:offset|base|begin|start|first)\w*")
"""A number that an index begins at."""
_SIZE = re.compile(
    r"(?i)^(?:n|m|k|h|w|b|t|c|d|[nhi][xyzijklm]|"
    r"\w*(?:size|len|length|num|count|rows?|cols?|width|height|dim|elem|points|channels|batch)\w*)$"
)
_THREADS = re.compile(r"(?i)x?block(?:_?(?:size|dim|x))?|(?:num_?|n_?)?threads(?:_?per_?block)?")
"""A number that is the threads of a block."""
_NO_LAUNCH = LaunchSite("", "", (), (), {}, Scope(), frozenset())
_Formula = tuple[str, int]
"""A formula of sizes, and what it comes to at first."""


@dataclass(frozen=True)
class ProposedArray:
    """An array for a pointer, or what a struct or a vector by value holds."""

    name: str
    ctype: str
    dtype: np.dtype[np.generic]
    """Bytes where the element is a struct."""
    shape: tuple[int, ...]
    length: str
    """How many elements it has, as a formula of sizes: ``4 * n``."""
    is_written: bool
    """Whether the kernel may write it."""
    is_by_value: bool = False
    is_struct: bool = False
    """Whether its elements are of a type of the file's own: places and counts, which only zeros fit."""
    fill: str = ""
    """What it holds, as an argument of ``tilewise trace`` says it; random values where it is empty."""
    first: int = 0
    """The element that the kernel gets a pointer to, as in ``x + 3``."""


@dataclass(frozen=True)
class ProposedNumber:
    """A value for a parameter that is a number."""

    name: str
    ctype: str
    dtype: np.dtype[np.generic]
    value: float


@dataclass(frozen=True)
class Proposal:
    """A launch."""

    arguments: tuple[ProposedArray | ProposedNumber, ...]
    """By parameter."""
    variables: tuple[ProposedArray, ...]
    """Variables of the source that have no value yet."""
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    grid_formulas: tuple[str, str, str]
    """The grid as formulas of sizes and of ``blockDim``."""
    shared_bytes: int
    assumed: tuple[str, ...]
    """What the text does not say: ``grid``, ``block``, ``shared``, and parameters by their names.

    ``x.values`` where it says how long ``x`` is, but not what it holds: a kernel may take these for places.
    """


def proposal(
    function: GlobalFunction,
    text: str,
    variables: Sequence[DeviceVariable] = (),
    *,
    sites: Sequence[LaunchSite] | None = None,
    bytes_of: Mapping[str, int] = MappingProxyType({}),
) -> Proposal:
    """A launch on small inputs.

    Args:
        function: what the kernel declares.
        text: the source, host code and all.
        variables: those that need a value.
        sites: the launches in the text, where the caller knows them already.
        bytes_of: the sizes of structs that the kernel takes by value or finds in variables, by their names.
    """
    parameters = function.parameters
    kernel = KernelText.of(function.name, text)
    is_plane = kernel.is_plane
    site = _site(function.name, launch_sites(text) if sites is None else sites)
    numeric = [one.name for one in parameters if one.dtype is not None and not one.is_pointer]
    scope = site.small(min(kernel.loops_over(numeric), 2))
    given, threads, shared = site.extents(scope)
    block = _block(threads, function.max_threads, kernel)
    names = [one.name for one in parameters if _is_size(one)]
    is_square = is_plane or any(map(kernel.multiplies_by, names))
    is_tiled = bool(re.search(r"<.*\d", function.name))
    blocks = given or (None if kernel.is_for_several_blocks else (1,))
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
            one,
            length if is_far else _times(length, kernel.factor(one.name)),
            lengths[at],
            site.first(at, scope),
        )
        if one.is_pointer
        else _by_value(one, numbers[one.name], bytes_of.get(one.name, _STRUCT_BYTES))
        for at, one in enumerate(parameters)
    ]
    below = [site.random_below(at, text, scope) for at in range(len(parameters))]
    zeroed = [site.is_zeroed(at, text) for at in range(len(parameters))]
    dynamic = shared or kernel.shared_bytes
    said = {"grid": given, "block": threads, "shared": shared or not dynamic}
    for at, one in enumerate(parameters):
        says = site.says_length if one.is_pointer else site.says
        said[one.name] = says(at, scope) and lengths[at] <= _MOST_BYTES
        is_float = one.dtype is not None and one.dtype.kind == "f"
        is_filled = is_float or below[at] or zeroed[at]
        if said[one.name] and one.is_pointer and not is_filled and kernel.leads(one.name):
            said[f"{one.name}.values"] = False
    values = tuple(made for one in variables if (made := _variable(one, bytes_of.get(one.name, 0))))
    smallest = min((math.prod(one.shape) for one in arguments if isinstance(one, ProposedArray)), default=1)
    return Proposal(
        arguments=tuple(
            one
            if isinstance(one, ProposedNumber) or one.is_struct
            else replace(one, fill="zeros")
            if zeroed[at]
            else replace(one, fill=kernel.fill(one.name, "char" in one.ctype, smallest, below[at]))
            if one.dtype.kind in "iu"
            else one
            for at, one in enumerate(arguments)
        ),
        variables=values,
        grid=grid,
        block=block,
        grid_formulas=formulas,
        shared_bytes=dynamic,
        assumed=(
            *(name for name, one in said.items() if not one),
            *(one.name for one in values if one.is_struct),
        ),
    )


def unset_variables(source: str, compiled: str) -> list[DeviceVariable]:
    """The variables that a source uses and that need a value before a kernel reads them."""
    plain = without_comments(compiled)
    return [
        one
        for one in device_variables(source, compiled).values()
        if one.needs_a_value and len(re.findall(rf"\b{one.name.rpartition('::')[2]}\b", plain)) > 1
    ]


def struct_bytes(kernel: Kernel, variables: Sequence[DeviceVariable], text: str) -> dict[str, int]:
    """The sizes of those variables that are structs; only a compiler knows them."""
    sizes: dict[str, int] = {}
    for one in variables:
        is_pointer = re.search(rf"\*\s*{one.name.rpartition('::')[2]}\s*[;=,[]", text)
        if one.dtype is None and not is_pointer:
            with suppress(KernelError):  # no kernel uses it
                sizes[one.name] = kernel.simulated_variable(one.name).size
    return sizes


def _site(name: str, sites: Sequence[LaunchSite]) -> LaunchSite:
    """The file's launch of a kernel: of those with its template arguments the one of which most is known.

    One that says nothing where there is none.
    """
    base, _, template = name.partition("<")
    own = [one for one in sites if one.kernel == base.rpartition("::")[2]]
    exact = [one for one in own if one.template == f"<{template}"] if template else own
    return max(exact or own, key=_known, default=_NO_LAUNCH)


def _known(site: LaunchSite) -> int:
    scope = site.small()
    arguments = range(len(site.arguments))
    passed = [site.passed(at, scope) is not None or site.bytes_of(at, scope) is not None for at in arguments]
    return sum(one is not None for one in site.extents(scope)) + sum(passed)


def _is_size(one: Parameter) -> bool:
    whole = one.dtype is not None and one.dtype.kind in "iu" and one.width == 1
    is_named = _SIZE.fullmatch(one.name) and not _THREADS.fullmatch(one.name)
    return whole and not one.is_pointer and bool(is_named)


def _block(threads: Sequence[int] | None, promised: int | None, kernel: KernelText) -> tuple[int, int, int]:
    """A block; a row of as many threads as are promised, since most kernels are launched with these.

    Else as many as fill a shared array of the kernel, each its element.
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
    """A value for each parameter that is one number; a multiple of an edge where nothing says it.

    Args:
        parameters: all of them.
        site: the file's launch.
        scope: what names stand for there.
        elements: how many a known grid's threads along x take; 0 where it is not known.
        is_square: whether a single size is that of two axes.
        edge: the threads of a block along an axis.
        threads: of a block along x.
    """
    count = sum(map(_is_size, parameters))
    assumed = edge if count > 2 else 2 * edge if count == 2 or is_square else ELEMENTS
    if elements and count < 2:
        assumed = elements
    found: dict[str, float] = {}
    for at, one in enumerate(parameters):
        passed = site.passed(at, scope)
        if isinstance(passed, int | float):
            found[one.name] = passed
        elif _is_size(one):
            found[one.name] = assumed
        elif _THREADS.fullmatch(one.name):
            found[one.name] = threads
        else:
            is_float = one.dtype is not None and one.dtype.kind == "f"
            found[one.name] = 0.5 if is_float else 0 if _PLACE.fullmatch(one.name) else 1
    return found


def _length(sizes: Mapping[str, int], is_square: bool) -> _Formula:
    """How many elements an array has that any two or three of the sizes may stand for."""
    names = [*sizes, *sizes] if len(sizes) == 1 and is_square else [*sizes]
    value = math.prod(sizes[name] for name in names)
    if not names:
        return str(ELEMENTS), ELEMENTS
    if len(names) < 3 and value <= _MOST_ELEMENTS:
        return " * ".join(names), value
    value = min(max(value, ELEMENTS), _MOST_ELEMENTS)
    return str(value), value


def _times(length: _Formula, factor: int) -> _Formula:
    """A length some times."""
    text, count = length
    if factor == 1:
        return length
    return (f"{factor} * {text}" if text.isidentifier() else str(factor * count)), factor * count


def _at_least(count: int, length: _Formula) -> _Formula:
    """As many elements: at least one for each thread, since a kernel may have no guard."""
    return (str(count), count) if length[1] < count else length


def _grid(
    given: Sequence[int] | None,
    sizes: Mapping[str, int],
    length: _Formula,
    block: tuple[int, int, int],
    is_plane: bool,
) -> tuple[tuple[int, int, int], tuple[str, str, str]]:
    """A grid that covers the sizes, and its formulas; or the one that is given, where it is small."""
    one: _Formula = ("1", 1)
    if not is_plane and block[1] == 1:
        text, elements = length
        along = [(f"ceil_div({text}, blockDim.x)", -(-elements // block[0])), one]
    elif len(sizes) == 1:
        ((name, size),) = sizes.items()
        along = [
            (f"ceil_div({name}, blockDim.{axis})", -(-size // threads)) if threads > 1 else one
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
    covering = [(text, count) if count <= most else (str(most), most) for text, count in [*along, one]]
    if given is not None and math.prod(given) <= 4 * _MOST_BLOCKS:
        covering = [
            (text, count) if count == own else (str(own), own)
            for (text, count), own in zip(covering, three(given), strict=True)
        ]
    (x, columns), (y, rows), (z, layers) = covering
    return (columns, rows, layers), (x, y, z)


def _array(one: Parameter, length: _Formula, bytes_: int, first: int) -> ProposedArray:
    """An array of a length; or of the bytes that the file's host code allocates, from an element on."""
    dtype = one.dtype if one.dtype is not None else np.dtype(np.uint8)
    each = max(one.width, 1) if one.dtype is not None else _STRUCT_BYTES
    text, count = length
    elements, formula = each * count, text if each == 1 else f"{each} * {text}"
    own, rest = divmod(bytes_, dtype.itemsize)
    if own not in (0, elements) and not rest and own * dtype.itemsize <= _MOST_BYTES:
        elements, formula = own, str(own)
    first *= one.width if 0 < first * one.width < own and one.dtype is not None else 0
    is_struct = one.dtype is None
    return ProposedArray(
        one.name, one.ctype, dtype, (elements,), formula, not one.is_const, is_struct=is_struct, first=first
    )


def _by_value(one: Parameter, value: float, bytes_: int) -> ProposedArray | ProposedNumber:
    if one.dtype is not None and one.width == 1:
        if one.dtype.kind in "iu":
            info = np.iinfo(one.dtype)
            value = min(max(int(value), int(info.min)), int(info.max))
        return ProposedNumber(one.name, one.ctype, one.dtype, value)
    dtype, count = (np.dtype(np.uint8), bytes_) if one.dtype is None else (one.dtype, one.width)
    return ProposedArray(one.name, one.ctype, dtype, (count,), str(count), False, True, one.dtype is None)


def _variable(one: DeviceVariable, bytes_: int) -> ProposedArray | None:
    """A value for a variable; zeros for a struct, of so many bytes."""
    if one.dtype is None and bytes_:
        written, kind = not one.is_constant, np.dtype(np.uint8)
        return ProposedArray(one.name, "struct", kind, (bytes_,), str(bytes_), written, is_struct=True)
    if one.dtype is None or one.shape is None or -1 in one.shape:
        return None
    shape = one.shape or (1,)
    length = str(math.prod(shape))
    return ProposedArray(one.name, str(one.dtype), one.dtype, shape, length, is_written=not one.is_constant)
