"""The Playground's example kernels, which run without a compiler.

In: the files in ``examples``. Out: JSON for ``site/web/play``: texts, launches and compiled programs.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tilewise.kernel.pasted import compiled

_FOLDER = Path(__file__).with_name("examples")
_EXAMPLES: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "add": ("Vector addition without a guard", {"n": "1000"}),
    "strided": (
        "A strided copy",
        {"stride": "2", "x.length": "n * stride", "y.length": "n", "grid.x": "ceil_div(n, blockDim.x)"},
    ),
    "transpose": (
        "A transpose with bank conflicts",
        {"n": "64", "block.x": "32", "block.y": "8", "grid.x": "n / 32", "grid.y": "n / 32"},
    ),
    "block_sum": ("A block sum that lacks a barrier", {"sums.length": "gridDim.x"}),
}
"""Titles, and field values that replace the proposed ones."""


@cache
def examples() -> bytes:
    """Return the examples as JSON: each a ``title``, a ``text`` and the result of ``kernel/pasted.py``.

    Raises:
        RuntimeError: an example does not compile.
    """
    return json.dumps([_example(*example) for example in _EXAMPLES.items()], separators=(",", ":")).encode()


def _example(name: str, example: tuple[str, Mapping[str, str]]) -> dict[str, Any]:
    title, fields = example
    text = (_FOLDER / f"{name}.cu").read_text(encoding="utf-8")
    program = compiled(text)
    if program["faults"]:
        raise RuntimeError(f"site/play/examples/{name}.cu: {program['faults'][0]['message']}")
    program["proposal"]["fields"].update(fields)
    return {"title": title, "text": text, **program}
