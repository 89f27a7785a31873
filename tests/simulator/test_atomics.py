"""Atomics of every type and scope against NumPy, on global and on shared memory."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.kernels import on_threads, simulate
from tilewise.simulator import CompileError

TYPES = {
    "int": np.int32,
    "unsigned": np.uint32,
    "long long": np.int64,
    "unsigned long long": np.uint64,
}
FOLDS = {
    "Min": np.minimum,
    "Max": np.maximum,
    "And": np.bitwise_and,
    "Or": np.bitwise_or,
    "Xor": np.bitwise_xor,
}


def _values(dtype: type[np.generic]) -> np.ndarray:
    raw = np.random.Generator(np.random.PCG64(3)).integers(0, 1 << 63, 64, dtype=np.uint64) * np.uint64(2)
    return (raw if np.dtype(dtype).itemsize == 8 else raw >> np.uint64(32)).astype(dtype)


@pytest.mark.parametrize(
    ("ctype", "name"),
    [(ctype, name) for ctype in TYPES for name in FOLDS if ctype != "long long" or name in ("Min", "Max")],
)
def test_folds_of_every_scope(ctype: str, name: str) -> None:
    dtype = TYPES[ctype]
    x, first = _values(dtype), _values(dtype)[5:6] // dtype(2)
    y = np.repeat(first, 6)
    calls = " ".join(
        f"atomic{name}{scope}(y + {at}, x[i]); atomic{name}{scope}(s + {at}, x[i]);"
        for at, scope in enumerate(("", "_block", "_system"))
    )
    body = (
        f"__shared__ {ctype} s[3]; if (i < 3) s[i] = y[3 + i]; __syncthreads();\n{calls}\n"
        "__syncthreads(); if (i < 3) y[3 + i] = s[i];"
    )
    run = simulate(on_threads(body, f"const {ctype}* x, {ctype}* y"), x, y, block=64)
    assert set(y.tolist()) == {FOLDS[name].reduce(np.concatenate([first, x]))}
    assert run.counts.global_atomic.requests == run.counts.shared_atomic.requests == 3 * 2


@pytest.mark.parametrize("scope", ["", "_block", "_system"])
def test_sums_exchanges_and_comparisons_of_every_scope(scope: str) -> None:
    source = on_threads(
        f"atomicAdd{scope}(y, x[i]); atomicSub{scope}(y + 1, x[i]);\n"
        f"if (atomicCAS{scope}(y + 2, 7, 8) == 7) y[3] = 1;\n"
        f"if (i == 9) y[5] = atomicExch{scope}(y + 4, 11);",
        "const int* x, int* y",
    )
    x, y = _values(np.int32), np.array([1, 2, 7, 0, 5, 0], np.int32)
    simulate(source, x, y, block=64)
    total = x.sum(dtype=np.int32)
    assert y.tolist() == [1 + total, 2 - total, 8, 1, 11, 5]


def test_what_cuda_lacks_is_lacking() -> None:
    with pytest.raises(CompileError, match="atomicAnd"):
        simulate(on_threads("atomicAnd(y, 1ll);", "long long* y"), np.zeros(1, np.int64))
