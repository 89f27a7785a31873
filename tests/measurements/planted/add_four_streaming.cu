extern "C" __global__
void add_four_streaming(const float* a, const float* b, float* c, int n) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {
        float4 u = __ldcs((const float4*)(a + i));  // New: will not be used again
        float4 v = __ldcs((const float4*)(b + i));
        __stcs((float4*)(c + i),
               make_float4(u.x + v.x, u.y + v.y, u.z + v.z, u.w + v.w));
    } else {
        for (; i < n; ++i) c[i] = a[i] + b[i];
    }
}
