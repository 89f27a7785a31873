"""st.async: a number into another block's shared memory, told to the mbarrier beside it."""

import numpy as np
import pytest

from tests.simulator.hopper import DEVICE, OPTIONS, line_of
from tests.simulator.kernels import meets
from tilewise.errors import LessonError
from tilewise.kernel.kernel import Kernel

SEND = (
    "DEVICE void send(void* to, u64 value, u64* bar, int block) {\n"
    '    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];"\n'
    '        :: "r"(mapa(to, block)), "l"(value), "r"(mapa(bar, block)) : "memory"); }\n'
)
SYNC = "cluster_arrive(); cluster_wait();\n"
ROUNDS = (
    "__shared__ u64 box[2][4]; __shared__ u64 heard[2];\n"
    "if (i == 0) { init(&heard[0], 1); init(&heard[1], 1); fence_init(); }\n"
    + SYNC
    + "for (int n = 0; n < rounds; ++n) {\n"
    "u64* bar = &heard[n % 2];\n"
    "if (i == 0) expect(bar, 32);\n"
    "if (i < 4)\nsend(&box[n % 2][rank()], 100 * n + rank(), bar, i);\n"
    "wait(bar, n / 2 % 2);\n"
    "int total = 0;\nfor (int k = 0; k < 4; ++k)\ntotal += box[n % 2][k];\n"
    "y[(n * 4 + rank()) * 64 + i] = total;\n"
    "__syncthreads();\n}\n"
)


def rounds(body: str = ROUNDS) -> Kernel:
    head = (
        'extern "C" __global__ void __cluster_dims__(4) rounds(int* y, int rounds) {\nint i = threadIdx.x;\n'
    )
    return Kernel(f"{DEVICE}{SEND}{head}{body}\n}}\n", options=OPTIONS)


def test_every_block_hears_every_block_again_and_again():
    y = np.zeros((5, 4, 64), np.int32)
    run = rounds().simulate(y.reshape(-1), 5, grid=4, block=64)
    assert np.array_equal(y, np.broadcast_to(400 * np.arange(5)[:, None, None] + 6, y.shape))
    assert (run.counts.bulk_load.requests, run.counts.bulk_load.shared_bytes) == (5 * 16, 5 * 16 * 8)


@pytest.mark.parametrize(
    ("find", "put", "kinds", "line_with"),
    [
        ("wait(bar, n / 2 % 2);\n", "", ("undelivered",), "total += box"),
        ("wait(bar, n / 2 % 2);\n", "if (i < 32) wait(bar, n / 2 % 2);\n", ("undelivered",), "total += box"),
        ("expect(bar, 32)", "expect(bar, 40)", ("deadlock",), "wait(bar"),
        ("if (i < 4)\nsend", "if (i < 3)\nsend", ("deadlock",), "wait(bar"),
        ("box[2][4]; ", "box[1][4]; ", ("out of bounds",), "send(&box"),
        ("heard[n % 2]", "heard[0]", ("undelivered",), "total += box"),
        ("[n % 2][rank()]", "[0][rank()]", ("overwritten", "race", "undelivered"), ""),
        ("fence_init(); }\n" + SYNC, "fence_init(); }\n__syncthreads();\n", ("cluster",), "send(&box"),
        (" fence_init(); }", " }", ("proxy",), "send(&box"),
        ("&box[n % 2][rank()]", "(char*)&box[n % 2][rank()] + 4", ("misaligned",), "send((char"),
        ("bar, i);", "bar, i + 1);", ("cluster",), "send(&box"),
    ],
)
def test_planted_bugs(find, put, kinds, line_with):
    assert find in ROUNDS
    made = rounds(ROUNDS.replace(find, put))
    with meets(kinds, line_of(made.source, line_with) if line_with else None):
        made.simulate(np.zeros(5 * 4 * 64, np.int32), 5, grid=4, block=64)


def test_the_simulator_says_which_forms_it_does_not_carry_out():
    made = rounds(ROUNDS)
    text = made.source.replace(".b64 [%0], %1, [%2]", ".v2.b64 [%0], {%1, %1}, [%2]")
    with pytest.raises(LessonError, match="does not carry out"):
        Kernel(text, options=OPTIONS).simulate(np.zeros(5 * 4 * 64, np.int32), 5, grid=4, block=64)
