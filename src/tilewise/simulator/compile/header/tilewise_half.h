// What cuda_fp16.h and cuda_bf16.h have in common: a 16-bit float type, pairs of it, and their operators,
// over clang's own types, whose arithmetic becomes the 16-bit instructions of PTX.
#pragma once
#define TW_IN16 __device__ __inline__ __attribute__((always_inline, nodebug))

#define TW_HALF_TYPE(half, half2, native, native2) \
    typedef native native2 __attribute__((ext_vector_type(2))); \
    struct half##_raw { unsigned short x; }; \
    struct __attribute__((aligned(4))) half2##_raw { unsigned short x, y; }; \
    struct half { \
        native v; \
        half() = default; \
        TW_IN16 half(float x) : v((native)x) {} \
        TW_IN16 half(double x) : v((native)x) {} \
        TW_IN16 half(int x) : v((native)(float)x) {} \
        TW_IN16 half(unsigned x) : v((native)(float)x) {} \
        TW_IN16 half(long x) : v((native)(float)x) {} \
        TW_IN16 half(unsigned long x) : v((native)(float)x) {} \
        TW_IN16 half(long long x) : v((native)(float)x) {} \
        TW_IN16 half(unsigned long long x) : v((native)(float)x) {} \
        TW_IN16 half(short x) : v((native)(float)x) {} \
        TW_IN16 half(unsigned short x) : v((native)(float)x) {} \
        TW_IN16 half(half##_raw r) : v(__builtin_bit_cast(native, r.x)) {} \
        TW_IN16 operator half##_raw() const { return {__builtin_bit_cast(unsigned short, v)}; } \
        TW_IN16 operator float() const { return (float)v; } \
    }; \
    TW_FN half tw_of(native v) { half r; r.v = v; return r; } \
    struct __attribute__((aligned(4))) half2 { \
        half x, y; \
        half2() = default; \
        TW_IN16 half2(half x, half y) : x(x), y(y) {} \
        TW_IN16 half2(half2##_raw r) : x(half##_raw{r.x}), y(half##_raw{r.y}) {} \
        TW_IN16 operator half2##_raw() const { return {half##_raw(x).x, half##_raw(y).x}; } \
        TW_IN16 half2(const half2 &o) { *(unsigned *)this = *(const unsigned *)&o; } \
        TW_IN16 half2 &operator=(const half2 &o) { *(unsigned *)this = *(const unsigned *)&o; \
            return *this; } \
    }; \
    TW_FN native2 tw_both(half2 a) { return native2{a.x.v, a.y.v}; } \
    TW_FN half2 tw_pair(native2 a, const half *) { return half2(tw_of((native)a.x), tw_of((native)a.y)); } \
    TW_HALF_OPERATOR(half, half2, +) TW_HALF_OPERATOR(half, half2, -) \
    TW_HALF_OPERATOR(half, half2, *) TW_HALF_OPERATOR(half, half2, /) \
    TW_FN half operator-(half a) { return tw_of(-a.v); } \
    TW_FN half operator+(half a) { return a; } \
    TW_FN half2 operator-(half2 a) { return tw_pair(-tw_both(a), &a.x); } \
    TW_HALF_COMPARE(half, ==, __heq) TW_HALF_COMPARE(half, !=, __hne) TW_HALF_COMPARE(half, <, __hlt) \
    TW_HALF_COMPARE(half, <=, __hle) TW_HALF_COMPARE(half, >, __hgt) TW_HALF_COMPARE(half, >=, __hge) \
    TW_FN half __hadd(half a, half b) { return a + b; } \
    TW_FN half __hsub(half a, half b) { return a - b; } \
    TW_FN half __hmul(half a, half b) { return a * b; } \
    TW_FN half __hdiv(half a, half b) { return a / b; } \
    TW_FN half __hneg(half a) { return -a; } \
    TW_FN half __habs(half a) { return tw_of((native)__builtin_fabsf((float)a.v)); } \
    TW_FN half __hmax(half a, half b) { return tw_of((native)__builtin_fmaxf((float)a.v, (float)b.v)); } \
    TW_FN half __hmin(half a, half b) { return tw_of((native)__builtin_fminf((float)a.v, (float)b.v)); } \
    TW_FN bool __hisnan(half a) { return a.v != a.v; } \
    TW_FN half2 __hadd2(half2 a, half2 b) { return a + b; } \
    TW_FN half2 __hsub2(half2 a, half2 b) { return a - b; } \
    TW_FN half2 __hmul2(half2 a, half2 b) { return a * b; } \
    TW_FN half2 __h2div(half2 a, half2 b) { return a / b; } \
    TW_FN half2 __hneg2(half2 a) { return -a; } \
    TW_FN half2 __hmax2(half2 a, half2 b) { return half2(__hmax(a.x, b.x), __hmax(a.y, b.y)); } \
    TW_FN half2 __hmin2(half2 a, half2 b) { return half2(__hmin(a.x, b.x), __hmin(a.y, b.y)); } \
    TW_FN float __low2float(half2 a) { return (float)a.x.v; } \
    TW_FN float __high2float(half2 a) { return (float)a.y.v; } \
    TW_FN half2 __lowhigh2highlow(half2 a) { return half2(a.y, a.x); } \
    TW_FN half __shfl_sync(unsigned m, half v, int by, int width = 32) { TW_SHUFFLE16(idx, 31) } \
    TW_FN half __shfl_up_sync(unsigned m, half v, int by, int width = 32) { TW_SHUFFLE16(up, 0) } \
    TW_FN half __shfl_down_sync(unsigned m, half v, int by, int width = 32) { TW_SHUFFLE16(down, 31) } \
    TW_FN half __shfl_xor_sync(unsigned m, half v, int by, int width = 32) { TW_SHUFFLE16(bfly, 31) } \
    TW_FN half hexp(half a) { return half(expf((float)a.v)); } \
    TW_FN half hexp2(half a) { return half(exp2f((float)a.v)); } \
    TW_FN half hlog(half a) { return half(logf((float)a.v)); } \
    TW_FN half hsqrt(half a) { return half(sqrtf((float)a.v)); } \
    TW_FN half hrsqrt(half a) { return half(rsqrtf((float)a.v)); } \
    TW_FN half hrcp(half a) { return half(1.0f / (float)a.v); } \
    TW_FN half htanh(half a) { return half(tanhf((float)a.v)); }

// Atomic sums of one and of two.
#define TW_ATOMIC16(half, half2, ptx) \
    TW_FN half atomicAdd(half *p, half v) { \
        unsigned short r; \
        asm volatile("atom.add.noftz." ptx " %0, [%1], %2;" \
                     : "=h"(r) : "l"(p), "h"(__builtin_bit_cast(unsigned short, v.v)) : "memory"); \
        decltype(v.v) n; \
        __builtin_memcpy(&n, &r, 2); \
        return tw_of(n); \
    } \
    TW_FN half2 atomicAdd(half2 *p, half2 v) { \
        unsigned r; \
        asm volatile("atom.add.noftz." ptx "x2 %0, [%1], %2;" : "=r"(r) : "l"(p), \
            "r"(*(unsigned *)&v) : "memory"); \
        *(unsigned *)&v = r; \
        return v; \
    }

#define TW_SHUFFLE16(form, clamp) \
    unsigned short bits = (unsigned short)tw_##form(m, __builtin_bit_cast(unsigned short, v.v), by, width); \
    decltype(v) r; __builtin_memcpy(&r, &bits, 2); return r;

// An operator also takes a float or an int on either side, which would otherwise be ambiguous with the
// built-in one. A product and a sum stay two roundings, as an H100 does with NVIDIA's headers; __hfma is one.
#define TW_APART _Pragma("clang fp contract(off)")
#define TW_HALF_OPERATOR(half, half2, op) \
    TW_FN half operator op(half a, half b) { TW_APART return tw_of((decltype(a.v))(a.v op b.v)); } \
    TW_FN half &operator op##=(half &a, half b) { a = a op b; return a; } \
    TW_FN half2 operator op(half2 a, half2 b) { TW_APART return tw_pair(tw_both(a) op tw_both(b), &a.x); } \
    TW_FN half2 &operator op##=(half2 &a, half2 b) { a = a op b; return a; }
#define TW_HALF_COMPARE(half, op, name) \
    TW_FN bool operator op(half a, half b) { return a.v op b.v; } \
    TW_FN bool name(half a, half b) { return a.v op b.v; }

// The rest of what both have; after __hfma and its kin.
#define TW_HALF_MORE(half, half2, native) \
    TW_FN half tw_clamped(half a) { return tw_of((native)__saturatef((float)a.v)); } \
    TW_FN half tw_positive(half a) { return (float)a.v > 0.0f || a.v != a.v ? a : half(0.0f); } \
    TW_FN half tw_bits_of(unsigned short b, const half *) { return half(half##_raw{b}); } \
    /* One step towards minus or plus infinity. */ \
    TW_FN half tw_lower(half a) { unsigned short b = half##_raw(a).x; \
        return half(half##_raw{(unsigned short)(b == 0 ? 0x8001 : b & 0x8000 ? b + 1 : b - 1)}); } \
    TW_FN half tw_upper(half a) { return -tw_lower(-a); } \
    TW_HALF_BOTH(half2, __hadd2_rn, a + b) TW_HALF_BOTH(half2, __hsub2_rn, a - b) \
    TW_HALF_BOTH(half2, __hmul2_rn, a * b) \
    TW_HALF_BOTH(half2, __hadd2_sat, half2(tw_clamped(a.x + b.x), tw_clamped(a.y + b.y))) \
    TW_HALF_BOTH(half2, __hsub2_sat, half2(tw_clamped(a.x - b.x), tw_clamped(a.y - b.y))) \
    TW_HALF_BOTH(half2, __hmul2_sat, half2(tw_clamped(a.x * b.x), tw_clamped(a.y * b.y))) \
    TW_HALF_BOTH(half, __hadd_rn, a + b) TW_HALF_BOTH(half, __hsub_rn, a - b) \
    TW_HALF_BOTH(half, __hmul_rn, a * b) TW_HALF_BOTH(half, __hadd_sat, tw_clamped(a + b)) \
    TW_HALF_BOTH(half, __hsub_sat, tw_clamped(a - b)) TW_HALF_BOTH(half, __hmul_sat, tw_clamped(a * b)) \
    TW_HALF_BOTH(half, __hmax_nan, a.v != a.v ? a : b.v != b.v ? b : __hmax(a, b)) \
    TW_HALF_BOTH(half, __hmin_nan, a.v != a.v ? a : b.v != b.v ? b : __hmin(a, b)) \
    TW_HALF_BOTH(half2, __hmax2_nan, half2(__hmax_nan(a.x, b.x), __hmax_nan(a.y, b.y))) \
    TW_HALF_BOTH(half2, __hmin2_nan, half2(__hmin_nan(a.x, b.x), __hmin_nan(a.y, b.y))) \
    TW_FN half __hfma_sat(half a, half b, half c) { return tw_clamped(__hfma(a, b, c)); } \
    TW_FN half __hfma_relu(half a, half b, half c) { return tw_positive(__hfma(a, b, c)); } \
    TW_FN half2 __hfma2_sat(half2 a, half2 b, half2 c) { \
        return half2(__hfma_sat(a.x, b.x, c.x), __hfma_sat(a.y, b.y, c.y)); } \
    TW_FN half2 __hfma2_relu(half2 a, half2 b, half2 c) { \
        return half2(__hfma_relu(a.x, b.x, c.x), __hfma_relu(a.y, b.y, c.y)); } \
    TW_FN half2 __habs2(half2 a) { return half2(__habs(a.x), __habs(a.y)); } \
    TW_FN half2 __hisnan2(half2 a) { return half2(half(__hisnan(a.x) ? 1.0f : 0.0f), \
        half(__hisnan(a.y) ? 1.0f : 0.0f)); } \
    TW_FN int __hisinf(half a) { float f = (float)a.v; return !isinf(f) ? 0 : f > 0.0f ? 1 : -1; } \
    TW_HALF_RELATION(half, half2, eq, ==, ==) TW_HALF_RELATION(half, half2, ne, !=, !=) \
    TW_HALF_RELATION(half, half2, lt, <, <) TW_HALF_RELATION(half, half2, le, <=, <=) \
    TW_HALF_RELATION(half, half2, gt, >, >) TW_HALF_RELATION(half, half2, ge, >=, >=) \
    TW_HALF_OF_FLOAT(half, half2, exp10, exp10f) TW_HALF_OF_FLOAT(half, half2, log2, log2f) \
    TW_HALF_OF_FLOAT(half, half2, log10, log10f) TW_HALF_OF_FLOAT(half, half2, sin, sinf) \
    TW_HALF_OF_FLOAT(half, half2, cos, cosf) TW_HALF_OF_FLOAT(half, half2, floor, floorf) \
    TW_HALF_OF_FLOAT(half, half2, ceil, ceilf) TW_HALF_OF_FLOAT(half, half2, trunc, truncf) \
    TW_HALF_OF_FLOAT(half, half2, rint, rintf) \
    TW_HALF_PAIRED(half2, exp) TW_HALF_PAIRED(half2, exp2) TW_HALF_PAIRED(half2, log) \
    TW_HALF_PAIRED(half2, sqrt) TW_HALF_PAIRED(half2, rsqrt) TW_HALF_PAIRED(half2, rcp) \
    TW_HALF_PAIRED(half2, tanh) \
    TW_HALF_SHUFFLE2(half2, __shfl_sync) TW_HALF_SHUFFLE2(half2, __shfl_up_sync) \
    TW_HALF_SHUFFLE2(half2, __shfl_down_sync) TW_HALF_SHUFFLE2(half2, __shfl_xor_sync) \
    TW_FN half &operator++(half &a) { return a += half(1.0f); } \
    TW_FN half &operator--(half &a) { return a -= half(1.0f); } \
    TW_FN half operator++(half &a, int) { half r = a; ++a; return r; } \
    TW_FN half operator--(half &a, int) { half r = a; --a; return r; }
#define TW_HALF_BOTH(type, name, result) TW_FN type name(type a, type b) { return result; }
#define TW_HALF_OF_FLOAT(half, half2, name, function) \
    TW_FN half h##name(half a) { return half(function((float)a.v)); } TW_HALF_PAIRED(half2, name)
#define TW_HALF_PAIRED(half2, name) TW_FN half2 h2##name(half2 a) { return half2(h##name(a.x), h##name(a.y)); }
#define TW_HALF_SHUFFLE2(half2, name) \
    TW_FN half2 name(unsigned m, half2 v, int by, int width = 32) { \
        unsigned bits = name(m, *(unsigned *)&v, by, width); *(unsigned *)&v = bits; return v; }
// Of each pair: 1.0 or 0.0, a mask, whether both hold; with u, also where one is no number.
#define TW_HALF_RELATION(half, half2, name, op, op2) \
    TW_FN bool __h##name##u(half a, half b) { return a.v != a.v || b.v != b.v || a.v op b.v; } \
    TW_FN half2 __h##name##2(half2 a, half2 b) { \
        return half2(half(a.x.v op b.x.v ? 1.0f : 0.0f), half(a.y.v op b.y.v ? 1.0f : 0.0f)); } \
    TW_FN half2 __h##name##u2(half2 a, half2 b) { \
        return half2(half(__h##name##u(a.x, b.x) ? 1.0f : 0.0f), half(__h##name##u(a.y, b.y) ? 1.0f : 0.0f)); } \
    TW_FN unsigned __h##name##2_mask(half2 a, half2 b) { \
        return (a.x.v op b.x.v ? 0xffffu : 0u) | (a.y.v op b.y.v ? 0xffff0000u : 0u); } \
    TW_FN bool __hb##name##2(half2 a, half2 b) { return a.x.v op b.x.v && a.y.v op b.y.v; } \
    TW_FN bool __hb##name##u2(half2 a, half2 b) { return __h##name##u(a.x, b.x) && __h##name##u(a.y, b.y); } \
    TW_FN bool operator op(half2 a, half2 b) { return a.x.v op b.x.v && a.y.v op b.y.v; }
// Conversions that name their rounding, and those of whole numbers.
#define TW_HALF_CONVERT(half, name) \
    TW_FN half __float2##name##_rz(float x) { half r(x); float f = (float)r.v; \
        return f > x && x > 0.0f ? tw_lower(r) : f < x && x < 0.0f ? tw_upper(r) : r; } \
    TW_FN half __float2##name##_rd(float x) { half r(x); return (float)r.v > x ? tw_lower(r) : r; } \
    TW_FN half __float2##name##_ru(float x) { half r(x); return (float)r.v < x ? tw_upper(r) : r; } \
    TW_FN half __uint2##name##_rn(unsigned x) { return half(x); } \
    TW_FN half __short2##name##_rn(short x) { return half((int)x); } \
    TW_FN half __ushort2##name##_rn(unsigned short x) { return half((int)x); } \
    TW_FN half __ll2##name##_rn(long long x) { return half((float)x); } \
    TW_FN half __ull2##name##_rn(unsigned long long x) { return half((float)x); }
#define TW_HALF_TO_WHOLE(half, name, mode) \
    TW_FN unsigned __##name##2uint_##mode(half x) { return __float2uint_##mode((float)x.v); } \
    TW_FN long long __##name##2ll_##mode(half x) { return __float2ll_##mode((float)x.v); } \
    TW_FN unsigned long long __##name##2ull_##mode(half x) { return __float2ull_##mode((float)x.v); } \
    TW_FN short __##name##2short_##mode(half x) { int r = __float2int_##mode((float)x.v); \
        return (short)(r < -32768 ? -32768 : r > 32767 ? 32767 : r); } \
    TW_FN unsigned short __##name##2ushort_##mode(half x) { unsigned r = __float2uint_##mode((float)x.v); \
        return (unsigned short)(r > 65535 ? 65535 : r); }
