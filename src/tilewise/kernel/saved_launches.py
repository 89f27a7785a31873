"""Logged kernels and their launches to and from JSON.

In: the entries of a `LaunchLog`. Out: JSON data, or the same kernels and launches.
"""

from __future__ import annotations

import base64
import io
import zlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewise.cuda.cases import Array, Recipe, Scalar
from tilewise.cuda.cases import case as a_case
from tilewise.cuda.tensor_map import TensorMap, tensor_map
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.launches import LoggedKernel


def encode(logged: LoggedKernel) -> dict[str, Any]:
    """Return a logged kernel as JSON data."""
    kernel = logged.kernel
    return {
        "source": kernel.source,
        "name": kernel.name,
        "defines": dict(kernel.defines),
        "options": list(kernel.options),
        "line": kernel.origin[1],
        "launches": [
            {
                "grid": list(launch.grid),
                "block": list(launch.block),
                "shared_bytes": launch.shared_bytes,
                "values": {name: _value(value) for name, value in launch.taken.items()},
            }
            for launch in logged.launches
        ],
    }


def decode(data: Mapping[str, Any], path: str) -> LoggedKernel:
    """Return the logged kernel that `encode` converted to ``data``; its messages name ``path``."""
    kernel = Kernel(data["source"], data["name"], data["defines"], tuple(data["options"]))
    kernel.origin = (path, int(data["line"]))
    launches = tuple(
        kernel.on(
            a_case(
                tuple(launch["grid"]),
                tuple(launch["block"]),
                launch["shared_bytes"],
                **{name: _read(value) for name, value in launch["values"].items()},
            )
        )
        for launch in data["launches"]
    )
    return LoggedKernel(kernel, launches)


def _value(value: Recipe | Array | Scalar | TensorMap) -> dict[str, Any]:
    if isinstance(value, TensorMap):
        return {"map": [value.name, value.box, value.swizzle, value.shape, value.kind, value.promotion]}
    if isinstance(value, Recipe):
        return {
            "kind": value.kind,
            "shape": list(value.shape),
            "dtype": value.dtype.str,
            "seed": value.seed,
            "params": [list(pair) for pair in value.params],
            **({"element": value.element} if value.element else {}),
        }
    if isinstance(value, np.ndarray | np.generic):
        raw = io.BytesIO()
        np.save(raw, np.asarray(value), allow_pickle=False)
        text = base64.b64encode(zlib.compress(raw.getvalue())).decode()
        return {"array" if isinstance(value, np.ndarray) else "number": text}
    return {"plain": value}


def _read(data: Mapping[str, Any]) -> Recipe | Array | Scalar | TensorMap:
    if "map" in data:
        return tensor_map(*data["map"])
    if "plain" in data:
        plain: Scalar = data["plain"]
        return plain
    if "kind" in data:
        params = tuple((name, setting) for name, setting in data["params"])
        dtype = np.dtype(data["dtype"])
        return Recipe(data["kind"], tuple(data["shape"]), dtype, data["seed"], params, data.get("element"))
    text = data["array"] if "array" in data else data["number"]
    array: Array = np.load(io.BytesIO(zlib.decompress(base64.b64decode(text))), allow_pickle=False)
    return array if "array" in data else array[()]
