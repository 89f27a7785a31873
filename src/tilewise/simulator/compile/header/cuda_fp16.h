// Half precision: the names of CUDA's cuda_fp16.h that lessons use, written from the CUDA Math API's public
// documentation.
#pragma once
#include "tilewise_half.h"

TW_HALF_TYPE(__half, __half2, _Float16, tw_half2)
TW_ATOMIC16(__half, __half2, "f16")
typedef __half half;
typedef __half2 half2;

TW_FN __half __float2half(float x) { return __half(x); }
TW_FN __half __float2half_rn(float x) { return __half(x); }
TW_FN __half __double2half(double x) { return __half(x); }
TW_FN __half __int2half_rn(int x) { return __half(x); }
TW_FN int __half2int_rn(__half x) { return __float2int_rn((float)x.v); }
TW_FN int __half2int_rz(__half x) { return __float2int_rz((float)x.v); }
TW_FN float __half2float(__half x) { return (float)x.v; }
TW_FN unsigned short __half_as_ushort(__half x) { return __builtin_bit_cast(unsigned short, x.v); }
TW_FN short __half_as_short(__half x) { return __builtin_bit_cast(short, x.v); }
TW_FN __half __ushort_as_half(unsigned short x) { return tw_of(__builtin_bit_cast(_Float16, x)); }
TW_FN __half __short_as_half(short x) { return tw_of(__builtin_bit_cast(_Float16, x)); }
TW_FN __half __hfma(__half a, __half b, __half c) { return tw_of(__builtin_fmaf16(a.v, b.v, c.v)); }
TW_FN __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
    return __half2(__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)); }
TW_FN __half2 __halves2half2(__half a, __half b) { return __half2(a, b); }
TW_FN __half2 make_half2(__half a, __half b) { return __half2(a, b); }
TW_FN __half2 __half2half2(__half a) { return __half2(a, a); }
TW_FN __half2 __float2half2_rn(float x) { return __half2(__half(x), __half(x)); }
TW_FN __half2 __floats2half2_rn(float x, float y) { return __half2(__half(x), __half(y)); }
TW_FN __half2 __float22half2_rn(float2 a) { return __half2(__half(a.x), __half(a.y)); }
TW_FN float2 __half22float2(__half2 a) { return make_float2((float)a.x.v, (float)a.y.v); }
TW_FN __half __low2half(__half2 a) { return a.x; }
TW_FN __half __high2half(__half2 a) { return a.y; }
TW_HALF_MORE(__half, __half2, _Float16)
TW_HALF_CONVERT(__half, half)
TW_HALF_TO_WHOLE(__half, half, rn) TW_HALF_TO_WHOLE(__half, half, rz)
TW_HALF_TO_WHOLE(__half, half, rd) TW_HALF_TO_WHOLE(__half, half, ru)
TW_FN int __half2int_rd(__half x) { return __float2int_rd((float)x.v); }
TW_FN int __half2int_ru(__half x) { return __float2int_ru((float)x.v); }
TW_FN signed char __half2char_rz(__half x) { int r = __half2int_rz(x);
    return (signed char)(r < -128 ? -128 : r > 127 ? 127 : r); }
TW_FN unsigned char __half2uchar_rz(__half x) { unsigned r = __half2uint_rz(x);
    return (unsigned char)(r > 255 ? 255 : r); }
TW_FN __half2 __low2half2(__half2 a) { return __half2(a.x, a.x); }
TW_FN __half2 __high2half2(__half2 a) { return __half2(a.y, a.y); }
TW_FN __half2 __lows2half2(__half2 a, __half2 b) { return __half2(a.x, b.x); }
TW_FN __half2 __highs2half2(__half2 a, __half2 b) { return __half2(a.y, b.y); }
#define CUDART_INF_FP16 __ushort_as_half((unsigned short)0x7c00u)
#define CUDART_NAN_FP16 __ushort_as_half((unsigned short)0x7fffu)
#define CUDART_MAX_NORMAL_FP16 __ushort_as_half((unsigned short)0x7bffu)
#define CUDART_ONE_FP16 __ushort_as_half((unsigned short)0x3c00u)
#define CUDART_ZERO_FP16 __ushort_as_half((unsigned short)0u)
