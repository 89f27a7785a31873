// 8-bit floats: the names of CUDA's cuda_fp8.h, written from the CUDA Math API's public documentation. e4m3 has
// no infinity, and its greatest number is 448; e5m2 is the upper half of a half.
#pragma once
#include "cuda_fp16.h"
#include "cuda_bf16.h"

typedef unsigned char __nv_fp8_storage_t;
typedef unsigned short __nv_fp8x2_storage_t;
typedef unsigned __nv_fp8x4_storage_t;
enum __nv_saturation_t { __NV_NOSAT, __NV_SATFINITE };
enum __nv_fp8_interpretation_t { __NV_E4M3, __NV_E5M2 };

TW_FN __nv_fp8_storage_t __nv_cvt_float_to_fp8(float x, __nv_saturation_t saturate,
                                               __nv_fp8_interpretation_t kind) {
    const int fraction = kind == __NV_E4M3 ? 3 : 2, least = kind == __NV_E4M3 ? -6 : -14;
    const int greatest = kind == __NV_E4M3 ? 0x7e : 0x7b;
    const unsigned bits = __float_as_uint(x), sign = bits >> 24 & 0x80u, size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return 0x7f;
    int code = greatest + 1;
    if (size < 0x48000000u) {  // below 2^17: round to the nearest multiple of the last place, ties to even
        int e = (int)(size >> 23) - 127;
        e = e < least ? least : e;
        code = ((e - least) << fraction)
             + __float2int_rn(__uint_as_float(size) * __uint_as_float((unsigned)(127 + fraction - e) << 23));
    }
    if (code > greatest) code = saturate == __NV_SATFINITE ? greatest : kind == __NV_E4M3 ? 0x7f : 0x7c;
    return (__nv_fp8_storage_t)((unsigned)code | sign);
}
// By a float that is rounded to odd, so that the second rounding sees what the first left out.
TW_FN __nv_fp8_storage_t __nv_cvt_double_to_fp8(double x, __nv_saturation_t saturate,
                                                __nv_fp8_interpretation_t kind) {
    float f = (float)x;
    unsigned bits = __float_as_uint(f);
    if (x == x && (double)f != x && (bits & 0x7fffffffu) != 0x7f800000u) {
        if (fabs((double)f) > fabs(x)) bits -= 1;
        bits |= 1;
    }
    return __nv_cvt_float_to_fp8(__uint_as_float(bits), saturate, kind);
}
TW_FN __nv_fp8_storage_t __nv_cvt_halfraw_to_fp8(__half_raw x, __nv_saturation_t saturate,
                                                 __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float_to_fp8((float)__half(x), saturate, kind);
}
TW_FN __nv_fp8_storage_t __nv_cvt_bfloat16raw_to_fp8(__nv_bfloat16_raw x, __nv_saturation_t saturate,
                                                     __nv_fp8_interpretation_t kind) {
    return __nv_cvt_float_to_fp8((float)__nv_bfloat16(x), saturate, kind);
}
#define TW_FP8X2(name, one, type) \
    TW_FN __nv_fp8x2_storage_t name(type x, __nv_saturation_t saturate, __nv_fp8_interpretation_t kind) { \
        return (__nv_fp8x2_storage_t)(one(x.x, saturate, kind) | one(x.y, saturate, kind) << 8); }
TW_FP8X2(__nv_cvt_float2_to_fp8x2, __nv_cvt_float_to_fp8, float2)
TW_FP8X2(__nv_cvt_double2_to_fp8x2, __nv_cvt_double_to_fp8, double2)
#undef TW_FP8X2
TW_FN __nv_fp8x2_storage_t __nv_cvt_halfraw2_to_fp8x2(__half2_raw x, __nv_saturation_t saturate,
                                                      __nv_fp8_interpretation_t kind) {
    __half2 h(x);
    return __nv_cvt_float2_to_fp8x2(__half22float2(h), saturate, kind);
}
TW_FN __nv_fp8x2_storage_t __nv_cvt_bfloat16raw2_to_fp8x2(__nv_bfloat162_raw x, __nv_saturation_t saturate,
                                                          __nv_fp8_interpretation_t kind) {
    __nv_bfloat162 b(x);
    return __nv_cvt_float2_to_fp8x2(__bfloat1622float2(b), saturate, kind);
}
TW_FN __half_raw __nv_cvt_fp8_to_halfraw(__nv_fp8_storage_t x, __nv_fp8_interpretation_t kind) {
    if (kind == __NV_E5M2) return {(unsigned short)(x << 8)};
    const unsigned size = x & 0x7fu, sign = (x & 0x80u) << 8;
    if (size == 0x7f) return {(unsigned short)0x7fff};
    if (size < 8) return {(unsigned short)(__half_as_ushort(__half((float)size * 0x1p-9f)) | sign)};
    return {(unsigned short)((size << 7) + (8u << 10) | sign)};
}
TW_FN __half2_raw __nv_cvt_fp8x2_to_halfraw2(__nv_fp8x2_storage_t x, __nv_fp8_interpretation_t kind) {
    return {__nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)x, kind).x,
            __nv_cvt_fp8_to_halfraw((__nv_fp8_storage_t)(x >> 8), kind).x};
}

#define TW_FP8_FROM(type) explicit TW_IN16 TW_NAME(type x) : __x(__nv_cvt_float_to_fp8((float)x, __NV_SATFINITE, \
    TW_KIND)) {}
#define TW_FP8_TO(type) explicit TW_IN16 operator type() const { return (type)(float)*this; }
#define TW_FP8_TYPE \
    struct TW_NAME { \
        __nv_fp8_storage_t __x; \
        TW_NAME() = default; \
        explicit TW_IN16 TW_NAME(double x) : __x(__nv_cvt_double_to_fp8(x, __NV_SATFINITE, TW_KIND)) {} \
        explicit TW_IN16 TW_NAME(__half x) : __x(__nv_cvt_float_to_fp8(__half2float(x), __NV_SATFINITE, \
            TW_KIND)) {} \
        explicit TW_IN16 TW_NAME(__nv_bfloat16 x) : __x(__nv_cvt_float_to_fp8(__bfloat162float(x), \
            __NV_SATFINITE, TW_KIND)) {} \
        TW_FP8_FROM(float) TW_FP8_FROM(int) TW_FP8_FROM(unsigned) TW_FP8_FROM(short) \
        TW_FP8_FROM(unsigned short) TW_FP8_FROM(long) TW_FP8_FROM(unsigned long) TW_FP8_FROM(long long) \
        TW_FP8_FROM(unsigned long long) \
        explicit TW_IN16 operator __half() const { return __half(__nv_cvt_fp8_to_halfraw(__x, TW_KIND)); } \
        explicit TW_IN16 operator float() const { \
            return __half2float(__half(__nv_cvt_fp8_to_halfraw(__x, TW_KIND))); } \
        explicit TW_IN16 operator __nv_bfloat16() const { return __nv_bfloat16((float)*this); } \
        explicit TW_IN16 operator bool() const { return (__x & 0x7f) != 0; } \
        TW_FP8_TO(double) TW_FP8_TO(int) TW_FP8_TO(unsigned) TW_FP8_TO(short) TW_FP8_TO(unsigned short) \
        TW_FP8_TO(char) TW_FP8_TO(signed char) TW_FP8_TO(unsigned char) TW_FP8_TO(long long) \
        TW_FP8_TO(unsigned long long) \
    };
#define TW_FP8_PAIR \
    struct __attribute__((aligned(2))) TW_NAME { \
        __nv_fp8x2_storage_t __x; \
        TW_NAME() = default; \
        explicit TW_IN16 TW_NAME(float2 x) : __x(__nv_cvt_float2_to_fp8x2(x, __NV_SATFINITE, TW_KIND)) {} \
        explicit TW_IN16 TW_NAME(double2 x) : __x(__nv_cvt_double2_to_fp8x2(x, __NV_SATFINITE, TW_KIND)) {} \
        explicit TW_IN16 TW_NAME(__half2 x) : __x(__nv_cvt_halfraw2_to_fp8x2(x, __NV_SATFINITE, TW_KIND)) {} \
        explicit TW_IN16 TW_NAME(__nv_bfloat162 x) \
            : __x(__nv_cvt_bfloat16raw2_to_fp8x2(x, __NV_SATFINITE, TW_KIND)) {} \
        explicit TW_IN16 operator __half2() const { return __half2(__nv_cvt_fp8x2_to_halfraw2(__x, TW_KIND)); } \
        explicit TW_IN16 operator float2() const { return __half22float2((__half2)*this); } \
    };
#define TW_FP8_FOUR \
    struct __attribute__((aligned(4))) TW_NAME { \
        __nv_fp8x4_storage_t __x; \
        TW_NAME() = default; \
        explicit TW_IN16 TW_NAME(float4 x) : __x(tw_four(make_float2(x.x, x.y), make_float2(x.z, x.w))) {} \
        TW_IN16 TW_NAME(__half2 low, __half2 high) : __x(tw_four(__half22float2(low), __half22float2(high))) {} \
        TW_IN16 TW_NAME(__nv_bfloat162 low, __nv_bfloat162 high) \
            : __x(tw_four(__bfloat1622float2(low), __bfloat1622float2(high))) {} \
        explicit TW_IN16 operator float4() const { \
            float2 low = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2((unsigned short)__x, TW_KIND))), \
                high = __half22float2(__half2(__nv_cvt_fp8x2_to_halfraw2((unsigned short)(__x >> 16), \
                    TW_KIND))); \
            return make_float4(low.x, low.y, high.x, high.y); } \
        static TW_IN16 unsigned tw_four(float2 low, float2 high) { \
            return __nv_cvt_float2_to_fp8x2(low, __NV_SATFINITE, TW_KIND) \
                 | (unsigned)__nv_cvt_float2_to_fp8x2(high, __NV_SATFINITE, TW_KIND) << 16; } \
    };
#define TW_KIND __NV_E4M3
#define TW_NAME __nv_fp8_e4m3
TW_FP8_TYPE
#undef TW_NAME
#define TW_NAME __nv_fp8x2_e4m3
TW_FP8_PAIR
#undef TW_NAME
#define TW_NAME __nv_fp8x4_e4m3
TW_FP8_FOUR
#undef TW_NAME
#undef TW_KIND
#define TW_KIND __NV_E5M2
#define TW_NAME __nv_fp8_e5m2
TW_FP8_TYPE
#undef TW_NAME
#define TW_NAME __nv_fp8x2_e5m2
TW_FP8_PAIR
#undef TW_NAME
#define TW_NAME __nv_fp8x4_e5m2
TW_FP8_FOUR
#undef TW_NAME
#undef TW_KIND
