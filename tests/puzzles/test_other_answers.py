"""Right answers that are not the solution: the judge takes whatever is right and within the budget."""

import pytest

from tilewise.puzzles.catalogue import named
from tilewise.puzzles.judging import judge

OTHERS = {
    "a guard that returns": (
        "kernels/guard",
        [("if (i < n) {", "if (i >= n) return;\n    {")],
    ),
    "warps in turn": (
        "speed/sides",
        [
            (
                "bool odd = threadIdx.x >= half;\n"
                "    int i = blockIdx.x * blockDim.x + 2 * (threadIdx.x % half) + odd;",
                "int w = threadIdx.x / 32;\n    bool odd = w % 2;\n"
                "    int i = blockIdx.x * blockDim.x + 64 * (w / 2) + 2 * (threadIdx.x % 32) + odd;",
            )
        ],
    ),
    "lanes past the end have left": (
        "memory/scan",
        [("int sum = i < n ? in[i] : 0;", "if (i >= n) return;\n    int sum = in[i];")],
    ),
    "uses counted instead of a phase": (
        "matmul/phase",
        [
            ("int phase = 0;", "int uses = 0;"),
            ("mbarrier_wait(&full, phase);\n            phase ^= 1;", "mbarrier_wait(&full, uses++ % 2);"),
        ],
    ),
    "a stage and a parity that run along": (
        "matmul/stages",
        [
            ("float acc = 0.0f;", "float acc = 0.0f;\n    int now = 0, parity = 0;"),
            (
                "mbarrier_wait(&full[t % STAGES], t / STAGES % 2);\n"
                "        const float4* tile = (const float4*)(smem + t % STAGES * TILE_BYTES);",
                "mbarrier_wait(&full[now], parity);\n"
                "        const float4* tile = (const float4*)(smem + now * TILE_BYTES);\n"
                "        if (++now == STAGES) now = 0, parity ^= 1;",
            ),
        ],
    ),
    "an arrival of every lane, and as many expected": (
        "matmul/deadlock",
        [
            ("min(3, (rows - row0 + 31) / 32)", "32 * min(3, (rows - row0 + 31) / 32)"),
            ("__syncwarp();\n        if (lane == 0) mbarrier_arrive", "mbarrier_arrive"),
        ],
    ),
    "any leading byte offset for a K-major operand": (
        "matmul/descriptors",
        [("descriptor(a + 32 * k, 16, 1024)", "descriptor(a + 32 * k, 0, 1024)")],
    ),
    "masks from a table": (
        "matmul/multicast",
        [("3 << 2 * y, same_x = 5 << x", "y ? 12 : 3, same_x = x ? 10 : 5")],
    ),
    "a tile without spare words, each row turned": (
        "memory/transpose",
        [
            ("tile[TILE][TILE + 1]", "tile[TILE][TILE]"),
            ("tile[r][threadIdx.x] =", "tile[r][threadIdx.x ^ r] ="),
            ("tile[threadIdx.x][c]", "tile[threadIdx.x][c ^ threadIdx.x]"),
        ],
    ),
    "the last steps by shuffles": (
        "memory/tree",
        [
            (
                "for (int d = THREADS / 2; d > 0; d /= 2) {\n        __syncthreads();\n"
                "        if (t < d) part[t] += part[t + d];\n    }",
                "for (int d = THREADS / 2; d >= 32; d /= 2) {\n        __syncthreads();\n"
                "        if (t < d) part[t] += part[t + d];\n    }\n    if (t < 32) {\n"
                "        float sum = part[t];\n        for (int d = 16; d > 0; d /= 2)\n"
                "            sum += __shfl_down_sync(0xffffffff, sum, d);\n"
                "        if (t == 0) part[0] = sum;\n    }",
            )
        ],
    ),
}


@pytest.mark.parametrize("which", OTHERS)
def test_another_right_answer_is_taken(which):
    name, edits = OTHERS[which]
    found = named(name)
    text = found.solution
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    assert judge(found, text, "other.cu").launches == len(found.trials)
