// bfloat16: the names of CUDA's cuda_bf16.h that lessons use, written from the CUDA Math API's public
// documentation.
#pragma once
#include "tilewise_half.h"

TW_HALF_TYPE(__nv_bfloat16, __nv_bfloat162, __bf16, tw_bf162)
TW_ATOMIC16(__nv_bfloat16, __nv_bfloat162, "bf16")
typedef __nv_bfloat16 nv_bfloat16;
typedef __nv_bfloat162 nv_bfloat162;

TW_FN __nv_bfloat16 __float2bfloat16(float x) { return __nv_bfloat16(x); }
TW_FN __nv_bfloat16 __float2bfloat16_rn(float x) { return __nv_bfloat16(x); }
TW_FN __nv_bfloat16 __double2bfloat16(double x) { return __nv_bfloat16(x); }
TW_FN __nv_bfloat16 __int2bfloat16_rn(int x) { return __nv_bfloat16(x); }
TW_FN float __bfloat162float(__nv_bfloat16 x) { return (float)x.v; }
TW_FN unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return __builtin_bit_cast(unsigned short, x.v); }
TW_FN __nv_bfloat16 __ushort_as_bfloat16(unsigned short x) { return tw_of(__builtin_bit_cast(__bf16, x)); }
TW_FN __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    unsigned short r;
    asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(r) : "h"(__bfloat16_as_ushort(a)), "h"(__bfloat16_as_ushort(b)),
        "h"(__bfloat16_as_ushort(c)));
    return __ushort_as_bfloat16(r);
}
TW_FN __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
    return __nv_bfloat162(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y));
}
TW_FN __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat162(a, b); }
TW_FN __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return __nv_bfloat162(a, b); }
TW_FN __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return __nv_bfloat162(a, a); }
TW_FN __nv_bfloat162 __float2bfloat162_rn(float x) { return __nv_bfloat162(__nv_bfloat16(x),
    __nv_bfloat16(x)); }
TW_FN __nv_bfloat162 __floats2bfloat162_rn(float x, float y) {
    return __nv_bfloat162(__nv_bfloat16(x), __nv_bfloat16(y)); }
TW_FN __nv_bfloat162 __float22bfloat162_rn(float2 a) { return __nv_bfloat162(__nv_bfloat16(a.x),
    __nv_bfloat16(a.y)); }
TW_FN float2 __bfloat1622float2(__nv_bfloat162 a) { return make_float2((float)a.x.v, (float)a.y.v); }
TW_FN __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
TW_FN __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
TW_HALF_MORE(__nv_bfloat16, __nv_bfloat162, __bf16)
TW_HALF_CONVERT(__nv_bfloat16, bfloat16)
TW_HALF_TO_WHOLE(__nv_bfloat16, bfloat16, rn) TW_HALF_TO_WHOLE(__nv_bfloat16, bfloat16, rz)
TW_HALF_TO_WHOLE(__nv_bfloat16, bfloat16, rd) TW_HALF_TO_WHOLE(__nv_bfloat16, bfloat16, ru)
TW_FN int __bfloat162int_rn(__nv_bfloat16 x) { return __float2int_rn((float)x.v); }
TW_FN int __bfloat162int_rz(__nv_bfloat16 x) { return __float2int_rz((float)x.v); }
TW_FN short __bfloat16_as_short(__nv_bfloat16 x) { return (short)__bfloat16_as_ushort(x); }
TW_FN __nv_bfloat16 __short_as_bfloat16(short x) { return __ushort_as_bfloat16((unsigned short)x); }
TW_FN __nv_bfloat162 __low2bfloat162(__nv_bfloat162 a) { return __nv_bfloat162(a.x, a.x); }
TW_FN __nv_bfloat162 __high2bfloat162(__nv_bfloat162 a) { return __nv_bfloat162(a.y, a.y); }
TW_FN __nv_bfloat162 __lows2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(a.x, b.x); }
TW_FN __nv_bfloat162 __highs2bfloat162(__nv_bfloat162 a, __nv_bfloat162 b) { return __nv_bfloat162(a.y, b.y); }
