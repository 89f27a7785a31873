# ---
# title: What a run counted
# ---

# %%
from tilewise import Kernel, case, normal, output, show

TRANSPOSE = Kernel(r"""
extern "C" __global__ void transpose(const float* A, float* B, int rows, int cols) {
    __shared__ float tile[32][32];
    int row = blockIdx.y * 32 + threadIdx.y, col = blockIdx.x * 32 + threadIdx.x;
    if (row < rows && col < cols) tile[threadIdx.y][threadIdx.x] = A[row * cols + col];
    __syncthreads();
    int out_row = blockIdx.x * 32 + threadIdx.y, out_col = blockIdx.y * 32 + threadIdx.x;
    if (out_row < cols && out_col < rows) B[out_row * rows + out_col] = tile[threadIdx.x][threadIdx.y];
}
""")
launch = TRANSPOSE.on(case(A=normal(40, 33), B=output(33, 40), rows=40, cols=33, grid=(2, 2), block=(32, 32)))

# %% [markdown]
# What a run counted stands by line of the kernel, in a cell of its own

# %%
run = launch.simulate()
show(run)

# %% [markdown]
# and inside a fold:

# %% fold="By line"
show(launch.simulate())
