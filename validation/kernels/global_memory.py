"""Specimens of global memory: strides, offsets, widths, gathers, and lanes that share sectors.

In: nothing. Out: ``SPECIMENS``. Control flow is uniform in every warp, so requests and sectors must be
equal to the hardware's.
"""

from __future__ import annotations

from tilewise.cuda.cases import case, ceil_div, integers, normal, output
from tilewise.kernel.kernel import Kernel
from validation.specimen import Specimen, specimen

STRIDED = Kernel(r"""
extern "C" __global__
void strided(const float* x, float* y, int n, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i * stride];
}
""")

STRIDED_STORE = Kernel(r"""
extern "C" __global__
void strided_store(const float* x, float* y, int n, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i * stride] = x[i];
}
""")

SHIFTED = Kernel(r"""
extern "C" __global__
void shifted(const float* x, float* y, int n, int from, int to) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i + to] = x[i + from];
}
""")

COPY_8 = Kernel(r"""
extern "C" __global__
void copy_8(const float2* x, float2* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
""")

COPY_16 = Kernel(r"""
extern "C" __global__
void copy_16(const float4* x, float4* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}
""")

SCATTER_16 = Kernel(r"""
extern "C" __global__
void scatter_16(const float4* x, float4* y, int n, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float4 v = x[i * stride];
    y[i] = make_float4(v.w, v.z, v.y, v.x);
}
""")

COPY_BYTES = Kernel(r"""
extern "C" __global__
void copy_bytes(const unsigned char* x, unsigned char* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] ^ 0x55;
}
""")

COPY_SHORTS = Kernel(r"""
extern "C" __global__
void copy_shorts(const short* x, short* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[n - 1 - i];
}
""")

COPY_DOUBLES = Kernel(r"""
extern "C" __global__
void copy_doubles(const double* x, double* y, int n, double alpha) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = alpha * x[i] + 1.0;
}
""")

BROADCAST = Kernel(r"""
extern "C" __global__
void broadcast(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[blockIdx.x];
}
""")

STENCIL = Kernel(r"""
extern "C" __global__
void stencil(const float* __restrict__ x, float* __restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < 1 || i >= n - 1) return;
    y[i] = 0.25f * x[i - 1] + 0.5f * x[i] + 0.25f * x[i + 1];
}
""")

GATHER = Kernel(r"""
extern "C" __global__
void gather(const float* x, const int* index, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[index[i]];
}
""")

TRANSPOSE = Kernel(r"""
extern "C" __global__
void transpose(const float* A, float* B, int rows, int columns) {
    int column = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row < rows && column < columns) B[column * rows + row] = A[row * columns + column];
}
""")

VOLUME = Kernel(r"""
extern "C" __global__
void volume(const float* a, float* b, int width, int height, int depth) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    int y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    if (x >= width || y >= height || z >= depth) return;
    int at = (z * height + y) * width + x;
    b[at] = 2.0f * a[at];
}
""")

MATMUL = Kernel(r"""
extern "C" __global__
void matmul(const float* A, const float* B, float* C, int M, int N, int K) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    float s = 0.0f;
    for (int k = 0; k < K; ++k) s += A[row * K + k] * B[k * N + col];
    C[row * N + col] = s;
}
""")

ROWS_PER_THREAD = Kernel(r"""
extern "C" __global__
void rows_per_thread(const float* A, float* sums, int rows, int columns) {
    int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    float s = 0.0f;
    for (int c = 0; c < columns; ++c) s += A[row * columns + c];
    sums[row] = s;
}
""")

_N = 1000
_BLOCK = 128
_SHAPE = {"grid": ceil_div(_N, _BLOCK), "block": _BLOCK}


def _strided(stride: int) -> Specimen:
    inputs = case(x=normal(_N * stride), y=output(_N), n=_N, stride=stride, **_SHAPE)
    return specimen(f"strided by {stride}", f"lanes {stride} floats apart", STRIDED, inputs)


def _shifted(source: int, target: int) -> Specimen:
    inputs = case(
        x=normal(_N + source), y=output(_N + target), n=_N, **{"from": source, "to": target}, **_SHAPE
    )
    idea = f"loads {source} floats and stores {target} floats off the start"
    return specimen(f"shifted by {source} and {target}", idea, SHIFTED, inputs)


def _wide(name: str, idea: str, kernel: Kernel, width: int) -> Specimen:
    return specimen(name, idea, kernel, case(x=normal(_N, width), y=output(_N, width), n=_N, **_SHAPE))


SPECIMENS: tuple[Specimen, ...] = (
    *(_strided(stride) for stride in (1, 2, 3, 4, 8, 16, 32)),
    specimen(
        "strided store by 6",
        "stores six floats apart",
        STRIDED_STORE,
        case(x=normal(_N), y=normal(_N * 6), n=_N, stride=6, **_SHAPE),
    ),
    _shifted(1, 0),
    _shifted(8, 3),
    _shifted(0, 31),
    _wide("8-byte copy", "float2", COPY_8, 2),
    _wide("16-byte copy", "float4", COPY_16, 4),
    specimen(
        "16-byte loads by 5",
        "float4, five apart",
        SCATTER_16,
        case(x=normal(_N * 5, 4), y=output(_N, 4), n=_N, stride=5, **_SHAPE),
    ),
    specimen(
        "byte copy",
        "one byte a lane",
        COPY_BYTES,
        case(x=integers(_N, low=0, high=256, dtype="uint8"), y=output(_N, dtype="uint8"), n=_N, **_SHAPE),
    ),
    specimen(
        "short copy, backwards",
        "two bytes a lane, falling addresses",
        COPY_SHORTS,
        case(
            x=integers(_N, low=-(2**15), high=2**15, dtype="int16"),
            y=output(_N, dtype="int16"),
            n=_N,
            **_SHAPE,
        ),
    ),
    specimen(
        "doubles",
        "eight bytes a lane, 64-bit arithmetic",
        COPY_DOUBLES,
        case(x=normal(_N, dtype="float64"), y=output(_N, dtype="float64"), n=_N, alpha=1.7, **_SHAPE),
    ),
    specimen(
        "broadcast", "one word for all lanes", BROADCAST, case(x=normal(8), y=output(_N), n=_N, **_SHAPE)
    ),
    specimen(
        "stencil",
        "const __restrict__, three loads side by side",
        STENCIL,
        case(x=normal(_N), y=normal(_N), n=_N, **_SHAPE),
    ),
    specimen(
        "gather",
        "addresses from memory, in no order",
        GATHER,
        case(x=normal(5000), index=integers(_N, low=0, high=5000), y=output(_N), n=_N, **_SHAPE),
    ),
    specimen(
        "transpose",
        "rows in, columns out",
        TRANSPOSE,
        case(A=normal(45, 70), B=output(70, 45), rows=45, columns=70, grid=(3, 6), block=(32, 8)),
    ),
    specimen(
        "volume",
        "3-D block of 105 threads, the last warp partial",
        VOLUME,
        case(
            a=normal(7, 10, 13),
            b=output(7, 10, 13),
            width=13,
            height=10,
            depth=7,
            grid=(2, 4, 2),
            block=(7, 3, 5),
        ),
    ),
    specimen(
        "matmul",
        "one element a thread, a uniform loop",
        MATMUL,
        case(
            A=normal(21, 37),
            B=normal(37, 50),
            C=output(21, 50),
            M=21,
            N=50,
            K=37,
            grid=(4, 2),
            block=(16, 16),
        ),
    ),
    specimen(
        "row sums",
        "one row a thread, lanes a row apart",
        ROWS_PER_THREAD,
        case(A=normal(100, 33), sums=output(100), rows=100, columns=33, grid=2, block=64),
    ),
)
"""All specimens, in the order of the tables."""
