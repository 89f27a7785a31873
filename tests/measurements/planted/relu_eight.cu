#include <cuda_fp16.h>

extern "C" __global__
void relu_eight(const __half* x, __half* y, int n) {
    int i = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
    __half zero = __float2half(0.0f);
    if (i + 7 < n) {
        uint4 words = *(const uint4*)(x + i);
        __half2* pairs = (__half2*)&words;
        #pragma unroll
        for (int j = 0; j < 4; ++j)
            pairs[j] = __hmax2(pairs[j], __half2half2(zero));
        *(uint4*)(y + i) = words;
    } else {
        for (; i < n; ++i) y[i] = __hmax(x[i], zero);
    }
}
