"""Specimens of tensor cores: mma.sync of four types, ldmatrix and stmatrix over rows of several strides.

In: nothing. Out: ``SPECIMENS``. Products of small whole numbers are exact in every order and must have the
same bits; sums of random ones have a bound, since the matrix units add in an order of their own.
"""

from __future__ import annotations

from tilewise.cuda.cases import Array, case, integers, normal, output
from tilewise.kernel.kernel import Kernel
from validation.specimen import Specimen, specimen

# One warp: D = A B + C with A 16 x 16, B 16 x 8, C and D 16 x 8. A and B are brought by ldmatrix.
_SIXTEEN_BITS = r"""
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

extern "C" __global__
void NAME(const unsigned short* A, const unsigned short* B, const float* C, float* D) {
    __shared__ __align__(16) unsigned short a[16][24], b[16][8];
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) a[i / 16][i % 16] = A[blockIdx.x * 256 + i];
    for (int i = lane; i < 128; i += 32) b[i / 8][i % 8] = B[blockIdx.x * 128 + i];
    __syncthreads();
    unsigned fa[4], fb[2];
    float d[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(fa[0]), "=r"(fa[1]), "=r"(fa[2]), "=r"(fa[3])
                 : "r"(at(&a[lane % 16][lane / 16 * 8])));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(fb[0]), "=r"(fb[1])
                 : "r"(at(&b[lane % 16][0])));
    int row = lane / 4, column = lane % 4 * 2;
    for (int i = 0; i < 4; ++i) d[i] = C[blockIdx.x * 128 + (row + i / 2 * 8) * 8 + column + i % 2];
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.TYPE.TYPE.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    for (int i = 0; i < 4; ++i) D[blockIdx.x * 128 + (row + i / 2 * 8) * 8 + column + i % 2] = d[i];
}
"""

MMA_F16 = Kernel(_SIXTEEN_BITS.replace("NAME", "mma_f16").replace("TYPE", "f16"))
MMA_BF16 = Kernel(_SIXTEEN_BITS.replace("NAME", "mma_bf16").replace("TYPE", "bf16"))

MMA_TF32 = Kernel(r"""
extern "C" __global__
void mma_tf32(const float* A, const float* B, float* D, int turns) {
    int lane = threadIdx.x, row = lane / 4, number = lane % 4;
    float d[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    for (int turn = 0; turn < turns; ++turn) {
        unsigned a[4], b[2];
        for (int i = 0; i < 4; ++i)
            asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(a[i])
                : "f"(A[(row + i % 2 * 8) * 8 * turns + 8 * turn + number + i / 2 * 4]));
        for (int i = 0; i < 2; ++i)
            asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(b[i]) : "f"(B[(8 * turn + number + i * 4) * 8 + row]));
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
                     "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
    for (int i = 0; i < 4; ++i) D[(row + i / 2 * 8) * 8 + number * 2 + i % 2] = d[i];
}
""")

MMA_S8 = Kernel(r"""
extern "C" __global__
void mma_s8(const unsigned int* A, const unsigned int* B, int* D) {
    int lane = threadIdx.x, row = lane / 4, number = lane % 4, d[4] = {0, 0, 0, 0};
    unsigned a[4], b[2];
    for (int i = 0; i < 4; ++i) a[i] = A[(row + i % 2 * 8) * 8 + number + i / 2 * 4];
    for (int i = 0; i < 2; ++i) b[i] = B[row * 8 + number + i * 4];
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    for (int i = 0; i < 4; ++i) D[(row + i / 2 * 8) * 8 + number * 2 + i % 2] = d[i];
}
""")

LOAD_MATRICES = Kernel(r"""
extern "C" __global__
void load_matrices(const unsigned short* x, unsigned int* y) {
    __shared__ __align__(16) unsigned short tile[32 * STRIDE];
    int lane = threadIdx.x;
    for (int i = lane; i < 256; i += 32) tile[i / 8 * STRIDE + i % 8] = x[i];
    __syncthreads();
    unsigned r[4];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                 : "r"((unsigned)__cvta_generic_to_shared(&tile[lane * STRIDE])));
    for (int i = 0; i < 4; ++i) y[i * 32 + lane] = r[i];
}
""", defines={"STRIDE": 8})  # fmt: skip

STORE_MATRICES = Kernel(r"""
extern "C" __global__
void store_matrices(const unsigned int* x, unsigned short* y) {
    __shared__ __align__(16) unsigned short tile[32 * STRIDE];
    int lane = threadIdx.x;
#if __CUDA_ARCH__ >= 900
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"((unsigned)__cvta_generic_to_shared(&tile[lane * STRIDE])),
                    "r"(x[lane]), "r"(x[32 + lane]), "r"(x[64 + lane]), "r"(x[96 + lane]) : "memory");
#endif
    __syncthreads();
    for (int i = lane; i < 256; i += 32) y[i] = tile[i / 8 * STRIDE + i % 8];
}
""", defines={"STRIDE": 8})  # fmt: skip


def _halves(*shape: int, whole: bool) -> Array:
    """Bits of halves: random numbers, or integers from -8 to 8."""
    if whole:
        return integers(*shape, low=-8, high=9).make(5).astype("float16").view("uint16")
    return normal(*shape, dtype="float16").make(6).view("uint16")


def _brains(*shape: int) -> Array:
    """Bits of bfloat16 numbers."""
    return (normal(*shape).make(7).view("uint32") >> 16).astype("uint16")


def _strided(kernel: Kernel, stride: int) -> Kernel:
    return Kernel(kernel.source, defines={"STRIDE": stride})


SPECIMENS: tuple[Specimen, ...] = (
    specimen(
        "mma f16, whole numbers",
        "ldmatrix and mma.sync of halves, exact",
        MMA_F16,
        case(
            A=_halves(3, 16, 16, whole=True),
            B=_halves(3, 16, 8, whole=True),
            C=integers(3, 16, 8, low=-99, high=99).make(8).astype("float32"),
            D=output(3, 16, 8),
            grid=3,
            block=32,
        ),
    ),
    specimen(
        "mma f16",
        "ldmatrix and mma.sync of halves",
        MMA_F16,
        case(
            A=_halves(3, 16, 16, whole=False),
            B=_halves(3, 16, 8, whole=False),
            C=normal(3, 16, 8),
            D=output(3, 16, 8),
            grid=3,
            block=32,
        ),
        rtol=1e-5,
        atol=1e-5,
    ),
    specimen(
        "mma bf16",
        "ldmatrix and mma.sync of bfloat16 numbers",
        MMA_BF16,
        case(
            A=_brains(3, 16, 16),
            B=_brains(3, 16, 8),
            C=normal(3, 16, 8),
            D=output(3, 16, 8),
            grid=3,
            block=32,
        ),
        rtol=1e-5,
        atol=1e-5,
    ),
    specimen(
        "mma tf32",
        "mma.sync of floats cut to 10 bits, in a loop",
        MMA_TF32,
        case(A=normal(16, 40), B=normal(40, 8), D=output(16, 8), turns=5, grid=1, block=32),
        rtol=1e-5,
        atol=2e-5,
    ),
    specimen(
        "mma s8",
        "mma.sync of bytes",
        MMA_S8,
        case(
            A=integers(16, 8, low=0, high=2**32, dtype="uint32"),
            B=integers(8, 8, low=0, high=2**32, dtype="uint32"),
            D=output(16, 8, dtype="int32"),
            grid=1,
            block=32,
        ),
    ),
    *(
        specimen(
            f"ldmatrix, rows {2 * stride} bytes apart",
            "four matrices at once",
            _strided(LOAD_MATRICES, stride),
            case(
                x=integers(256, low=0, high=2**16, dtype="uint16"),
                y=output(128, dtype="uint32"),
                grid=1,
                block=32,
            ),
        )
        for stride in (8, 16, 24, 64, 72)
    ),
    *(
        specimen(
            f"stmatrix, rows {2 * stride} bytes apart",
            "four matrices at once",
            _strided(STORE_MATRICES, stride),
            case(
                x=integers(128, low=0, high=2**32, dtype="uint32"),
                y=output(256, dtype="uint16"),
                grid=1,
                block=32,
            ),
        )
        for stride in (8, 16, 24, 64)
    ),
)
"""All specimens, in the order of the tables."""
