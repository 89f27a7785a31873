"""Scripts of their own: their inputs are the case's, bit for bit."""

from __future__ import annotations

import numpy as np

from tilewise.cases import case, constant, integers, normal, output, uniform
from tilewise.gpu.kernel import Kernel

TAKES = Kernel(
    'struct P { int a; };\nextern "C" __global__ void takes(float* a, half* b, double* c, int* d, '
    "unsigned* e, "
    "float* f, unsigned short* g, float h, bool i, long long j, P k, half* l, P* m) {}"
)


def test_every_kind_of_input_is_made_bit_for_bit(cupy):
    pairs = np.array([(3,), (4,)], [("a", "i4")])
    given = case(
        a=normal(3, 5, scale=0.3), b=normal(7, dtype="float16", seed=3),
        c=uniform(4, low=-1, high=2, dtype="float64"),
        d=integers(2, 2, low=-5, high=5), e=constant(3, value=7, dtype="uint32"), f=output(2, 2),
        g=output(3, dtype="uint16"), h=float("inf"), i=True, j=2**40, k=pairs[:1],
        l=np.arange(3, dtype=np.float16),
        m=pairs, grid=(2, 3), block=32,
    )  # fmt: skip
    received: dict[str, bytes] = {}
    names = [one.name for one in TAKES.parameters]
    cupy.body = lambda *args: received.update(
        {name: np.asarray(value).tobytes() for name, value in zip(names, args, strict=True)}
    )
    namespace: dict = {"__name__": "standalone"}
    exec(TAKES.standalone(given), namespace)
    namespace["results"]()
    from_script = dict(received)
    TAKES.on(given).run()
    assert from_script == received
    made = given.make()
    assert from_script["a"] == made["a"].tobytes()
    assert from_script["k"] == pairs[:1].tobytes()


def test_a_script_run_by_itself_prints_a_checksum_of_each_result(cupy, capsys):
    kernel = Kernel('extern "C" __global__ void f(const int* x, int* y) {}')
    given = case(
        x=constant(2, value=1, dtype="int32"), y=constant(2, value=0, dtype="int32"), grid=1, block=1
    )
    exec(kernel.standalone(given), {"__name__": "__main__"})
    assert capsys.readouterr().out == "y (2,) int32 crc 6522df69\n"


def test_a_source_with_three_quotes_survives(cupy):
    kernel = Kernel('// """ and \\\nextern "C" __global__ void f(float* y) {}')
    namespace: dict = {"__name__": "standalone"}
    exec(kernel.standalone(case(y=output(1), grid=1, block=1)), namespace)
    assert namespace["SOURCE"] == kernel.gpu_source
