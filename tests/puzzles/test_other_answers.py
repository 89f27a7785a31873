"""Right answers that are not the solution: the judge takes whatever is right and within the budget."""

from __future__ import annotations

import pytest

from tilewise.puzzles.catalogue import named
from tilewise.puzzles.judging import judge

OTHERS = {
    "a guard that returns": (
        "kernels/guard",
        [("if (i < n) {", "if (i >= n) return;\n    {")],
    ),
    "pixels read from the other end": (
        "kernels/mirror",
        [
            ("out[row * width + (width - 1 - col)]", "out[row * width + col]"),
            ("in[row * width + col]", "in[row * width + (width - 1 - col)]"),
        ],
    ),
    "a column by subtraction": (
        "kernels/broadcast",
        [("int col = i % cols;", "int col = i - row * cols;")],
    ),
    "a loop with while": (
        "kernels/stride_loop",
        [
            ("for (int i = first; i < n; i += step) {", "int i = first;\n    while (i < n) {"),
            ("out[i] = a[i] * b[i];", "out[i] = a[i] * b[i];\n        i += step;"),
        ],
    ),
    "from an infinite peak": (
        "speed/one_pass",
        [
            ("float most = A[col];\n    int times = 1;", "float most = -INFINITY;\n    int times = 0;"),
            ("int row = 1;", "int row = 0;"),
        ],
    ),
    "the upper half does the even ones": (
        "speed/sides",
        [("bool odd = threadIdx.x >= half;", "bool odd = threadIdx.x < half;")],
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
    "backwards along the row": (
        "memory/row_sums",
        [
            (
                "for (int col = lane; col < cols; col += 32)",
                "for (int col = cols - 1 - lane; col >= 0; col -= 32)",
            )
        ],
    ),
    "the rest by the first threads": (
        "memory/vectors",
        [
            (
                "} else {\n        for (int i = 4 * q; i < n; ++i) out[i] = 3 * in[i];\n    }",
                "}\n    int i = n / 4 * 4 + q;\n    if (i < n) out[i] = 3 * in[i];",
            )
        ],
    ),
    "a rim by the first threads": (
        "memory/stencil",
        [
            (
                "for (int j = threadIdx.x; j < THREADS + 2 * REACH; j += THREADS) {\n"
                "        int from = first - REACH + j;\n"
                "        tile[j] = from >= 0 && from < n ? in[from] : 0.0f;\n    }",
                "int t = threadIdx.x;\n    tile[t + REACH] = i < n ? in[i] : 0.0f;\n    if (t < REACH) {\n"
                "        tile[t] = i >= REACH ? in[i - REACH] : 0.0f;\n"
                "        tile[t + REACH + THREADS] = i + THREADS < n ? in[i + THREADS] : 0.0f;\n    }",
            ),
        ],
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
    "bins that nobody met are left out": (
        "memory/histogram",
        [("atomicAdd(&counts[b], own[b]);", "if (own[b]) atomicAdd(&counts[b], own[b]);")],
    ),
}


@pytest.mark.parametrize("which", OTHERS)
def test_another_right_answer_is_taken(which: str) -> None:
    name, edits = OTHERS[which]
    found = named(name)
    text = found.solution
    for old, new in edits:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    assert judge(found, text, "other.cu").launches == len(found.trials)
