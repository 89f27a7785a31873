"""A probe of Hopper's tensor cores: warpgroups that issue ``wgmma`` on operands in shared memory.

In: nothing. Out: the text of a kernel without loads in its loop, and the number of operations of a launch.
"""

from __future__ import annotations

OPTIONS = ("-std=c++17", "-arch=sm_90a")
"""``wgmma`` exists only in sm_90a."""
WARPGROUPS = 2
"""Warpgroups of a block; one block fits on an SM."""
COLUMNS = 256
"""Columns of the tile that a warpgroup accumulates; it has 64 rows."""
WAVES = 4
"""Blocks per SM, one after the other."""
STEPS = 512
"""Iterations of the loop, each with four ``wgmma``."""
_ROWS, _DEPTH = 64, 64

_SOURCE = r"""
typedef unsigned long long u64;

// rows of 64 bf16 values, 0.5 to 1 of either sign, since zeros are faster; 16-byte chunks are swizzled
static __device__ void fill(unsigned* tile, int rows, unsigned seed) {
    for (int i = threadIdx.x; i < rows * 32; i += blockDim.x) {
        int row = i / 32, word = i % 32;
        unsigned x = (seed + i) * 2654435761u;
        x = (x ^ (x >> 16)) * 2246822519u;
        tile[row * 32 + ((word / 4) ^ (row & 7)) * 4 + word % 4] = 0x3f003f00u | (x & 0x807f807fu);
    }
}

// shared-memory descriptor: address, 1,024 bytes from eight rows to the next, swizzle of 128 bytes
static __device__ u64 descriptor(const void* tile) {
    u64 address = (unsigned)__cvta_generic_to_shared(tile);
    return (address & 0x3ffff) >> 4 | 1ull << 16 | 64ull << 32 | 1ull << 62;
}

// d += A B^T for a warpgroup: A is 64 x 16, B is COLUMNS x 16
static __device__ void wgmma(float (&d)[COLUMNS / 2], u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64nCOLUMNSk16.f32.bf16.bf16 {REGISTERS}, "
                 "%A_DESCRIPTOR, %B_DESCRIPTOR, 1, 1, 1, 0, 0;"
                 : ACCUMULATORS : "l"(a), "l"(b));
}

// One warpgroup or more to a block, on the same operands. out: one sum for each thread of the grid.
extern "C" __global__ void wgmma_chains(float* out, int steps) {
    __shared__ __align__(1024) unsigned a[64 * 32], b[COLUMNS * 32];
    fill(a, 64, 1);
    fill(b, COLUMNS, 4096);
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");  // the tensor cores read what was written
    __syncthreads();
    float d[COLUMNS / 2] = {};
    u64 first = descriptor(a), second = descriptor(b);
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
    #pragma unroll 1
    for (int i = 0; i < steps; ++i) {
        #pragma unroll
        for (int k = 0; k < 4; ++k) wgmma(d, first + 2 * k, second + 2 * k);
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" : ACCUMULATORS :: "memory");
    float sum = 0.f;
    #pragma unroll
    for (int j = 0; j < COLUMNS / 2; ++j) sum += d[j];
    out[(long long)blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
"""


def wgmma_source() -> str:
    """The kernel ``wgmma_chains`` as CUDA C."""
    count = COLUMNS // 2
    values = {
        "A_DESCRIPTOR": str(count),
        "B_DESCRIPTOR": str(count + 1),
        "REGISTERS": ",".join(f"%{i}" for i in range(count)),
        "ACCUMULATORS": ", ".join(f'"+f"(d[{i}])' for i in range(count)),
        "COLUMNS": str(COLUMNS),
    }
    text = _SOURCE
    for name, value in values.items():
        text = text.replace(name, value)
    return text


def wgmma_flop(blocks: int) -> float:
    """Operations of one launch."""
    return 2.0 * _ROWS * COLUMNS * _DEPTH * STEPS * WARPGROUPS * blocks
