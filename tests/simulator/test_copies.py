"""cp.async: what it brings, when, and what goes wrong with it."""

import numpy as np
import pytest

from tests.simulator.kernels import meets, on_threads, simulate

COPY = (
    '#define copy16(to, from, ...) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" \\\n'
    '  :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(16 __VA_ARGS__) : "memory")\n'
    '#define COMMIT asm volatile("cp.async.commit_group;" ::: "memory")\n'
    '#define WAIT(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")\n'
    "#line 1\n"
)
PIPELINE = COPY + (
    'extern "C" __global__ void sums(const float4* x, float* y, int tiles) {\n'
    "  __shared__ float4 s[3][64];\n"
    "  int i = threadIdx.x; float total = 0;\n"
    "  for (int t = 0; t < 2; ++t) { if (t < tiles) copy16(&s[t][i], &x[t * 64 + i]); COMMIT; }\n"
    "  for (int t = 0; t < tiles; ++t) {\n"
    "    WAIT(1);\n"
    "    __syncthreads();\n"
    "    float4 v = s[t % 3][63 - i];\n"
    "    total += v.x + v.y + v.z + v.w;\n"
    "    if (t + 2 < tiles) copy16(&s[(t + 2) % 3][i], &x[(t + 2) * 64 + i]);\n"
    "    COMMIT;\n"
    "  }\n"
    "  y[i] = total;\n"
    "}\n"
)


def _pipeline(source: str = PIPELINE) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(0).integers(-50, 50, (7, 64, 4)).astype(np.float32)
    y = np.zeros(64, np.float32)
    simulate(source, x.reshape(-1), y, np.int32(7), block=64)
    return x, y


def test_a_pipeline_of_three_stages():
    x, y = _pipeline()
    assert np.array_equal(y, x.sum(axis=(0, 2))[::-1])


@pytest.mark.parametrize(
    ("find", "put", "kind", "line"),
    [
        ("WAIT(1);", "WAIT(2);", "undelivered", 8),
        ("WAIT(1);", "", "undelivered", 8),
        ("    COMMIT;", "", "undelivered", 8),
        ("__syncthreads();", "", ("uninitialised", "race"), 8),
        ("s[3][64]", "s[2][64]", None, None),
        ("[(t + 2) % 3]", "[t % 3]", "race", 8),
        ("&x[(t + 2) * 64 + i]", "&x[(t + 3) * 64 + i]", "out of bounds", 10),
        ("&x[(t + 2) * 64 + i]", "(const float*)&x[(t + 2) * 64 + i] - 1", "misaligned", 10),
    ],
)
def test_planted_bugs(find, put, kind, line):
    assert find in PIPELINE
    source = PIPELINE.replace(find, put)
    if kind is None:
        source = source.replace("% 3", "% 2")
        kind, line = "race", 8
    with meets(kind, line):
        _pipeline(source)


def test_others_need_a_barrier_after_the_wait():
    source = COPY + on_threads(
        "__shared__ float4 s[64]; copy16(&s[i], &x[i]); COMMIT; WAIT(0);\n{barrier}\ny[i] = s[63 - i].x;",
        "const float4* x, float* y",
    )
    x, y = np.arange(256, dtype=np.float32), np.zeros(64, np.float32)
    simulate(source.replace("{barrier}", "__syncthreads();"), x, y, block=64)
    assert np.array_equal(y, x[::4][::-1])
    with meets(("race", "uninitialised"), (3, 5)):
        simulate(source.replace("{barrier}", ""), x, y, block=64)


@pytest.mark.parametrize(("how", "size"), [("ca", 4), ("ca", 8), ("ca", 16), ("cg", 16)])
def test_sizes_and_filling_with_zeros(how, size):
    words = size // 4
    text = (
        f"__shared__ __align__(16) int s[{32 * words}];\n"
        f"unsigned p = __cvta_generic_to_shared(&s[i * {words}]);\n"
        f'asm volatile("cp.async.{how}.shared.global.L2::128B [%0], [%1], {size}, %2;"'
        f' :: "r"(p), "l"(&x[i * {words}]), "r"(i % 3 == 0 ? 0 : {size}) : "memory");\n'
        'asm volatile("cp.async.wait_all;" ::: "memory");\n'
        f"for (int k = 0; k < {words}; ++k) y[i * {words} + k] = s[i * {words} + k];"
    )
    x = np.arange(32 * words, dtype=np.int32) + 1
    y = np.zeros_like(x)
    run = simulate(on_threads(text, "const int* x, int* y"), x, y)
    expected = x.reshape(32, words).copy()
    expected[::3] = 0
    assert np.array_equal(y.reshape(32, words), expected)
    counts = run.lines[5]
    assert (counts.global_load.requests, counts.shared_store.requests) == (1, 1)
    assert counts.shared_store.wavefronts == max(1, words)
    assert counts.global_load.lane_accesses == 21
