"""Kernels that the Playground starts with, and that run where there is no compiler.

In: the files in ``examples``. Out: JSON for ``site/web/play``: texts, launches, and programs that are
compiled already.
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
"""Titles, and what their fields hold instead of what is proposed."""


@cache
def examples() -> bytes:
    """The examples, as JSON: each a ``title``, a ``text``, and what ``kernel/pasted.py`` makes of it.

    Raises:
        RuntimeError: one does not compile.
    """
    return json.dumps([_example(*one) for one in _EXAMPLES.items()], separators=(",", ":")).encode()


def _example(name: str, given: tuple[str, Mapping[str, str]]) -> dict[str, Any]:
    title, fields = given
    text = (_FOLDER / f"{name}.cu").read_text(encoding="utf-8")
    made = compiled(text)
    if made["faults"]:
        raise RuntimeError(f"site/play/examples/{name}.cu: {made['faults'][0]['message']}")
    made["proposal"]["fields"].update(fields)
    return {"title": title, "text": text, **made}
