"""What a lesson offers to try: formulas of sizes, arrays as the page makes them, and what is refused."""

import json
from typing import Any

import numpy as np
import pytest

from tilewise import (
    Kernel,
    bf16,
    case,
    ceil_div,
    constant,
    integers,
    normal,
    output,
    tensor_map,
    try_it,
    uniform,
)
from tilewise.cuda.cases import Case
from tilewise.cuda.kernel_source import KernelError
from tilewise.kernel.launches import logging_launches
from tilewise.kernel.try_it import Size, filled, value_of
from tilewise.outputs import decode, encode
from tilewise.outputs.base import CollectingSink, Context, installed
from tilewise.outputs.try_it import MOST_LINES, TryOutput

SCALE = Kernel(r"""
extern "C" __global__
void scale(const float* x, float* y, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}
""")


def scaling(n: int, block: int) -> Case:
    return case(x=normal(n), y=output(n), factor=0.5, n=n, grid=ceil_div(n, block), block=block)


def offered(*given: Any, **sizes: Any) -> TryOutput:
    sink = CollectingSink()
    with installed(sink):
        try_it(*given, **sizes)
    [made] = sink.outputs
    assert isinstance(made, TryOutput)
    return made


def test_sizes_write_down_what_is_computed_from_them():
    n, block = Size(20, "n"), Size(8, "block")
    for made, worth in (
        (ceil_div(n, block), lambda n, block: -(-n // block)),
        (3 + n * block - 1, lambda n, block: 3 + n * block - 1),
        (1000 % n + 7 // block - (5 - n), lambda n, block: 1000 % n + 7 // block - (5 - n)),
    ):
        assert isinstance(made, Size)
        json.dumps(made.formula)
        for values in ((20, 8), (1, 3), (77, 64)):
            assert value_of(made.formula, dict(zip(("n", "block"), values, strict=True))) == worth(*values)


def test_an_offer_holds_the_launch_in_formulas_and_travels_as_json():
    made = offered(scaling, SCALE, n=(1, 20, 100), block=[8, 32, 4])
    offer = made.offer
    sizes = {"n": 33, "block": 32}
    assert [value_of(one, sizes) for one in offer["grid"]] == [2, 1, 1]
    assert [value_of(one, sizes) for one in offer["block"]] == [32, 1, 1]
    x, y, factor, n = offer["arguments"]
    assert (x["type"], x["written"], value_of(x["shape"][0], sizes)) == ("f4", False, 33)
    assert (y["written"], y["fill"]["kind"], factor["value"], n["value"]) == (True, "output", 0.5, "n")
    assert offer["sizes"][1] == {"name": "block", "start": 8, "values": [4, 8, 32]}
    again = decode(json.loads(json.dumps(encode(made))))
    assert isinstance(again, TryOutput)
    assert again.offer == offer and again.text() == made.text()
    assert "scale<<<3, 8>>>" in made.text()
    assert offer["totals"][0] == 3  # requests of global loads: one for each block of 8


@pytest.mark.parametrize(
    ("make", "sizes", "message"),
    [
        (lambda n: scaling(min(n, 50), 8), {"n": (1, 20, 100)}, "not what follows"),
        (lambda n: scaling(n, 8 if n < 50 else 16), {"n": (1, 20, 100)}, "not what follows"),
        (lambda n: scaling(n, 8), {"n": (30, 20, 100)}, "least, start, most"),
        (lambda n: scaling(n, 8), {"n": []}, "least, start, most"),
        (lambda n: case(x=normal(n), n=n, grid=1, block=32), {"n": (1, 2, 3)}, "the case has no y, factor"),
        (lambda n: case(x=normal(n), y=output(n), factor=1.0, n=n, block=32), {"n": (1, 2, 3)}, "no grid"),
    ],
)
def test_what_the_page_could_not_follow_is_refused(make, sizes, message):
    with pytest.raises(KernelError, match=message):
        offered(make, SCALE, **sizes)


def test_kernels_side_by_side_take_the_same():
    other = Kernel('extern "C" __global__ void other(float* y, int n) { y[0] = n; }')
    with pytest.raises(KernelError, match='"b" takes other parameters than "a"'):
        offered(scaling, {"a": SCALE, "b": other}, n=(1, 20, 100), block=(1, 8, 32))


def test_kernels_may_have_a_launch_of_their_own():
    other = Kernel('extern "C" __global__ void other(float* y, int n) { y[blockIdx.x] = n; }')

    def others(n: int, block: int) -> Case:
        return case(y=output(n), n=n * block, grid=n, block=1)

    made = offered({"a": scaling, "b": others}, {"a": SCALE, "b": other}, n=(1, 20, 100), block=(1, 8, 32))
    first, second = (one["launch"] for one in made.offer["kernels"])
    assert (first["grid"], second["grid"]) == (made.offer["grid"], ["n", 1, 1])
    assert second["arguments"][1]["value"] == ["*", "n", "block"]
    with pytest.raises(KernelError, match="Use the same labels"):
        offered({"a": scaling}, {"a": SCALE, "b": other}, n=(1, 20, 100), block=(1, 8, 32))


def test_a_tensor_map_travels_with_its_array():
    copy = Kernel(
        "struct __align__(128) TensorMap { unsigned long long opaque[16]; };"
        'extern "C" __global__ void copy(const __grid_constant__ TensorMap map, int* y, int n) { y[0] = n; }'
    )

    def mapped(n: int, rows: int = 4) -> Case:
        x = integers(rows, 32, low=1, high=9, dtype="int32")
        return case(1, 32, x=x, map=tensor_map("x", box=(2, 32)), y=output(1, dtype="int32"), n=n)

    [first, *_] = offered(mapped, copy, n=(1, 2, 3)).offer["arguments"]
    assert (first["shape"], len(first["raw"]), first["fill"]["kind"]) == ([4, 32], 128, "integers")
    with pytest.raises(KernelError, match="whose shape no size changes"):
        offered(lambda n: mapped(n, n), copy, n=(1, 2, 3))


def test_the_pages_numbers_are_spread_as_the_recipes_say():
    def made(recipe: Any, size: int) -> Any:
        kernel = Kernel('extern "C" __global__ void k(const float* x) {}')
        if recipe.dtype != np.float32:
            name = {"int32": "int", "uint16": "unsigned short"}[str(recipe.dtype)]
            kernel = Kernel(f'extern "C" __global__ void k(const {name}* x) {{}}')
        offer = offered(lambda n: case(x=recipe, grid=1, block=n), kernel, n=(1, 1, 2)).offer
        return filled(offer["arguments"][0], size)

    x = made(normal(5, scale=2.0), 100_000)
    assert abs(x.mean()) < 0.03 and abs(x.std() - 2) < 0.03
    u = made(uniform(5, low=-1.0, high=3.0), 100_000)
    assert u.min() >= -1 and u.max() < 3 and abs(u.mean() - 1) < 0.03
    i = made(integers(5, low=-2, high=3), 100_000)
    assert set(i.tolist()) == {-2, -1, 0, 1, 2}
    assert made(constant(5, value=7.0), 3).tolist() == [7, 7, 7]
    assert np.isnan(made(output(5), 3)).all()
    assert abs(bf16.values(made(normal(5, dtype="bfloat16"), 1000)).mean()) < 0.2


def test_the_run_at_the_start_is_not_logged_as_one_of_the_lessons_launches():
    with logging_launches() as log:
        kernel = Kernel(SCALE.source)
        offered(scaling, kernel, n=(1, 20, 100), block=(1, 8, 32))
    assert [one.launches for one in log.kernels()] == [()]


def test_launches_alone_are_offered_by_their_labels():
    small, large = (SCALE.on(scaling(n, 8)) for n in (8, 20))
    offer = offered({"small": small, "large": large}).offer
    assert [one["label"] for one in offer["kernels"]] == ["small", "large"]
    assert [one["launch"]["grid"] for one in offer["kernels"]] == [[1, 1, 1], [3, 1, 1]]
    assert offer["sizes"] == []
    with pytest.raises(KernelError, match="give a kernel, or launches"):
        offered(scaling, n=(1, 20, 100))


def test_a_page_has_the_lines_with_the_most_traffic_until_it_is_touched():
    stores = "\n".join(f"    y[32 * {k} + i] = {k}.0f;" for k in range(MOST_LINES + 4))
    many = Kernel(f"""
extern "C" __global__
void many(const float* x, float* y) {{
    int i = threadIdx.x;
{stores}
    y[i] = x[i];
}}
""")
    made = offered(lambda: case(1, 32, x=normal(32), y=output(32 * MOST_LINES + 128)), many)
    page = made.markdown(Context("a/b", 7, lambda suffix, content: suffix, lambda wanted: wanted))
    left = len(made.run.lines) - MOST_LINES
    assert page.count('class="tw-source"') == MOST_LINES
    assert f"{left} more lines are counted in the last row" in page
    assert "y[i] = x[i];" in page  # the only load, at the end


def test_a_bulk_copy_is_counted_and_not_drawn():
    copies = Kernel(
        r"""
#include "hopper.cuh"
extern "C" __global__
void tile(const __grid_constant__ TensorMap map, float* out) {
    __shared__ __align__(128) float box[32 * 32];
    __shared__ u64 full;
    if (threadIdx.x == 0) mbarrier_init(&full, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        mbarrier_arrive_expect_tx(&full, sizeof(box));
        tma_load_2d(box, &map, 0, 0, &full);
    }
    mbarrier_wait(&full, 0);
    out[threadIdx.x] = box[threadIdx.x];
}
""",
        options=("-arch=sm_90a",),
    )
    inputs = case(1, 32, x=normal(32, 32), map=tensor_map("x", box=(32, 32)), out=output(32))
    rows = {one["text"]: one for one in offered(lambda: inputs, copies).warp["rows"]}
    assert rows["loads from map: 1 lane"]["counted"] == "4,096 bytes"
    assert rows["loads from map: 1 lane"]["sectors"] == []
    assert not [text for text in rows if text.startswith("stores to box")]


@pytest.mark.parametrize(("size", "words"), [(4, "1 word"), (16, "4 words")])
def test_of_copies_that_arrive_together_the_first_is_drawn(size, words):
    copies = Kernel(
        r"""
extern "C" __global__
void staged(const float* x, float* out) {
    __shared__ __align__(16) float s[512];
    for (int i = SIZE / 4 * threadIdx.x; i < 512; i += SIZE / 4 * 32) {
        unsigned to = (unsigned)__cvta_generic_to_shared(&s[i]);
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" :: "r"(to), "l"(&x[i]), "n"(SIZE));
    }
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    out[threadIdx.x] = s[threadIdx.x];
}
""",
        defines={"SIZE": size},
    )
    inputs = case(1, 32, x=normal(512), out=output(32))
    rows = {one["text"]: one for one in offered(lambda: inputs, copies).warp["rows"]}
    assert rows["stores to s: 32 lanes"]["counted"] == f"up to {words} per bank"
    assert len(rows["loads from x: 32 lanes"]["sectors"]) == size
