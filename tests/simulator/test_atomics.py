"""Atomics of every type and scope against NumPy, on global and on shared memory."""

import numpy as np
import pytest

from tests.simulator.kernels import on_threads, simulate

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
def test_folds_of_every_scope(ctype, name):
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
