// What a GEMM does to an element of its result: ACTIVATION 1 is ReLU, 2 GELU (by tanh), 3 SiLU, any other none.
static __device__ inline float activated(float x) {
#if ACTIVATION == 1
    return x < 0.0f ? 0.0f : x;
#elif ACTIVATION == 2
    return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));
#elif ACTIVATION == 3
    return x / (1.0f + expf(-x));
#else
    return x;
#endif
}
