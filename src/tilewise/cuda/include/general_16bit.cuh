// 16-bit numbers as mma and wgmma take them: Number is __half with HALF, else __nv_bfloat16. Two fill a register.
#if HALF
#define TYPE "f16"
#else
#define TYPE "bf16"
#endif
static __device__ inline unsigned pack(float low, float high) {
    Number both[2] = {(Number)low, (Number)high};
    return *(unsigned*)both;
}
