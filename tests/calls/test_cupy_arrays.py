"""Functions on arrays of CuPy: results stay on the GPU, on the caller's stream; only where there is one."""

import numpy as np
import pytest

from tests.calls.test_attentions import PLAIN, reference
from tests.calls.test_softmaxes import reference as softmax_reference
from tilewise import bf16, kernels
from tilewise.cuda.kernel_source import KernelError
from tilewise.gpu.device import gpu_fault

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(gpu_fault() is not None, reason=str(gpu_fault())),
]


@pytest.fixture
def cp():
    return pytest.importorskip("cupy")


@pytest.mark.parametrize("columns", [1, 77, 4096, 50_257, 50_256, 100_000, 140_001])
@pytest.mark.parametrize("first", [0, 1])
def test_softmax_of_any_row(cp, columns, first):
    x = np.random.default_rng(1).normal(size=3 * columns + first).astype(np.float32) * 4
    made = kernels.softmax(cp.asarray(x)[first:].reshape(3, columns))
    assert isinstance(made, cp.ndarray)
    expected = softmax_reference(x[first:].reshape(3, columns).astype(np.float64))
    assert np.allclose(made.get(), expected, rtol=3e-5, atol=1e-9)


@pytest.mark.parametrize("shape", [(6001, 103), (64, 64), (3, 5, 77, 130)])
def test_transposes_and_sums(cp, shape):
    x = cp.random.default_rng(1).standard_normal(shape, dtype=cp.float32)
    assert bool((kernels.transpose(x) == x.swapaxes(-1, -2)).all())
    assert np.isclose(float(kernels.sum(x[1:])), float(x[1:].sum(dtype=cp.float64)), rtol=1e-4, atol=1e-1)


@pytest.mark.parametrize("sizes", [(1000, 1000, 1000), (130, 67, 45), (512, 4096, 100)])
@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16"])
def test_products(cp, sizes, kind):
    m, n, k = sizes
    random = np.random.default_rng(1)
    a, b = (random.normal(size=one).astype(np.float32) for one in ((m, k), (k, n)))
    if kind == "bfloat16":
        made = kernels.matmul(*(cp.asarray(bf16.bits(one)) for one in (a, b)), dtype=kind)
        got = bf16.values(made.get())
    else:
        got = kernels.matmul(*(cp.asarray(one.astype(kind)) for one in (a, b))).get()
    room = 1e-4 if kind == "float32" else 2e-2
    assert np.allclose(got.astype(np.float64), a.astype(np.float64) @ b, rtol=room, atol=room * k**0.5)


def test_attention_on_a_stream_of_the_callers(cp):
    shape = (PLAIN["batch"], 4, 300, 128)
    q, k, v = (np.random.default_rng(at).normal(size=shape) for at in range(3))
    with cp.cuda.Stream(non_blocking=True) as stream:
        passed = [cp.asarray(bf16.bits(one)) for one in (q, k, v)]
        out, lse = kernels.attention(*passed, causal=True, dtype="bfloat16", return_lse=True)
        stream.synchronize()
    wide = [bf16.values(bf16.bits(one)).astype(np.float64) for one in (q, k, v)]
    expected, sums = reference(*wide, True, None, 128**-0.5)
    assert np.abs(bf16.values(out.get()) - expected).max() < 4e-2
    assert np.allclose(lse.get(), sums, atol=1e-3)


def test_numpy_arrays_come_back_as_numpy_arrays(cp):
    x = np.random.default_rng(1).normal(size=(5, 33)).astype(np.float32)
    made = kernels.softmax(x)
    assert isinstance(made, np.ndarray)
    assert np.allclose(made, softmax_reference(x.astype(np.float64)), atol=1e-6)


def test_host_and_device_arrays_are_not_mixed(cp):
    x = np.zeros((4, 4), np.float32)
    with pytest.raises(KernelError, match=r'^matmul: "b" is on GPU 0, and "a" is a NumPy array'):
        kernels.matmul(x, cp.asarray(x))


def test_memory_that_runs_out_is_said_and_nothing_written(cp):
    x = cp.zeros((1 << 12, 1 << 12), cp.float32)
    pool = cp.get_default_memory_pool()
    limit = pool.get_limit()
    pool.set_limit(size=pool.used_bytes() + 1024)
    try:
        with pytest.raises(KernelError, match=r"^transpose: no memory for 67,108,864 bytes"):
            kernels.transpose(x)
    finally:
        pool.set_limit(size=limit)
