"""mbarriers: phases, parities, counts and bytes, what they order, and what is wrong with their use."""

from typing import Any

import numpy as np
import pytest

from tests.simulator.hopper import DEVICE, OPTIONS, line_of
from tests.simulator.kernels import meets, simulate

POLL = r"""
DEVICE int test(u64* bar, int parity) {
    int r; asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n"
        "selp.b32 %0, 1, 0, p;\n}" : "=r"(r) : "r"(at(bar)), "r"(parity) : "memory"); return r; }
DEVICE u64 arrive_many(u64* bar, int count) {
    u64 state; asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], %2;"
        : "=l"(state) : "r"(at(bar)), "r"(count) : "memory"); return state; }
DEVICE int test_state(u64* bar, u64 state) {
    int r; asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.shared::cta.b64 p, [%1], %2;\n"
        "selp.b32 %0, 1, 0, p;\n}" : "=r"(r) : "r"(at(bar)), "l"(state) : "memory"); return r; }
DEVICE int pending(u64 state) {
    int r; asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(r) : "l"(state)); return r; }
DEVICE void drop(u64* bar) {
    asm volatile("mbarrier.arrive_drop.shared::cta.b64 _, [%0];" :: "r"(at(bar)) : "memory"); }
DEVICE void expect_only(u64* bar, int bytes) {
    asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
        :: "r"(at(bar)), "r"(bytes) : "memory"); }
DEVICE void complete(u64* bar, int bytes) {
    asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;"
        :: "r"(at(bar)), "r"(bytes) : "memory"); }
"""


def source_of(body: str, shared: str = "__shared__ u64 bar;") -> str:
    head = f'{DEVICE}{POLL}\nextern "C" __global__ void kernel(int* y) {{\n{shared}\nint i = threadIdx.x;\n'
    return f"{head}{body}\n}}\n".lstrip("\n")


def run(body: str, block: int = 64, shared: str = "__shared__ u64 bar;") -> Any:
    y = np.full(64, -1, np.int32)
    simulate(source_of(body, shared), y, block=block, options=OPTIONS)
    return y


SET_UP = "if (i == 0) { init(&bar, COUNT); fence_init(); }\n__syncthreads();\n"


def test_a_producer_warp_and_a_consumer_warp_pass_words_on():
    body = (
        "__shared__ u64 full, empty; __shared__ int s[32];\n"
        "if (i == 0) { init(&full, 32); init(&empty, 32); }\n__syncthreads();\n"
        "if (i < 32) for (int t = 0; t < 5; ++t) { wait(&empty, (t & 1) ^ 1);\n"
        "s[i] = 10 * t + i; arrive(&full); }\n"
        "else { int total = 0; for (int t = 0; t < 5; ++t) {\n"
        "wait(&full, t & 1); total += s[63 - i]; arrive(&empty); }\ny[i - 32] = total; }"
    )
    assert run(body)[:32].tolist() == [100 + 5 * (31 - i) for i in range(32)]


@pytest.mark.parametrize(
    ("find", "put", "kind"),
    [
        ("wait(&full, t & 1);", "", "race"),
        (
            "wait(&empty, (t & 1) ^ 1);",
            "",
            "deadlock",
        ),  # the producer is phases ahead: a parity comes no more
        ("(t & 1) ^ 1", "1", "deadlock"),
    ],
)
def test_without_a_wait_words_race_or_phases_are_missed(find, put, kind):
    body = (
        "__shared__ u64 full, empty; __shared__ int s[32];\n"
        "if (i == 0) { init(&full, 32); init(&empty, 32); }\n__syncthreads();\n"
        "if (i < 32) for (int t = 0; t < 3; ++t) { wait(&empty, (t & 1) ^ 1); s[i] = t; arrive(&full); }\n"
        "else { int total = 0; for (int t = 0; t < 3; ++t) {\n"
        "wait(&full, t & 1); total += s[63 - i]; arrive(&empty); }\ny[i - 32] = total; }"
    )
    assert find in body
    with meets(kind):
        run(body.replace(find, put))


def test_parities_of_a_fresh_barrier_and_of_its_phases():
    body = SET_UP.replace("COUNT", "1") + (
        "if (i == 0) { y[0] = test(&bar, 1); y[1] = test(&bar, 0); arrive(&bar); y[2] = test(&bar, 0);\n"
        "y[3] = test(&bar, 1); arrive(&bar); y[4] = test(&bar, 1); y[5] = test(&bar, 0); }"
    )
    assert run(body)[:6].tolist() == [1, 0, 1, 0, 1, 0]


def test_bytes_hold_a_phase_open():
    body = SET_UP.replace("COUNT", "1") + (
        "if (i == 0) { expect_only(&bar, 48); arrive(&bar); y[0] = test(&bar, 0); complete(&bar, 32);\n"
        "y[1] = test(&bar, 0); complete(&bar, 16); y[2] = test(&bar, 0); }"
    )
    assert run(body)[:3].tolist() == [0, 0, 1]


def test_a_wait_counts_once_however_long_it_takes():
    body = SET_UP.replace("COUNT", "32") + "if (i < 32) { wait(&bar, 0); y[i] = 1; } else arrive(&bar);"
    y = np.zeros(64, np.int32)
    counts = simulate(source_of(body), y, block=64, options=OPTIONS).counts
    assert counts.mbarriers == 3  # init, wait, arrive
    assert y[:32].tolist() == [1] * 32


@pytest.mark.parametrize(
    ("body", "kind", "line_with", "match"),
    [
        ("wait(&bar, 0);", "mbarrier", "wait(&bar, 0);", "bar as an mbarrier.*not been initialised"),
        ("if (i == 0) {\narrive(&bar); }", "mbarrier", "arrive(&bar); }", "not been initialised"),
        ("if (i == 0) { init(&bar, 1);\ninit(&bar, 2); }", "mbarrier", "init(&bar, 2)", "in use since line"),
        ("if (i == 0) {\ninit(&bar, 0); }", "mbarrier", "init(&bar, 0)", "for 0 arrivals"),
        (
            "if (i == 0) { init(&bar, 3);\narrive_many(&bar, 4); }",
            "mbarrier",
            "arrive_many(&bar, 4)",
            "too often at bar, which expects 3 more arrivals",
        ),
        (
            "if (i == 0) { init(&bar, 1);\n*(int*)&bar = 1; }",
            "mbarrier",
            "*(int*)&bar = 1",
            "part of the mbarrier",
        ),
        (
            "if (i == 0) { init(&bar, 1);\nexpect_only(&bar, 1 << 20); }",
            "mbarrier",
            "expect_only(&bar, 1 << 20)",
            "1048576 bytes",
        ),
        (
            "if (i == 0) init(&bar, 2);\n__syncthreads();\nif (i == 0) arrive(&bar);\nwait(&bar, 0);",
            "deadlock",
            "wait(&bar, 0);",
            r"waits at bar, set up at line \d+, whose phase 0 lacks 1 more arrivals",
        ),
        (
            "if (i == 0) init(&bar, 1);\n__syncthreads();\nif (i == 0) expect(&bar, 64);\nwait(&bar, 0);",
            "deadlock",
            "wait(&bar, 0);",
            "lacks 64 more bytes",
        ),
        (
            "if (i == 0) init(&bar, 1);\n__syncthreads();\nwhile (!test(&bar, 0)) ;",
            "deadlock",
            "while (!test(&bar, 0))",
            "lacks 1 more arrivals",
        ),
        (
            "if (i == 0) init(&bar, 1);\nif (i == 32)\narrive(&bar);",
            "mbarrier",
            "arrive(&bar);",
            "no barrier since",
        ),
        ("if (i == 0)\ninit((u64*)((char*)&bar + 4), 1);", "misaligned", "init((u64*)", "no multiple of 8"),
    ],
)
def test_misuse_is_named(body, kind, line_with, match):
    source = source_of(body)
    number = len([line for line in source.split("\n") if line_with in line]) - 1
    with meets(kind, line_of(source, line_with, number), match):
        run(body)


def test_cp_async_may_arrive_at_a_barrier():
    source = DEVICE + (
        'extern "C" __global__ void kernel(const int4* x, int* y) {\n'
        "__shared__ u64 bar; __shared__ int4 s[32]; int i = threadIdx.x;\n"
        "if (i == 0) init(&bar, 32);\n__syncthreads();\n"
        "if (i < 32) {\n"
        'asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at(&s[i])), "l"(x + i)\n'
        ': "memory");\n'
        'asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" :: "r"(at(&bar)) : "memory"); }\n'
        "else {\nwait(&bar, 0);\ny[i - 32] = s[63 - i].x; }\n}\n"
    )
    x, y = np.arange(128, dtype=np.int32), np.zeros(32, np.int32)
    simulate(source, x, y, block=64, options=OPTIONS)
    assert y.tolist() == x[::4][::-1].tolist()
    with meets("undelivered"):
        simulate(source.replace("\nwait(&bar, 0);", "\n"), x, y, block=64, options=OPTIONS)
