// What cuda_fp16.h and cuda_bf16.h have in common: a 16-bit float type, pairs of it, and their operators,
// over clang's own types, whose arithmetic becomes the 16-bit instructions of PTX.
#pragma once
#define TW_IN16 __device__ __inline__ __attribute__((always_inline, nodebug))

#define TW_HALF_TYPE(half, half2, native, native2) \
    typedef native native2 __attribute__((ext_vector_type(2))); \
    struct half { \
        native v; \
        half() = default; \
        TW_IN16 half(float x) : v((native)x) {} \
        TW_IN16 half(double x) : v((native)x) {} \
        TW_IN16 half(int x) : v((native)(float)x) {} \
        TW_IN16 half(unsigned x) : v((native)(float)x) {} \
        TW_IN16 operator float() const { return (float)v; } \
    }; \
    TW_FN half tw_of(native v) { half r; r.v = v; return r; } \
    struct __attribute__((aligned(4))) half2 { \
        half x, y; \
        half2() = default; \
        TW_IN16 half2(half x, half y) : x(x), y(y) {} \
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
