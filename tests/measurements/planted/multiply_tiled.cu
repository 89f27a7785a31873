extern "C" __global__
void multiply_tiled(const float* A, const float* B, float* C,
                    int M, int N, int K) {
    __shared__ float a[T][T], b[T][T];
    int x = threadIdx.x, y = threadIdx.y;
    int i = blockIdx.y * T + y, j = blockIdx.x * T + x;
    float s = 0.0f;
    for (int k0 = 0; k0 < K; k0 += T) {
        // [fetch
        a[y][x] = i < M && k0 + x < K ? A[i * K + k0 + x] : 0.0f;
        b[y][x] = k0 + y < K && j < N ? B[(k0 + y) * N + j] : 0.0f;
        __syncthreads();  // both tiles are there
        // fetch]
        // [multiply
        for (int k = 0; k < T; ++k) s += a[y][k] * b[k][x];
        __syncthreads();  // nobody needs them any more
        // multiply]
    }
    if (i < M && j < N) C[i * N + j] = s;
}
