# ---
# title: Tabs
# needs: []
# summary: "How do four tabs and three kernels look?"
# ---

# %%
from tilewise import Kernel

# %% tab="NumPy"
import numpy as np


def double(values):
    return 2 * values


print(double(np.arange(3)))

# %% tab="C" needs="jax"
SKIPPED = Kernel(
    r"""
extern "C" __global__ void skipped(float* out) { out[0] = 1.0f; }
""",
    defines={"T": 16},
)

# %% tab="Table"
from tilewise import Table

Table(["n"], [[1]])

# %% [markdown]
# Prose between two sets.

# %% tab="One"
ONE = 1

# %% tab="Two"
TWO = 2

# %% [markdown]
# A kernel alone, with regions and defines.

# %%
COPY = Kernel(
    r"""
extern "C" __global__ void copy(const float* in, float* out, int n) {
    // [index
    int i = blockIdx.x * T + threadIdx.x;
    // index]
    if (i < n) out[i] = in[i];
}
""",
    defines={"T": 256},
)

# %%
COPY.region("index")

# %% [markdown]
# A kernel among other code, and a long one.

# %%
before = 1

FILL = Kernel(r"""
extern "C" __global__ void fill(float* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = 1.0f;
}
""")
after = 2

# %%
LONG = Kernel(r"""
extern "C" __global__ void steps(float* out) {
    float x = 0.0f;
    x += 1.0f;
    x += 2.0f;
    x += 3.0f;
    x += 4.0f;
    x += 5.0f;
    x += 6.0f;
    x += 7.0f;
    x += 8.0f;
    x += 9.0f;
    x += 10.0f;
    x += 11.0f;
    x += 12.0f;
    x += 13.0f;
    x += 14.0f;
    x += 15.0f;
    x += 16.0f;
    x += 17.0f;
    x += 18.0f;
    x += 19.0f;
    x += 20.0f;
    x += 21.0f;
    x += 22.0f;
    x += 23.0f;
    x += 24.0f;
    x += 25.0f;
    x += 26.0f;
    x += 27.0f;
    x += 28.0f;
    x += 29.0f;
    x += 30.0f;
    x += 31.0f;
    x += 32.0f;
    x += 33.0f;
    x += 34.0f;
    x += 35.0f;
    x += 36.0f;
    x += 37.0f;
    out[threadIdx.x] = x;
}
""")
