"""The launches of the functions: steps, all checked before the first runs, and the choice of kernel.

In: kernels with arguments and a launch shape. Out: arrays, written in place.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tilewise import kernels
from tilewise.cuda.arguments import check_launch
from tilewise.cuda.cases import Extent, ceil_div
from tilewise.cuda.kernel_source import KernelError
from tilewise.kernel.backend import backend
from tilewise.kernel.kernel import Kernel
from tilewise.kernels.calls.arrays import C_TYPES, Tensor, workspace
from tilewise.kernels.calls.plans import recorder

FILLED = {1: 132, 2: 132, 3: 111, 4: 120, 6: 90, 8: 112}
"""By blocks per cluster: how many of an H200's 132 SMs such clusters fill."""
GENERAL = Path(__file__).resolve().parent.parent / "general"
"""The folder of kernels for arrays that no lesson's kernel takes."""
AMPERE = 80
"""The first compute capability with asynchronous copies and BF16 tensor cores."""
HOPPER = 90
"""The compute capability that has wgmma and TMA as the lessons' kernels use them."""
WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
"""CUDA C integers by size in bytes, for elements that are only moved."""
_PACK_AXES = 5
_MOST_BLOCKS, _MOST_AT_ONCE = 8192, 65_535


@dataclass(frozen=True)
class Choice:
    """The kernel that a function launches, and why."""

    kernel: str
    """A published kernel's name, or `general/<name>`."""
    why: str
    """The reason, a clause."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Values for its `#define` lines."""
    launch: Mapping[str, int] = field(default_factory=dict)
    """Other parameters of its launch."""

    @property
    def lesson(self) -> str | None:
        """The lesson that contains it; None for a general kernel."""
        return None if self.kernel.startswith("general/") else kernels.PUBLISHED[self.kernel].lesson

    def load(self, entry: str | None = None) -> Kernel:
        """The kernel with its settings; `entry` picks another of the same text."""
        if self.lesson is None:
            return general(self.kernel.removeprefix("general/"), entry, **self.settings)
        return published(self.kernel, entry, **self.settings)


@dataclass(frozen=True)
class Step:
    """One launch."""

    kernel: Kernel
    """The kernel."""
    arguments: tuple[Any, ...]
    """Its arguments, in order."""
    grid: Extent
    """Blocks."""
    block: Extent
    """Threads per block."""
    shared_bytes: int = 0
    """Dynamic shared memory per block."""


def run(call: str, steps: Sequence[Step]) -> None:
    """Check every launch shape, then launch in order.

    Raises:
        KernelError: a launch is too large; none has run.
    """
    for step in steps:
        try:
            check_launch(step.kernel.name, step.kernel.function, step.grid, step.block, step.shared_bytes)
        except KernelError as error:
            raise KernelError(f"{call}: {error} Pass fewer rows or matrices at a time.") from None
    for step in steps:
        step.kernel(*step.arguments, grid=step.grid, block=step.block, shared_bytes=step.shared_bytes)
    if (recording := recorder()) is not None:
        recording.steps += steps


def capability() -> int:
    """The compute capability of the current GPU, 90 for 9.0; the simulator has Hopper's instructions."""
    return _of_device(_device())[0]


def multiprocessors() -> int:
    """The number of SMs of the current GPU; 132 on the simulator."""
    return _of_device(_device())[1]


def _device() -> int | None:
    """The current GPU's number; None on the simulator."""
    return int(importlib.import_module("cupy").cuda.runtime.getDevice()) if backend() == "gpu" else None


@cache
def _of_device(number: int | None) -> tuple[int, int]:
    """Compute capability and SMs of a GPU."""
    if number is None:
        return HOPPER, 132
    device = importlib.import_module("cupy").cuda.Device(number)
    return int(device.compute_capability), int(device.attributes["MultiProcessorCount"])


@cache
def general(name: str, entry: str | None = None, **settings: Any) -> Kernel:
    """A kernel from the folder `general`, with settings."""
    path = GENERAL / f"{name}.cu"
    options = ("-std=c++17", "-arch=sm_90a") if name.endswith("_hopper") else ("-std=c++17",)
    return Kernel(path.read_text(encoding="utf-8"), entry, settings, options=options, origin=(str(path), 1))


@cache
def published(name: str, entry: str | None = None, **settings: Any) -> Kernel:
    """A published kernel with settings; `entry` picks another kernel of the same text."""
    kernel = kernels.kernel(name, **settings)
    return kernel if entry is None else kernel.named(entry)


def merged(tensor: Tensor, keep: int = 0) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Extents and strides with adjacent axes merged if memory allows.

    Args:
        tensor: the array.
        keep: how many of the last axes are not merged.
    """
    axes = len(tensor.shape) - keep
    steps = tensor.steps[:axes]
    common = _common(tensor.shape[:axes], steps, steps)
    return (
        (*(extent for extent, *_ in common), *tensor.shape[axes:]),
        (*(step for _, step, _ in common), *tensor.steps[axes:]),
    )


def packing(call: str, source: Tensor, target: Tensor) -> list[Step]:
    """Copy between arrays of one shape with other strides or another element type.

    Raises:
        KernelError: the array has too many axes that cannot be merged.
    """
    if 0 in source.shape:
        return []
    common = _common(source.shape, source.steps, target.steps)
    if len(common) > _PACK_AXES:
        raise KernelError(
            f'{call}: "{source.name}" of shape {source.shape} has {len(common)} axes apart in memory; '
            f"at most {_PACK_AXES} can be. Pass a contiguous copy."
        )
    if source.kind == target.kind and len(common) == 2 and common[-1][1:] == (1, 1):
        (rows, *steps), (columns, _, _) = common
        if source.data.itemsize in (2, 4) and max(rows, columns) < 2**31:
            grid = (min(ceil_div(columns, 256), 64), min(rows, _MOST_AT_ONCE))
            kernel = general("pad", "copy_rows", Number=WORDS[int(source.data.itemsize)])
            word = np.dtype(f"uint{8 * source.data.itemsize}")
            arrays = (tensor.flat().view(word) for tensor in (source, target))
            return [Step(kernel, (*arrays, rows, columns, *steps), grid, 256)]
    padded = [(1, 0, 0)] * (_PACK_AXES - len(common)) + common
    n = 1
    for extent, _, _ in padded:
        n *= extent
    settings = {
        "From": _element(source),
        "To": _element(target),
        "SAME": int(source.kind == target.kind),
    }
    arguments = (
        _bits(source),
        _bits(target),
        n,
        *(extent for extent, _, _ in padded[1:]),
        *(step for _, step, _ in padded),
        *(step for _, _, step in padded),
    )
    return [Step(general("pack", **settings), arguments, min(ceil_div(n, 256), _MOST_BLOCKS), 256)]


def packed(call: str, source: Tensor, kind: str | None = None) -> tuple[Tensor, list[Step]]:
    """A contiguous copy of an array, optionally of another element type, and the launch that makes it."""
    kind = kind or source.kind
    copy = source.of(workspace(call, source, source.shape, kind), kind)
    return copy, packing(call, source, copy)


def filling(target: Tensor, value: float) -> list[Step]:
    """Set every element of an array without gaps, in any order of axes."""
    n = int(target.data.size)
    if not n:
        return []
    word = np.dtype(f"uint{8 * target.data.itemsize}")
    bits = int(np.array(value, target.data.dtype).view(word))
    kernel = general("fill", Number=WORDS[word.itemsize])
    flat = target.flat().view(word)
    return [Step(kernel, (flat, n, bits), min(ceil_div(n, 256), _MOST_BLOCKS), 256)]


def dense(call: str, source: Tensor) -> tuple[Tensor, list[Step]]:
    """The array itself if it is contiguous and aligned to 16 bytes, else such a copy."""
    return (source, []) if source.contiguous and source.aligned() else packed(call, source)


def _common(
    extents: Sequence[int], source: Sequence[int], target: Sequence[int]
) -> list[tuple[int, int, int]]:
    """Extents with both strides, adjacent axes merged if both memories allow."""
    axes: list[tuple[int, int, int]] = []
    for extent, from_stride, to_stride in zip(extents, source, target, strict=True):
        if extent == 1:
            continue
        if axes and axes[-1][1] == extent * from_stride and axes[-1][2] == extent * to_stride:
            axes[-1] = (axes[-1][0] * extent, from_stride, to_stride)
        else:
            axes.append((extent, from_stride, to_stride))
    return axes


def _element(tensor: Tensor) -> str:
    """The C type of a tensor's elements; an integer of the same size for other types than ours."""
    return C_TYPES.get(tensor.kind) or WORDS[int(tensor.data.itemsize)]


def _bits(tensor: Tensor) -> Any:
    """A tensor's memory as elements of the type of `_element`."""
    if tensor.kind in C_TYPES:
        return tensor.flat()
    return tensor.flat().view(np.dtype(f"uint{8 * tensor.data.itemsize}"))
