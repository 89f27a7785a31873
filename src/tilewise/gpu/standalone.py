"""A launch as a script that needs NumPy and CuPy only, so that nobody must trust our wrapper.

In: a `Launch`. Out: Python text that makes the same inputs bit for bit, launches the same string through
`cupy.RawKernel` (or `RawModule`) and prints what came out. Running it is left to the reader and to recording.
"""

from __future__ import annotations

import keyword
import zlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise import bf16
from tilewise.cases import POISON_BYTE, Array, Recipe, Scalar
from tilewise.gpu.arguments import Parameter, check_arguments
from tilewise.gpu.cupy_backend import (
    DYNAMIC_DEFAULT_BYTES,
    NON_PORTABLE_CLUSTERS,
    PORTABLE_CLUSTER,
    own_text,
)
from tilewise.gpu.kernel_source import KernelError
from tilewise.gpu.options import carveout, for_compiler
from tilewise.gpu.tensor_map import TensorMap

if TYPE_CHECKING:
    from tilewise.gpu.launch import Launch

ARRAY_LIMIT_BYTES = 64 * 1024
"""A case's own arrays up to this size are written out; larger ones belong in recipes."""

_TAKEN = {"SOURCE", "ctypes", "cupy", "kernel", "np", "random", "results", "tensor_map", "zlib"}

_ENCODE = """
def tensor_map(array, kind, extents, strides, box, swizzle, promotion):
    room = np.zeros(256, np.uint8)  # the map has 128 bytes and lies at a multiple of 128
    made = room[-room.ctypes.data % 128 :][:128].view(np.dtype([("opaque", np.uint64, (16,))]))
    rank = len(extents)
    status = ctypes.CDLL("libcuda.so.1").cuTensorMapEncodeTiled(
        ctypes.c_void_p(made.ctypes.data),
        kind,
        rank,
        ctypes.c_void_p(array.data.ptr),
        (ctypes.c_uint64 * rank)(*extents),
        (ctypes.c_uint64 * rank)(*strides),
        (ctypes.c_uint32 * rank)(*box),
        (ctypes.c_uint32 * rank)(*[1] * rank),
        0,
        swizzle,
        promotion,
        0,
    )
    assert status == 0, status
    return made

"""
"""What a script with tensor maps has besides: the driver's own call."""


def script(launch: Launch) -> str:
    """Write the script.

    It prints, for each array that the kernel may write, its name, shape and a CRC of its bytes, so that two
    runs can be compared; `results()` returns the arrays to whoever imports it.

    Args:
        launch: kernel, case, grid, block.

    Raises:
        KernelError: the case holds an array too large to write out, or an argument does not fit.
    """
    kernel = launch.kernel
    maps = any(isinstance(value, TensorMap) for value in launch.taken.values())
    lines = [
        f'"""Kernel {kernel.name} with NumPy and CuPy alone: python {kernel.name}.py"""',
        "",
        *(["import ctypes"] if maps else []),
        "import zlib",
        "",
        "import cupy",
        "import numpy as np",
        "",
        f"SOURCE = {_literal(own_text(kernel.gpu_source, kernel.options))}",
        "",
        *(_ENCODE.split("\n")[:-1] if maps else []),
        "",
        "def results():",
        *(f"    {line}" if line else "" for line in _body(launch)),
        "",
        "",
        'if __name__ == "__main__":',
        "    for name, array in results().items():",
        '        print(name, array.shape, array.dtype, f"crc {zlib.crc32(array.tobytes()):08x}")',
    ]
    return "\n".join(lines) + "\n"


def _body(launch: Launch) -> list[str]:
    kernel, case = launch.kernel, launch.case
    options = f"options={for_compiler(kernel.options)!r}"
    if kernel.wants_module:
        lines = [f'kernel = cupy.RawModule(code=SOURCE, {options}).get_function("{kernel.name}")']
    else:
        lines = [f'kernel = cupy.RawKernel(SOURCE, "{kernel.name}", {options})']
    if (share := carveout(kernel.options)) is not None:
        lines.append(f"kernel.preferred_shared_memory_carveout = {share}")
    if launch.shared_bytes > DYNAMIC_DEFAULT_BYTES:
        lines.append(f"kernel.max_dynamic_shared_size_bytes = {launch.shared_bytes}")
    if int(np.prod(kernel.function.cluster or 1)) > PORTABLE_CLUSTER:
        lines.append(f"cupy.cuda.driver.funcSetAttribute(kernel.kernel.ptr, {NON_PORTABLE_CLUSTERS}, 1)")
    maps = [value for value in launch.taken.values() if isinstance(value, TensorMap)]
    mapped = [name for name in dict.fromkeys(one.name for one in maps) if name is not None]
    pointers = {one.name for one in kernel.parameters}
    for name in (name for name in mapped if name not in pointers):
        lines += _input(name, case.values[name])
        lines.append(f"{_variable(name)} = cupy.asarray({_variable(name)})")
    for one in sorted(kernel.parameters, key=lambda one: isinstance(case.values[one.name], TensorMap)):
        value = case.values[one.name]
        name = _variable(one.name)
        if isinstance(value, TensorMap):
            lines.append(f"{name} = {_map(value, case.values)}")
        elif isinstance(value, Recipe):
            lines += _recipe(one.name, value)
        elif isinstance(value, np.ndarray):
            lines += _array(one, value)
        else:
            lines.append(f"{name} = {_number(launch, one, value)}")
        if one.is_pointer:
            lines.append(f"{name} = cupy.asarray({name})")
    shared = f", shared_mem={launch.shared_bytes}" if launch.shared_bytes else ""
    names = [_variable(one.name) for one in kernel.parameters]
    arguments = ", ".join(names) + ("," if len(names) == 1 else "")
    lines.append(f"kernel({launch.grid}, {launch.block}, ({arguments}){shared})")
    written = [one.name for one in kernel.parameters if one.is_pointer and not one.is_const]
    written += [name for name in mapped if name in case.outputs and name not in written]
    lines.append(f"return {{{', '.join(f'{name!r}: cupy.asnumpy({_variable(name)})' for name in written)}}}")
    return lines


def _input(name: str, value: Any) -> list[str]:
    """An array that only a tensor map refers to."""
    if isinstance(value, Recipe):
        return _recipe(name, value)
    return _array(Parameter(name, "", True, False, None), value)


def _map(value: TensorMap, values: Mapping[str, Any]) -> str:
    """A call of the script's own `tensor_map`, with the driver's numbers."""
    array = values[value.name or ""]
    numbers = value.of(np.empty(array.shape, array.dtype)).numbers()
    return f"tensor_map({_variable(value.name or '')}, {', '.join(map(str, numbers))})"


def _variable(name: str) -> str:
    """A parameter's name as a Python variable that hides none of the script's own."""
    return f"{name}_" if keyword.iskeyword(name) or name in _TAKEN else name


def _recipe(parameter: str, recipe: Recipe) -> list[str]:
    """The steps of `Recipe.make`, spelled out; a test holds the two together."""
    name = _variable(parameter)
    shape, dtype, given = recipe.shape, str(recipe.dtype), dict(recipe.params)
    if recipe.element is not None:
        return _bits(parameter, recipe)
    if recipe.kind == "constant":
        return [f'{name} = np.full({shape}, {given["value"]!r}, dtype="{dtype}")']
    if recipe.kind == "output":
        if recipe.dtype.kind == "f":
            return [f'{name} = np.full({shape}, np.nan, dtype="{dtype}")']
        return [
            f"{name} = np.full({recipe.nbytes}, {POISON_BYTE:#x}, dtype=np.uint8)",
            f'{name} = {name}.view("{dtype}").reshape({shape})',
        ]
    seed = zlib.crc32(parameter.encode()) if recipe.seed is None else recipe.seed
    lines = [f"random = np.random.Generator(np.random.PCG64({seed}))"]
    if recipe.kind == "integers":
        bounds = f"{int(given['low'])}, {int(given['high'])}"
        return [*lines, f'{name} = random.integers({bounds}, {shape}, dtype=np.int64).astype("{dtype}")']
    working = "float64" if recipe.dtype == np.float64 else "float32"
    if recipe.kind == "normal":
        lines.append(f"{name} = random.standard_normal({shape}, dtype=np.{working})")
        lines.append(f"{name} *= np.{working}({given['scale']!r})")
    else:
        lines.append(f"{name} = random.random({shape}, dtype=np.{working})")
        lines.append(f"{name} *= np.{working}({given['high'] - given['low']!r})")
        lines.append(f"{name} += np.{working}({given['low']!r})")
    if dtype != working:
        lines.append(f'{name} = {name}.astype("{dtype}")')
    return lines


def _bits(parameter: str, recipe: Recipe) -> list[str]:
    """The same of an array that holds the bits of BF16 numbers."""
    name = _variable(parameter)
    if recipe.kind == "output":
        return [f"{name} = np.full({recipe.shape}, {bf16.NOT_A_NUMBER:#x}, dtype=np.uint16)"]
    return [
        *_recipe(parameter, replace(recipe, dtype=np.dtype(np.float32), element=None)),
        f"{name} = {name}.view(np.uint32)  # rounded to bf16, whose bits are the upper half",
        f"{name} = (({name} + (0x7FFF + ({name} >> 16 & 1))) >> 16).astype(np.uint16)",
    ]


def _array(one: Parameter, value: Array) -> list[str]:
    if value.nbytes > ARRAY_LIMIT_BYTES:
        raise KernelError(
            f'standalone: "{one.name}" is an array of {value.nbytes} bytes, too large for a script. '
            "Use a recipe such as normal(...) in the case."
        )
    dtype = value.dtype.descr if value.dtype.names else value.dtype.str
    made = f'np.frombuffer(bytes.fromhex("{value.tobytes().hex()}"), dtype={dtype!r}).reshape({value.shape})'
    if one.is_pointer and value.dtype.names:
        return [f"{_variable(one.name)} = {made}.reshape(-1).view(np.uint8)"]
    return [f"{_variable(one.name)} = {made}"]


def _number(launch: Launch, one: Parameter, value: Scalar) -> str:
    checked: Any = check_arguments(launch.kernel.name, [one], [value])[0]
    if isinstance(checked, np.floating) and not np.isfinite(checked):
        return f'np.{checked.dtype}("{checked.item()}")'
    return f"np.{checked.dtype.name.replace('bool', 'bool_')}({checked.item()!r})"


def _literal(source: str) -> str:
    """The source as a raw string where Python can hold it as one, so that it reads as it was written."""
    if '"""' not in source and not source.endswith("\\"):
        return f'r"""{source}"""'
    return repr(source)
