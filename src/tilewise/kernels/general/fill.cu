// x[i] = value for all i < n. Bits are stored: Number is a type of their size. Any alignment.
// Block: 256 threads. Any grid of one axis.
extern "C" __global__ void __launch_bounds__(256)
fill(Number* x, long long n, Number value) {
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) x[i] = value;
}
