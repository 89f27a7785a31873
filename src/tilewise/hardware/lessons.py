"""Specimens from the lessons: their own kernels, read from their files, each with a launch of its own.

In: the lessons' folder. Out: ``specimens``. A lesson's cells are not executed: a kernel is found where its
name is assigned, so a changed kernel changes the specimen's key.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewise.cases import Case, ceil_div, normal, output
from tilewise.cases import case as a_case
from tilewise.errors import LessonError
from tilewise.gpu.kernel import Kernel
from tilewise.hardware.specimen import Specimen, specimen


def specimens(root: Path) -> tuple[Specimen, ...]:
    """The kernels of the lessons in a folder.

    Args:
        root: the folder ``lessons``.

    Raises:
        LessonError: a lesson has no kernel of a name that stands here.
    """
    return tuple(
        specimen(name, f"{variable} of {lesson}", kernel(root, lesson, variable), inputs, rtol, atol)
        for name, lesson, variable, inputs, rtol, atol in _table()
    )


def kernel(root: Path, lesson: str, variable: str) -> Kernel:
    """A lesson's kernel by the name of its variable."""
    file = root / f"{lesson}.py"
    arguments = _kernels(file, file.stat().st_mtime_ns).get(variable)
    if arguments is None:
        raise LessonError(
            f"lessons/{lesson}.py",
            0,
            f'there is no kernel "{variable}".',
            "The hardware comparison names it in src/tilewise/hardware/lessons.py: correct the name there.",
        )
    return Kernel(**arguments)


@lru_cache(maxsize=64)
def _kernels(file: Path, _stamp: int) -> dict[str, dict[str, Any]]:
    """The arguments of every ``NAME = Kernel(...)`` of a file; of several with one name the first."""
    found: dict[str, dict[str, Any]] = {}
    texts: dict[str, Any] = {}
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)):
            continue
        name, value = node.targets[0].id, node.value
        if isinstance(value, ast.Constant):
            texts[name] = value.value
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id == "Kernel":
            given = {word.arg: _plain(word.value, texts) for word in value.keywords if word.arg}
            found.setdefault(name, {"source": _plain(value.args[0], texts), **given})
    return found


def _plain(node: ast.expr, texts: dict[str, Any]) -> Any:
    return texts[node.id] if isinstance(node, ast.Name) else ast.literal_eval(node)


def _table() -> list[tuple[str, str, str, Case, float, float]]:
    first, grids, serial = "kernels/first_kernel", "kernels/grids", "kernels/serial_attention"
    N, d = 21, 12  # noqa: N806
    sizes: dict[str, Any] = {"N": N, "d": d, "scale": 0.25}
    matrices = {"Q": normal(N, d), "K": normal(N, d), "V": normal(N, d)}
    results = {"S": output(N, N), "P": output(N, N), "O": output(N, d)}
    whole = {**matrices, **results, **sizes}
    by_element = a_case(**whole, grid=(ceil_div(N, 8), ceil_div(N, 4)), block=(8, 4))
    logits = a_case(S=normal(N, N, scale=3.0), P=output(N, N), N=N, grid=ceil_div(N, 8), block=8)
    weights = a_case(P=normal(N, N), V=normal(N, d), O=output(N, d), N=N, d=d, grid=(2, 6), block=(8, 4))
    picture = a_case(
        picture=normal(70, 45), mirrored=output(70, 45), width=45, height=70, grid=(2, 9), block=(32, 8)
    )
    upright = a_case(
        picture=normal(70, 45), mirrored=output(70, 45), width=45, height=70, grid=(23, 3), block=(2, 32)
    )
    owners: dict[str, Any] = {
        "block_of": output(2, 3, 5, dtype="int32"),
        "thread_of": output(2, 3, 5, dtype="int32"),
    }
    volume = a_case(**owners, width=5, height=3, depth=2, grid=(3, 2, 1), block=(2, 2, 2))
    matrix = a_case(
        A=normal(21, 37), B=normal(37, 50), C=output(21, 50), M=21, N=50, K=37, grid=(4, 2), block=(16, 16)
    )
    saxpy = a_case(alpha=2.5, x=normal(1000), y=normal(1000), n=300, offset=5, stride=3, grid=2, block=256)
    added = a_case(a=normal(1000), b=normal(1000), c=output(1000), n=1000, grid=4, block=256)
    small = a_case(**whole, grid=1, block=1)
    return [
        ("lesson: vec_add", first, "VEC_ADD", added, 0.0, 0.0),
        ("lesson: strided saxpy", first, "STRIDED_SAXPY", saxpy, 0.0, 0.0),
        ("lesson: who_am_i", grids, "WHO_AM_I", volume, 0.0, 0.0),
        ("lesson: mirror, 32 x 8", grids, "MIRROR", picture, 0.0, 0.0),
        ("lesson: mirror, 2 x 32", grids, "MIRROR", upright, 0.0, 0.0),
        ("lesson: product", grids, "PRODUCT", matrix, 0.0, 0.0),
        ("lesson: attention, one thread", serial, "ATTENTION_SERIAL", small, 1e-5, 1e-6),
        ("lesson: scores", serial, "SCORES", by_element, 0.0, 0.0),
        ("lesson: softmax rows", serial, "SOFTMAX_ROWS", logits, 1e-5, 1e-7),
        ("lesson: weighted sum", serial, "WEIGHTED_SUM", weights, 0.0, 0.0),
    ]
