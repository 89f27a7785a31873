"""What a kernel's source says about its shared arrays: element type and shape.

In: CUDA C. Out: a shape and a dtype by name, as far as both can be read off.
An array whose size cannot be, such as dynamic shared memory, is left out.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

_SHARED = re.compile(
    r"__shared__\s+(?:__align__\s*\([^)]*\)\s*)?(?P<type>[A-Za-z_][\w ]*?)\s+"
    r"(?P<declared>\w+\s*(?:\[[^\]]*\]\s*)*(?:,\s*\w+\s*(?:\[[^\]]*\]\s*)*)*);"
)
_ONE = re.compile(r"(\w+)\s*((?:\[[^\]]*\]\s*)*)")
_NAMED = re.compile(
    r"^\s*#\s*define\s+(\w+)\s+([^\n/]+)|\bconst(?:expr)?\s+(?:int|unsigned|size_t)\s+(\w+)\s*=\s*([^;,]+)",
    re.M,
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_DTYPES = {
    "float": "f4",
    "double": "f8",
    "int": "i4",
    "unsigned": "u4",
    "unsigned int": "u4",
    "half": "f2",
    "__half": "f2",
    "long long": "i8",
    "unsigned long long": "u8",
}
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
}


@dataclass(frozen=True)
class Shared:
    """A declaration in shared memory."""

    shape: tuple[int, ...]
    """Empty where it cannot be read off."""
    dtype: np.dtype[np.generic] | None
    """None for a type that has no NumPy twin."""


def shared_arrays(source: str) -> dict[str, Shared]:
    """Return the shared arrays that a source declares.

    Args:
        source: CUDA C, with the ``#define`` lines that its sizes hang on.
    """
    plain = _COMMENT.sub("", source)
    known: dict[str, str] = {}
    for found in _NAMED.finditer(plain):
        known[found[1] or found[3]] = (found[2] or found[4]).strip()
    declared = {}
    for found in _SHARED.finditer(plain):
        kind = _DTYPES.get(" ".join(found["type"].replace("volatile", "").split()))
        for one in _ONE.finditer(found["declared"]):
            sizes = [_whole(part, known) for part in re.findall(r"\[([^\]]*)\]", one[2])]
            declared[one[1]] = Shared(tuple(sizes) if all(sizes) else (), np.dtype(kind) if kind else None)
    return declared


def _whole(text: str, names: Mapping[str, str], depth: int = 0) -> int:
    """The value of a size such as ``T + 1``; 0 where it cannot be told."""
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, names, depth)
    except (SyntaxError, ValueError, ZeroDivisionError):
        return 0


def _value(node: ast.expr, names: Mapping[str, str], depth: int) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.Name) and node.id in names and depth < 8:
        return _whole(names[node.id], names, depth + 1)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left, names, depth), _value(node.right, names, depth)
        return int(_OPERATORS[type(node.op)](left, right))
    raise ValueError(f"{ast.unparse(node)} is no whole number that the source names")
