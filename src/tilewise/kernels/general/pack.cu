#include <cuda_bf16.h>
#include <cuda_fp16.h>

// to = from, element by element, as another type and with other strides. Five axes, slowest first; strides in
// elements, 0 allowed in `from`. Any alignment. n elements in all; launch any grid of one axis.
extern "C" __global__ void __launch_bounds__(256)
pack(const From* from, To* to, long long n, long long e1, long long e2, long long e3, long long e4,
     long long f0, long long f1, long long f2, long long f3, long long f4,
     long long t0, long long t1, long long t2, long long t3, long long t4) {
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) {
        long long rest = i, source = 0, target = 0;
        long long at = rest % e4;
        source += at * f4, target += at * t4, rest /= e4;
        at = rest % e3;
        source += at * f3, target += at * t3, rest /= e3;
        at = rest % e2;
        source += at * f2, target += at * t2, rest /= e2;
        at = rest % e1;
        source += at * f1 + rest / e1 * f0, target += at * t1 + rest / e1 * t0;
#if SAME
        to[target] = from[source];  // bit for bit
#else
        to[target] = (To)(float)from[source];
#endif
    }
}
