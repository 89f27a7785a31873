#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "general_activation.cuh"
#define TILE 64  // rows and columns of C per block
#define DEEP 16  // steps of k in shared memory at once


// C[m] = activation(A[m] B[m] + bias), for m < matrices, in FP32 inside. A: M x K, B: K x N with any strides in
// elements, a_step and b_step between matrices; C: M x N, row-major, contiguous; bias: N elements, or null.
// Any sizes and alignment. Block: 256 threads. Grid: ceil(M / 64) * ceil(N / 64) tiles, up to 65,535 matrices.
extern "C" __global__ void __launch_bounds__(256)
matmul(const Number* A, const Number* B, const Number* bias, Number* C, int M, int N, int K,
       long long a_row, long long a_col, long long a_step,
       long long b_row, long long b_col, long long b_step, int matrices) {
    __shared__ float smem_a[DEEP][TILE + 1], smem_b[DEEP][TILE + 1];
    int across = (N + TILE - 1) / TILE, x = threadIdx.x % 16, y = threadIdx.x / 16;
    int row0 = blockIdx.x / across * TILE, col0 = blockIdx.x % across * TILE;
    for (int m = blockIdx.y; m < matrices; m += gridDim.y) {
        const Number *a = A + m * a_step, *b = B + m * b_step;
        float acc[4][4] = {};
        for (int k0 = 0; k0 < K; k0 += DEEP) {
            for (int e = threadIdx.x; e < TILE * DEEP; e += 256) {
                int k = A_BY_ROWS ? e % DEEP : e / TILE, i = A_BY_ROWS ? e / DEEP : e % TILE;
                bool there = row0 + i < M && k0 + k < K;
                smem_a[k][i] = there ? (float)a[(row0 + i) * a_row + (k0 + k) * a_col] : 0.0f;
            }
            for (int e = threadIdx.x; e < TILE * DEEP; e += 256) {
                int k = B_BY_ROWS ? e / TILE : e % DEEP, j = B_BY_ROWS ? e % TILE : e / DEEP;
                bool there = col0 + j < N && k0 + k < K;
                smem_b[k][j] = there ? (float)b[(k0 + k) * b_row + (col0 + j) * b_col] : 0.0f;
            }
            __syncthreads();  // both tiles are loaded
            #pragma unroll
            for (int k = 0; k < DEEP; ++k) {
                float frag_a[4], frag_b[4];
                #pragma unroll
                for (int i = 0; i < 4; ++i) {
                    frag_a[i] = smem_a[k][y + 16 * i];
                    frag_b[i] = smem_b[k][x + 16 * i];
                }
                #pragma unroll
                for (int i = 0; i < 4; ++i)
                    #pragma unroll
                    for (int j = 0; j < 4; ++j) acc[i][j] += frag_a[i] * frag_b[j];
            }
            __syncthreads();  // both tiles have been read
        }
        #pragma unroll
        for (int i = 0; i < 4; ++i)
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                int row = row0 + y + 16 * i, col = col0 + x + 16 * j;
                if (row >= M || col >= N) continue;
                float add = bias ? (float)bias[col] : 0.0f;
                C[((long long)m * M + row) * N + col] = (Number)activated(acc[i][j] + add);
            }
    }
}

// C = activation(C + bias), in place, for kernels that only multiply. C: n elements in rows of N.
// Block: 256 threads. Any grid of one axis.
extern "C" __global__ void __launch_bounds__(256)
epilogue(Number* C, const Number* bias, long long n, int N) {
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL)
        C[i] = (Number)activated((float)C[i] + (bias ? (float)bias[i % N] : 0.0f));
}
