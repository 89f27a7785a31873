"""Right kernels, each with a launch at sizes that do not divide and what NumPy says of it.

In: sources of the lessons, of the simulator's other tests, and of `sources`. Out: subjects, into which
bugs are planted elsewhere. Each must run without a hazard as it stands.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.simulator.kernels import TILED, VEC_ADD, simulate
from tilewise.gpu.tensor_map import TensorMap, bound
from tilewise.simulator import Run

from .sources import (
    ASYNC_TILES,
    COMPACT,
    COPY_BY_FOUR,
    DOUBLE_BUFFER,
    HISTOGRAM,
    PIPELINE,
    SCAN,
    SOFTMAX_BLOCK,
    STENCIL,
    TRANSPOSE,
    TREE_SUM,
    WARP_ROWS,
    WARP_TILE,
)

Arguments = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Subject:
    """A kernel, a launch, and its truth."""

    name: str
    """Unique in the corpus."""
    source: str
    """Right as it stands."""
    make: Callable[[np.random.Generator], Arguments]
    """Fresh arguments in the order of the parameters; outputs hold NaN or the worst number."""
    expected: Callable[[Arguments], dict[str, Any]]
    """What the outputs must hold, from the arguments as they were."""
    grid: tuple[int, ...]
    """Blocks."""
    block: tuple[int, ...]
    """Threads of a block."""
    shared_bytes: int = 0
    """Dynamic shared memory."""
    entry: str | None = None
    """Which kernel of the source; the first where not given."""
    options: tuple[str, ...] = ()
    """For the compiler."""
    max_steps: int = 400_000
    """Warp instructions after which a launch counts as endless."""
    parameters: tuple[str, ...] = ()
    """Which arguments the kernel takes, where the others are arrays that its tensor maps name."""

    def run(self, source: str | None = None, without: str = "") -> tuple[Run, list[str]]:
        """Run a source, perhaps without the end of one array; the run, and the outputs that are wrong."""
        given = self.make(np.random.Generator(np.random.PCG64(11)))
        before = {
            name: value if isinstance(value, TensorMap) else np.copy(value) for name, value in given.items()
        }
        if without and without != "shared_bytes":
            given[without] = given[without].reshape(-1)[:-1].copy()
        run = self.launch(given, source, -4 * (without == "shared_bytes"))
        wrong = []
        for name, truth in self.expected(before).items():
            got = given[name].reshape(-1)
            right = np.asarray(truth).reshape(-1)[: len(got)]
            if not np.allclose(got, right, rtol=1e-4, atol=1e-5, equal_nan=True):
                wrong.append(name)
        return run, wrong

    def launch(self, given: Arguments, source: str | None = None, more_shared_bytes: int = 0) -> Run:
        """Run a source on arguments, which it writes."""
        return simulate(
            source or self.source,
            *(bound(given[name], given) for name in self.parameters or given),
            grid=self.grid,
            block=self.block,
            name=self.entry,
            options=self.options,
            shared_bytes=self.shared_bytes + more_shared_bytes,
            max_steps=self.max_steps,
        )


def nan(*shape: int) -> np.ndarray:
    return np.full(shape, np.nan, np.float32)


def floats(made: np.random.Generator, *shape: int) -> np.ndarray:
    return made.normal(size=shape).astype(np.float32)


def whole(value: int) -> np.int32:
    return np.int32(value)


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def steep(made: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    """Rows of which most overflow in exp unless their own maximum is taken off; each has it elsewhere."""
    x = 4 * floats(made, rows, columns)
    for row in range(rows):
        if row % 4 != 3:
            x[row, 35 * row % columns] += 200
    return x


def _scanned(x: np.ndarray) -> np.ndarray:
    padded = np.pad(x.astype(np.float64), (0, -len(x) % 96)).reshape(-1, 96)
    return padded.cumsum(1).reshape(-1)[: len(x)]


def _curved(x: np.ndarray) -> np.ndarray:
    wide = np.pad(x, 1)
    return wide[:-2] - 2 * wide[1:-1] + wide[2:]


def _warp_reversed(x: np.ndarray) -> np.ndarray:
    padded = np.pad(x, (0, -len(x) % 32)).reshape(-1, 32)
    both = padded + padded[:, ::-1]
    return both[:, np.arange(32) ^ 1].reshape(-1)[: len(x)]


def _by_four(x: np.ndarray) -> np.ndarray:
    made = x.copy()
    made[:, 0] *= 2
    made[:, 3] += 1
    return made


def _kept(x: np.ndarray) -> np.ndarray:
    made = np.full(len(x), -1, np.int32)
    found = x[x % 3 == 0]
    made[: len(found)] = found
    return made


def _own() -> list[Subject]:
    return [
        Subject(
            "vec_add_of_tests",
            VEC_ADD,
            lambda r: {"a": floats(r, 75), "b": floats(r, 75), "c": nan(75), "n": whole(75)},
            lambda g: {"c": g["a"] + g["b"]},
            (3,),
            (32,),
        ),
        Subject(
            "tiled",
            TILED,
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
            "tree_sum",
            TREE_SUM,
            lambda r: {"x": floats(r, 300), "y": nan(3), "n": whole(300)},
            lambda g: {"y": np.pad(g["x"], (0, 84)).reshape(3, 128).sum(1)},
            (3,),
            (128,),
        ),
        Subject(
            "transpose",
            TRANSPOSE,
            lambda r: {"A": floats(r, 21, 37), "B": nan(37, 21), "rows": whole(21), "cols": whole(37)},
            lambda g: {"B": g["A"].T},
            (3, 2),
            (16, 16),
        ),
        Subject(
            "softmax_block",
            SOFTMAX_BLOCK,
            lambda r: {"x": steep(r, 4, 131), "y": nan(4, 131), "n": whole(131)},
            lambda g: {"y": softmax(g["x"])},
            (4,),
            (96,),
        ),
        Subject(
            "histogram",
            HISTOGRAM,
            lambda r: {
                "x": r.integers(0, 48, 300).astype(np.int32),
                "counts": np.zeros(48, np.int32),
                "n": whole(300),
            },
            lambda g: {"counts": np.bincount(g["x"], minlength=48)},
            (5,),
            (64,),
        ),
        Subject(
            "scan",
            SCAN,
            lambda r: {"x": floats(r, 250), "y": nan(250), "n": whole(250)},
            lambda g: {"y": _scanned(g["x"])},
            (3,),
            (96,),
            shared_bytes=96 * 4,
        ),
        Subject(
            "stencil",
            STENCIL,
            lambda r: {"x": floats(r, 128), "y": nan(128), "n": whole(128)},
            lambda g: {"y": _curved(g["x"])},
            (3,),
            (64,),
        ),
        Subject(
            "warp_rows",
            WARP_ROWS,
            lambda r: {
                "A": floats(r, 5, 71),
                "x": floats(r, 71),
                "y": nan(5),
                "rows": whole(5),
                "cols": whole(71),
            },
            lambda g: {"y": g["A"] @ g["x"]},
            (3,),
            (64,),
        ),
        Subject(
            "copy_by_four",
            COPY_BY_FOUR,
            lambda r: {"x": floats(r, 150, 4), "y": nan(150, 4), "n": whole(150)},
            lambda g: {"y": _by_four(g["x"])},
            (2,),
            (32,),
        ),
        Subject(
            "compact",
            COMPACT,
            lambda r: {
                "x": r.integers(1, 100, 75).astype(np.int32),
                "kept": np.full(75, -1, np.int32),
                "count": np.zeros(1, np.int32),
                "n": whole(75),
            },
            lambda g: {"kept": _kept(g["x"]), "count": (g["x"] % 3 == 0).sum()},
            (3,),
            (32,),
        ),
        Subject(
            "warp_tile",
            WARP_TILE,
            lambda r: {"x": floats(r, 150), "y": nan(150), "n": whole(150)},
            lambda g: {"y": _warp_reversed(g["x"])},
            (2,),
            (128,),
        ),
        Subject(
            "pipeline",
            PIPELINE,
            lambda r: {"x": floats(r, 5, 32), "y": nan(32), "tiles": whole(5)},
            lambda g: {"y": g["x"].sum(0)[::-1]},
            (1,),
            (64,),
        ),
        Subject(
            "async_tiles",
            ASYNC_TILES,
            lambda r: {"x": floats(r, 5, 64), "y": nan(64), "tiles": whole(5)},
            lambda g: {"y": g["x"].sum(0)[::-1]},
            (1,),
            (64,),
        ),
        Subject(
            "double_buffer",
            DOUBLE_BUFFER,
            lambda r: {
                "A": floats(r, 75, 71),
                "x": floats(r, 71),
                "y": nan(75),
                "rows": whole(75),
                "cols": whole(71),
            },
            lambda g: {"y": g["A"] @ g["x"]},
            (2,),
            (64,),
        ),
    ]


OWN = _own()
