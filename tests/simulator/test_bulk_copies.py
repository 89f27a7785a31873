"""Bulk and tensor copies: what arrives where, what is counted, and what goes wrong."""

from typing import Any

import numpy as np
import pytest

from tests.simulator.hopper import DEVICE, OPTIONS, line_of
from tests.simulator.kernels import meets
from tilewise.cuda.tensor_map import tensor_map
from tilewise.kernel.kernel import Kernel
from tilewise.simulator import HazardError

MAP = "const __grid_constant__ TensorMap"
SET_UP = "if (i == 0) { init(&bar, 1); fence_init(); }\n__syncthreads();\n"


def kernel(parameters: str, body: str, shared: str = "") -> Kernel:
    return Kernel(
        f'{DEVICE}extern "C" __global__ void kernel({parameters}) {{\n'
        f"__shared__ __align__(8) u64 bar; {shared}\nint i = threadIdx.x;\n{body}\n}}\n",
        options=OPTIONS,
    )


def fails(made: Kernel, *arguments: Any, kind: str, line_with: str, match: str = ".", **launch: Any) -> None:
    with meets(kind, line_of(made.source, line_with), match):
        made.simulate(*arguments, **{"grid": 1, "block": 32} | launch)


THERE_AND_BACK = SET_UP + (
    "if (i == 0) { expect(&bar, 256);\nload(s, x + 4, 256, &bar); }\nwait(&bar, 0);\n"
    "t[i] = 2 * s[i]; t[i + 32] = 2 * s[i + 32];\nfence_async();\n__syncthreads();\n"
    "if (i == 0) {\nstore(y + 8, t, 256);\nbulk_commit();\nbulk_wait<0>(); }"
)
SHARED = "__shared__ __align__(16) int s[64], t[64];"


def there_and_back(body: str = THERE_AND_BACK, shared: str = SHARED) -> Kernel:
    return kernel("const int* x, int* y", body, shared)


def test_bulk_copies_there_and_back():
    x, y = np.arange(80, dtype=np.int32), np.full(80, -1, np.int32)
    counts = there_and_back().simulate(x, y, grid=1, block=32).counts
    assert y.tolist() == [-1] * 8 + (2 * x[4:68]).tolist() + [-1] * 8
    assert (counts.bulk_load.requests, counts.bulk_load.useful_bytes, counts.bulk_load.sectors) == (1, 256, 9)
    assert (counts.bulk_store.requests, counts.bulk_store.useful_bytes, counts.bulk_store.sectors) == (
        1,
        256,
        8,
    )


@pytest.mark.parametrize(
    ("find", "put", "kind", "line_with"),
    [
        ("wait(&bar, 0);\n", "", "undelivered", "t[i] = 2 * s[i]"),
        ("wait(&bar, 0);\n", "if (i == 0) wait(&bar, 0);\n", None, ""),
        ("fence_async();\n", "", "proxy", "store(y + 8"),
        ("fence_init();", "", "proxy", "load(s, x + 4"),
        ("expect(&bar, 256)", "expect(&bar, 240)", "deadlock", "wait(&bar, 0)"),
        ("expect(&bar, 256)", "expect(&bar, 272)", "deadlock", "wait(&bar, 0)"),
        ("load(s, x + 4", "load(s, x + 5", "misaligned", "load(s, x + 5"),
        ("load(s, x + 4", "load(s + 1, x + 4", "misaligned", "load(s + 1"),
        ("load(s, x + 4, 256", "load(s, x + 4, 252", "misaligned", "load(s, x + 4"),
        ("load(s, x + 4", "load(s + 4, x + 4", "out of bounds", "load(s + 4"),
        ("load(s, x + 4", "load(s, x + 20", "out of bounds", "load(s, x + 20"),
        ("store(y + 8", "store(y + 20", "out of bounds", "store(y + 20"),
        ("bulk_wait<0>(); }", "}", "overwritten", "store(y + 8"),
        ("bulk_commit();\n", "", "overwritten", "store(y + 8"),
        ("bulk_wait<0>(); }", "t[0] = 1;\nbulk_wait<0>(); }", "overwritten", "t[0] = 1;"),
        ("bulk_wait<0>(); }", "bulk_wait<0>(); }\nt[i] = 1;", None, ""),
        ("bulk_wait<0>(); }", "bulk_wait<0>(); }\nif (i > 31)\nt[0] = 1;", None, ""),
        ("__syncthreads();\nif (i == 0) {\nstore", "if (i == 0) {\nstore", None, ""),
    ],
)
def test_planted_bugs_in_bulk_copies(find, put, kind, line_with):
    assert THERE_AND_BACK.count(find) == 1
    made = there_and_back(THERE_AND_BACK.replace(find, put))
    x, y = np.arange(80, dtype=np.int32), np.full(80, -1, np.int32)
    if kind is None:  # within one warp, lanes run in step: these are not found
        made.simulate(x, y, grid=1, block=32)
    else:
        fails(made, x, y, kind=kind, line_with=line_with)


def test_another_warp_must_wait_too():
    x, y = np.arange(80, dtype=np.int32), np.full(80, -1, np.int32)
    body = SET_UP + "if (i == 0) { expect(&bar, 256); load(s, x, 256, &bar); }\nwait(&bar, 0);\ny[i] = s[i];"
    there_and_back(body).simulate(x, y, grid=1, block=64)
    assert np.array_equal(y[:64], x[:64])
    late = body.replace("wait(&bar, 0);", "if (i < 32) wait(&bar, 0);")
    fails(there_and_back(late), x, y, kind="undelivered", line_with="y[i] = s[i]", block=64)
    told = late.replace("y[i] = s[i]", "__syncthreads();\ny[i] = s[i]")
    there_and_back(told).simulate(x, y, grid=1, block=64)


def test_a_block_may_not_end_before_its_copies():
    x, y = np.arange(80, dtype=np.int32), np.full(80, -1, np.int32)
    body = SET_UP + "if (i == 0) { expect(&bar, 256);\nload(s, x, 256, &bar); }"
    fails(
        there_and_back(body),
        x,
        y,
        kind="undelivered",
        line_with="load(s, x, 256",
        match="ends without waiting",
    )


def test_a_bulk_reduction_adds():
    add = (
        "if (i == 0) { float f = 0; s[0] = 0; }\nt[i] = i; t[i + 32] = 1;\nfence_async();\n__syncthreads();\n"
        'if (i == 0) { asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.s32 "\n'
        '"[%0], [%1], %2;"\n'
        ':: "l"(y), "r"(at(t)), "r"(256) : "memory"); bulk_commit(); bulk_wait<0>(); }'
    )
    x, y = np.zeros(1, np.int32), np.arange(64, dtype=np.int32)
    there_and_back(add).simulate(x, y, grid=1, block=32)
    assert y.tolist() == [2 * one for one in range(32)] + [one + 1 for one in range(32, 64)]


BOX = SET_UP + (
    "if (i == 0) { expect(&bar, BYTES);\nload_2d(s, &A, x, y, &bar); }\nwait(&bar, 0);\n"
    "for (int k = i; k < BYTES / 4; k += 32) out[k] = ((unsigned*)s)[k];"
)


def box_of(
    array: Any,
    box: tuple[int, int],
    x: int,
    y: int,
    swizzle: int = 0,
    **more: Any,
) -> tuple[Any, Any]:
    """The bytes of a box in shared memory, and the run."""
    made = tensor_map(array, box=box, swizzle=swizzle, **more)
    size = int(np.prod(made.box)) * array.itemsize
    body = BOX.replace("BYTES", str(size))
    one = kernel(f"{MAP} A, int x, int y, unsigned* out", body, f"__shared__ __align__(1024) char s[{size}];")
    out = np.zeros(size // 4, np.uint32)
    run = one.simulate(made, x, y, out, grid=1, block=32)
    return out.view(np.uint8), run


@pytest.mark.parametrize(("x", "y"), [(0, 0), (16, 3), (32, 9), (-16, -2), (112, 0)])
@pytest.mark.parametrize("dtype", ["float32", "float16", "uint8"])
def test_boxes_are_dense_and_zero_outside(x, y, dtype):
    a = np.random.default_rng(1).integers(1, 100, (12, 48)).astype(dtype)
    got, run = box_of(a, (4, 32), x, y)
    whole = np.zeros((200, 300), dtype)
    whole[100:112, 100:148] = a
    expected = whole[100 + y : 104 + y, 100 + x : 132 + x]
    assert np.array_equal(got.view(dtype).reshape(4, 32), expected)
    inside = max(0, min(48, x + 32) - max(x, 0)) * max(0, min(12, y + 4) - max(y, 0))
    assert run.counts.bulk_load.useful_bytes == inside * a.itemsize
    assert run.counts.bulk_load.shared_bytes == 128 * a.itemsize


@pytest.mark.parametrize("swizzle", [0, 32, 64, 128])
def test_swizzles_move_pieces_of_16_bytes(swizzle):
    row = swizzle or 128
    a = np.arange(16 * row, dtype=np.uint8).reshape(16, row) % 251
    got, _ = box_of(a, (16, row), 0, 0, swizzle)
    expected = np.zeros_like(got)
    for at in range(0, a.size, 16):
        address = at
        if swizzle:
            address ^= ((at >> 7) & (swizzle // 16 - 1)) << 4
        expected[address : address + 16] = a.reshape(-1)[at : at + 16]
    assert np.array_equal(got, expected)


STORE = (
    "for (int k = i; k < 8 * 16; k += 32) s[k] = k;\nfence_async();\n__syncthreads();\n"
    "if (i == 0) {\nstore_2d(&A, s, x, y); bulk_commit(); bulk_wait<0>(); }"
)


@pytest.mark.parametrize(("x", "y"), [(-8, 0), (0, -3)])
def test_no_box_is_stored_before_its_array_where_an_h100_stops(x, y):
    a = np.full((12, 32), -1, np.float32)
    made = kernel(f"{MAP} A, int x, int y", STORE, "__shared__ __align__(128) float s[128];")
    with pytest.raises(HazardError, match=f"stores a box at the coordinate {min(x, y)}:"):
        made.simulate(tensor_map(a, box=(8, 16)), x, y, grid=1, block=32)
    assert (a == -1).all()


@pytest.mark.parametrize(("x", "y"), [(0, 0), (8, 4), (24, 10), (64, 0)])
def test_boxes_are_clipped_when_stored(x, y):
    a = np.full((12, 32), -1, np.float32)
    made = kernel(f"{MAP} A, int x, int y", STORE, "__shared__ __align__(128) float s[128];")
    counts = made.simulate(tensor_map(a, box=(8, 16)), x, y, grid=1, block=32).counts
    whole = np.full((200, 300), -1, np.float32)
    whole[100 + y : 108 + y, 100 + x : 116 + x] = np.arange(128).reshape(8, 16)
    assert np.array_equal(a, whole[100:112, 100:132])
    assert counts.bulk_store.useful_bytes == 4 * int((a != -1).sum())


def test_bad_maps_are_named():
    body = SET_UP + "if (i == 0) { expect(&bar, 512);\nload_2d(s, &A, 0, 0, &bar); }\nwait(&bar, 0);"
    shared = "__shared__ __align__(128) float s[128];"
    a = np.zeros((8, 16), np.float32)
    good = tensor_map(a, box=(8, 16))
    kernel(f"{MAP} A", body, shared).simulate(good, grid=1, block=32)
    fails(
        kernel(
            "TensorMap A",
            body.replace("&A", "&mine").replace(
                "if (i", "TensorMap mine = A; mine.opaque[15] = i;\nif (i", 1
            ),
            shared,
        ),
        good,
        kind="tensor map",
        line_with="load_2d(s, &mine",
        match="__grid_constant__",
    )
    fails(
        kernel(f"{MAP} A", body, shared),
        np.zeros(1, [("opaque", "u8", 16)]),
        kind="tensor map",
        line_with="load_2d(s",
    )
    flat = tensor_map(a.reshape(-1), box=(128,))
    fails(
        kernel(f"{MAP} A", body, shared),
        flat,
        kind="tensor map",
        line_with="load_2d(s",
        match="2 coordinates .* 1 axes",
    )
    fails(
        kernel(f"{MAP} A", body.replace("load_2d(s,", "load_2d(s + 4,"), shared),
        good,
        kind="misaligned",
        line_with="load_2d(s + 4",
    )
