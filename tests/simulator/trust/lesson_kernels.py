"""The kernels of the lessons as subjects: read from the lessons' files, each with a launch and its truth.

In: `lessons/`. Out: subjects. A lesson that renames a kernel or changes its parameters changes this file.
"""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np

from .corpus import Arguments, Subject, floats, nan, softmax, steep, whole

LESSONS = Path(__file__).parents[3] / "lessons"


def lesson_kernel(lesson: str, variable: str) -> str:
    """The string that a lesson gives to a variable, or to the `Kernel` that the variable names."""
    for node in ast.parse((LESSONS / lesson).read_text()).body:
        if isinstance(node, ast.Assign) and any(
            isinstance(one, ast.Name) and one.id == variable for one in node.targets
        ):
            text = node.value.args[0] if isinstance(node.value, ast.Call) else node.value
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                return text.value.strip() + "\n"
    raise AssertionError(f"{lesson} has no kernel {variable}")


def _attention(made: np.random.Generator, n: int, d: int) -> Arguments:
    arrays = {name: floats(made, n, d) for name in "QKV"}
    arrays["Q"][1] *= 120  # so that exp overflows unless the row's own maximum is taken off
    return arrays


def _numbers(shape: tuple[int, int, int], block: tuple[int, int, int]) -> dict[str, np.ndarray]:
    """Blocks and threads, numbered x first, of each cell of a box."""
    z, y, x = np.indices(shape[::-1])
    bx, by, bz = block
    many = [-(-size // part) for size, part in zip(shape, block, strict=True)]
    return {
        "block_of": ((z // bz) * many[1] + y // by) * many[0] + x // bx,
        "thread_of": ((z % bz) * by + y % by) * bx + x % bx,
    }


def _of_lessons() -> list[Subject]:
    n, d = 13, 10
    scale = np.float32(1 / np.sqrt(d))
    first, grids, serial = (f"kernels/{name}.py" for name in ("first_kernel", "grids", "serial_attention"))
    return [
        Subject(
            "vec_add",
            lesson_kernel(first, "SOURCE"),
            lambda r: {"a": floats(r, 75), "b": floats(r, 75), "c": nan(75), "n": whole(75)},
            lambda g: {"c": g["a"] + g["b"]},
            (3,),
            (32,),
        ),
        Subject(
            "saxpy",
            lesson_kernel(first, "STRIDED_SAXPY"),
            lambda r: {
                "alpha": np.float32(1.5),
                "x": floats(r, 122),
                "y": floats(r, 122),
                **dict(zip(("n", "offset", "stride"), map(whole, (40, 4, 3)), strict=True)),
            },
            lambda g: {
                "y": g["y"]
                + np.where((np.arange(122) >= 4) & (np.arange(122) % 3 == 1), g["alpha"] * g["x"], 0)
            },
            (2,),
            (32,),
        ),
        Subject(
            "who_am_i",
            lesson_kernel(grids, "WHO_AM_I"),
            lambda r: {
                "block_of": np.full(5 * 7 * 11, -1, np.int32),
                "thread_of": np.full(5 * 7 * 11, -1, np.int32),
                **dict(zip(("width", "height", "depth"), map(whole, (11, 7, 5)), strict=True)),
            },
            lambda g: dict(_numbers((11, 7, 5), (4, 4, 2))),
            (3, 2, 3),
            (4, 4, 2),
        ),
        Subject(
            "mirror",
            lesson_kernel(grids, "MIRROR"),
            lambda r: {
                "picture": floats(r, 13, 21),
                "mirrored": nan(13, 21),
                "width": whole(21),
                "height": whole(13),
            },
            lambda g: {"mirrored": g["picture"][:, ::-1]},
            (3, 2),
            (8, 8),
        ),
        Subject(
            "product",
            lesson_kernel(grids, "PRODUCT"),
            lambda r: {
                "A": floats(r, 13, 11),
                "B": floats(r, 11, 21),
                "C": nan(13, 21),
                **dict(zip("MNK", map(whole, (13, 21, 11)), strict=True)),
            },
            lambda g: {"C": g["A"] @ g["B"]},
            (3, 2),
            (8, 8),
        ),
        Subject(
            "attention_serial",
            lesson_kernel(serial, "ATTENTION_SERIAL"),
            lambda r: {
                **_attention(r, n, d),
                "S": nan(n, n),
                "P": nan(n, n),
                "O": nan(n, d),
                "N": whole(n),
                "d": whole(d),
                "scale": scale,
            },
            lambda g: {
                "S": g["Q"] @ g["K"].T * scale,
                "P": softmax(g["Q"] @ g["K"].T * scale),
                "O": softmax(g["Q"] @ g["K"].T * scale) @ g["V"],
            },
            (2,),
            (32,),
        ),
        Subject(
            "scores",
            lesson_kernel(serial, "SCORES"),
            lambda r: {
                "Q": floats(r, n, d),
                "K": floats(r, n, d),
                "S": nan(n, n),
                "N": whole(n),
                "d": whole(d),
                "scale": scale,
            },
            lambda g: {"S": g["Q"] @ g["K"].T * scale},
            (2, 2),
            (8, 8),
        ),
        Subject(
            "softmax_rows",
            lesson_kernel(serial, "SOFTMAX_ROWS"),
            lambda r: {"S": steep(r, n, n), "P": nan(n, n), "N": whole(n)},
            lambda g: {"P": softmax(g["S"])},
            (2,),
            (8,),
        ),
        Subject(
            "weighted_sum",
            lesson_kernel(serial, "WEIGHTED_SUM"),
            lambda r: {
                "P": softmax(floats(r, n, n)).astype(np.float32),
                "V": floats(r, n, d),
                "O": nan(n, d),
                "N": whole(n),
                "d": whole(d),
            },
            lambda g: {"O": g["P"] @ g["V"]},
            (2, 2),
            (8, 8),
        ),
    ]


FROM_LESSONS = _of_lessons()
