// What a kernel may use without including anything: CUDA's words, the built-in variables, vector types, and
// the functions. Math functions are only declared: the simulated machine itself carries them out. Written
// from the CUDA C++ Programming Guide; NVIDIA's own headers never reach this compiler.
#pragma once

#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __host__ __attribute__((host))
#define __shared__ __attribute__((shared))
#define __constant__ __attribute__((constant))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...) __attribute__((launch_bounds(__VA_ARGS__)))
#define __restrict__ __restrict
#define __grid_constant__ __attribute__((grid_constant))
#define __cluster_dims__(...)  // the simulator reads it from the source
#define __align__(n) __attribute__((aligned(n)))
#define INFINITY __builtin_huge_valf()
#define NAN __builtin_nanf("")
#define CUDART_INF_F INFINITY
#define CUDART_NAN_F NAN
#define __CUDA_ARCH__ 900

typedef unsigned long size_t;
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
typedef unsigned long uintptr_t;

// A function of this header: inlined, and without lines of its own, so that counts land on the caller's line.
#define TW_FN static __device__ __inline__ __attribute__((always_inline, nodebug, unused))

#define TW_AXIS(axis, read)                                    \
    static __device__ __inline__ __attribute__((always_inline, nodebug)) unsigned get_##axis() { \
        return read; } \
    __declspec(property(get = get_##axis)) unsigned axis

struct dim3 {
    unsigned x, y, z;
    __device__ __inline__ __attribute__((always_inline, nodebug)) dim3(unsigned x = 1, unsigned y = 1,
        unsigned z = 1)
        : x(x), y(y), z(z) {}
};

// Vectors of 2 and 4 copy member by member, which clang merges into one access of 8 or 16 bytes, as on a GPU;
// as a plain struct it would copy a part that nobody reads in pieces of its own.
#define TW_COPY2(name) name() = default; TW_IN name(const name &v) : x(v.x), y(v.y) {} \
    TW_IN name &operator=(const name &v) { auto a = v.x, b = v.y; x = a; y = b; return *this; }
#define TW_COPY4(name) name() = default; TW_IN name(const name &v) : x(v.x), y(v.y), z(v.z), w(v.w) {} \
    TW_IN name &operator=(const name &v) { auto a = v.x, b = v.y, c = v.z, d = v.w; x = a; y = b; z = c; \
        w = d; return *this; }
#define TW_IN __device__ __inline__ __attribute__((always_inline, nodebug))
#define TW_VECTOR(type, name, align2, align4)                                                              \
    struct name##1 { type x; };                                                                            \
    struct __align__(align2) name##2 { type x, y; TW_COPY2(name##2) TW_IN name##2(type x, type y) \
        : x(x), y(y) {} }; \
    struct name##3 { type x, y, z; };                                                                      \
    struct __align__(align4) name##4 { type x, y, z, w; TW_COPY4(name##4)                                  \
        TW_IN name##4(type x, type y, type z, type w) : x(x), y(y), z(z), w(w) {} };                       \
    TW_FN name##1 make_##name##1(type x) { return {x}; }                                                   \
    TW_FN name##2 make_##name##2(type x, type y) { return name##2(x, y); }                                 \
    TW_FN name##3 make_##name##3(type x, type y, type z) { return {x, y, z}; }                             \
    TW_FN name##4 make_##name##4(type x, type y, type z, type w) { return name##4(x, y, z, w); }
TW_VECTOR(unsigned, uint, 8, 16)
TW_VECTOR(char, char, 2, 4)
TW_VECTOR(unsigned char, uchar, 2, 4)
TW_VECTOR(short, short, 4, 8)
TW_VECTOR(unsigned short, ushort, 4, 8)
TW_VECTOR(int, int, 8, 16)
TW_VECTOR(float, float, 8, 16)
TW_VECTOR(long long, longlong, 16, 16)
TW_VECTOR(unsigned long long, ulonglong, 16, 16)
TW_VECTOR(double, double, 16, 16)

#define TW_BUILTIN(name, reads)                                                                            \
    struct tw_##name##_t {                                                                                 \
        TW_AXIS(x, __nvvm_read_ptx_sreg_##reads##_x());                                                    \
        TW_AXIS(y, __nvvm_read_ptx_sreg_##reads##_y());                                                    \
        TW_AXIS(z, __nvvm_read_ptx_sreg_##reads##_z());                                                    \
        __device__ __inline__ __attribute__((always_inline, nodebug)) operator uint3() const { \
            return {get_x(), get_y(), get_z()}; } \
        __device__ __inline__ __attribute__((always_inline, nodebug)) operator dim3() const { \
            return dim3(get_x(), get_y(), get_z()); } \
    };                                                                                                     \
    extern const __device__ __attribute__((weak)) tw_##name##_t name
TW_BUILTIN(threadIdx, tid);
TW_BUILTIN(blockIdx, ctaid);
TW_BUILTIN(blockDim, ntid);
TW_BUILTIN(gridDim, nctaid);
static __device__ constexpr int warpSize = 32;

// ---- functions that the machine carries out

#define TW_MATH1(name) extern "C" __device__ float name##f(float) __attribute__((const)); \
extern "C" __device__ double name(double) __attribute__((const));
#define TW_MATH2(name) extern "C" __device__ float name##f(float, float) __attribute__((const)); \
extern "C" __device__ double name(double, double) __attribute__((const));
TW_MATH1(exp) TW_MATH1(exp2) TW_MATH1(exp10) TW_MATH1(expm1) TW_MATH1(log) TW_MATH1(log2) TW_MATH1(log10)
TW_MATH1(log1p)
TW_MATH1(sin) TW_MATH1(cos) TW_MATH1(tan) TW_MATH1(asin) TW_MATH1(acos) TW_MATH1(atan) TW_MATH1(sinh)
TW_MATH1(cosh) TW_MATH1(tanh)
TW_MATH1(erf) TW_MATH1(erfc) TW_MATH1(cbrt) TW_MATH1(lgamma) TW_MATH1(tgamma) TW_MATH1(floor) TW_MATH1(ceil)
TW_MATH1(trunc) TW_MATH1(rint) TW_MATH1(round)
TW_MATH2(pow) TW_MATH2(atan2) TW_MATH2(fmod) TW_MATH2(hypot)
extern "C" __device__ double rsqrt(double) __attribute__((const));
TW_FN float rsqrtf(float x) { return __nvvm_rsqrt_approx_ftz_f(x); }
TW_FN float sqrtf(float x) { return __builtin_sqrtf(x); }
TW_FN double sqrt(double x) { return __builtin_sqrt(x); }
TW_FN float fabsf(float x) { return __builtin_fabsf(x); }
TW_FN double fabs(double x) { return __builtin_fabs(x); }
TW_FN float fmaf(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
TW_FN double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }
TW_FN float fminf(float x, float y) { return __builtin_fminf(x, y); }
TW_FN float fmaxf(float x, float y) { return __builtin_fmaxf(x, y); }
TW_FN double fmin(double x, double y) { return __builtin_fmin(x, y); }
TW_FN double fmax(double x, double y) { return __builtin_fmax(x, y); }
TW_FN float copysignf(float x, float y) { return __builtin_copysignf(x, y); }
TW_FN float nearbyintf(float x) { return rintf(x); }
TW_FN float roundevenf(float x) { return rintf(x); }
TW_FN bool isnan(float x) { return x != x; }
TW_FN bool isinf(float x) { return __builtin_isinf(x); }
TW_FN bool isfinite(float x) { return __builtin_isfinite(x); }
TW_FN float fdividef(float x, float y) { return x / y; }
// The fast forms, by the instructions that they become.
TW_FN float __fdividef(float x, float y) { return x * __nvvm_rcp_approx_ftz_f(y); }
TW_FN float __exp2f(float x) { return __nvvm_ex2_approx_ftz_f(x); }
TW_FN float exp2f_approx(float x) { return __nvvm_ex2_approx_ftz_f(x); }
TW_FN float __expf(float x) { return __nvvm_ex2_approx_ftz_f(x * 1.44269504f); }
TW_FN float __log2f(float x) { return __nvvm_lg2_approx_ftz_f(x); }
TW_FN float __logf(float x) { return __nvvm_lg2_approx_ftz_f(x) * 0.693147181f; }
TW_FN float __sinf(float x) { return __nvvm_sin_approx_ftz_f(x); }
TW_FN float __cosf(float x) { return __nvvm_cos_approx_ftz_f(x); }
TW_FN float __log10f(float x) { return __nvvm_lg2_approx_ftz_f(x) * 0.301029996f; }
TW_FN float __exp10f(float x) { return __nvvm_ex2_approx_ftz_f(x * 3.32192809f); }
TW_FN float __tanf(float x) { return __sinf(x) * __nvvm_rcp_approx_ftz_f(__cosf(x)); }
TW_FN float __powf(float x, float y) { return __exp2f(y * __log2f(x)); }
TW_FN float __frcp_rn(float x) { return 1.0f / x; }
TW_FN float __fsqrt_rn(float x) { return __builtin_sqrtf(x); }
TW_FN float __saturatef(float x) { return __nvvm_saturate_ftz_f(x); }
#define TW_EXACT2(name, instruction) TW_FN float name(float x, float y) { float r; \
    asm("{ " instruction " %0, %1, %2; }" : "=f"(r) : "f"(x), "f"(y)); return r; }
TW_EXACT2(__fadd_rn, "add.rn.ftz.f32") TW_EXACT2(__fsub_rn, "sub.rn.ftz.f32")
TW_EXACT2(__fmul_rn, "mul.rn.ftz.f32")
#define TW_ROUNDED(end, mode) \
    TW_EXACT2(__fadd_##end, "add." mode ".ftz.f32") TW_EXACT2(__fsub_##end, "sub." mode ".ftz.f32") \
    TW_EXACT2(__fmul_##end, "mul." mode ".ftz.f32") TW_EXACT2(__fdiv_##end, "div." mode ".ftz.f32") \
    TW_EXACT1(__fsqrt_##end, "sqrt." mode ".ftz.f32") TW_EXACT1(__frcp_##end, "rcp." mode ".ftz.f32") \
    TW_EXACT3(__fmaf_##end, "fma." mode ".ftz.f32", float, "f")
#define TW_ROUNDED64(end, mode) \
    TW_EXACT64(__dadd_##end, "add." mode ".f64") TW_EXACT64(__dsub_##end, "sub." mode ".f64") \
    TW_EXACT64(__dmul_##end, "mul." mode ".f64") TW_EXACT64(__ddiv_##end, "div." mode ".f64") \
    TW_EXACT3(__fma_##end, "fma." mode ".f64", double, "d")
#define TW_EXACT1(name, instruction) TW_FN float name(float x) { float r; \
    asm(instruction " %0, %1;" : "=f"(r) : "f"(x)); return r; }
#define TW_EXACT64(name, instruction) TW_FN double name(double x, double y) { double r; \
    asm(instruction " %0, %1, %2;" : "=d"(r) : "d"(x), "d"(y)); return r; }
#define TW_EXACT3(name, instruction, type, letter) TW_FN type name(type x, type y, type z) { type r; \
    asm(instruction " %0, %1, %2, %3;" : "=" letter(r) : letter(x), letter(y), letter(z)); return r; }
TW_ROUNDED(rz, "rz") TW_ROUNDED(rd, "rm") TW_ROUNDED(ru, "rp")
TW_ROUNDED64(rn, "rn") TW_ROUNDED64(rz, "rz") TW_ROUNDED64(rd, "rm") TW_ROUNDED64(ru, "rp")
TW_FN float __fmaf_rn(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
TW_FN float __fdiv_rn(float x, float y) { return x / y; }

// --use_fast_math: what NVIDIA documents that it replaces; division and square root are the compiler's
// affair.
#ifdef TW_FAST_MATH
#define expf(x) __expf(x)
#define logf(x) __logf(x)
#define log2f(x) __log2f(x)
#define log10f(x) __log10f(x)
#define sinf(x) __sinf(x)
#define cosf(x) __cosf(x)
#define tanf(x) __tanf(x)
#define powf(x, y) __powf(x, y)
#define exp10f(x) __exp10f(x)
#endif

#define TW_OVERLOAD(name) TW_FN float name(float x) { return name##f(x); }
TW_OVERLOAD(exp) TW_OVERLOAD(exp2) TW_OVERLOAD(log) TW_OVERLOAD(log2) TW_OVERLOAD(sin) TW_OVERLOAD(cos)
TW_OVERLOAD(tanh)
TW_OVERLOAD(sqrt) TW_OVERLOAD(rsqrt) TW_OVERLOAD(fabs) TW_OVERLOAD(floor) TW_OVERLOAD(ceil) TW_OVERLOAD(trunc)
TW_FN float pow(float x, float y) { return powf(x, y); }

TW_FN int min(int x, int y) { return x < y ? x : y; }
TW_FN int max(int x, int y) { return x > y ? x : y; }
TW_FN unsigned min(unsigned x, unsigned y) { return x < y ? x : y; }
TW_FN unsigned max(unsigned x, unsigned y) { return x > y ? x : y; }
TW_FN long long min(long long x, long long y) { return x < y ? x : y; }
TW_FN long long max(long long x, long long y) { return x > y ? x : y; }
TW_FN float min(float x, float y) { return fminf(x, y); }
TW_FN float max(float x, float y) { return fmaxf(x, y); }
TW_FN int abs(int x) { return x < 0 ? -x : x; }
TW_FN float abs(float x) { return fabsf(x); }
TW_FN int __popc(unsigned x) { return __builtin_popcount(x); }
TW_FN int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
TW_FN int __clz(int x) { int r; asm("clz.b32 %0, %1;" : "=r"(r) : "r"(x)); return r; }
TW_FN int __ffs(int x) { return x ? __builtin_ctz(x) + 1 : 0; }
TW_FN unsigned __brev(unsigned x) { return __builtin_bitreverse32(x); }
TW_FN unsigned __byte_perm(unsigned x, unsigned y, unsigned s) { unsigned r;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(s)); return r; }
TW_FN int __mulhi(int x, int y) { return (int)(((long long)x * y) >> 32); }
TW_FN unsigned __umulhi(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x * y) >> 32); }
TW_FN int __dp4a(int x, int y, int z) { int r; asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y),
    "r"(z)); return r; }
TW_FN int __float_as_int(float x) { return __builtin_bit_cast(int, x); }
TW_FN unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
TW_FN float __int_as_float(int x) { return __builtin_bit_cast(float, x); }
TW_FN float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
TW_FN int __float2int_rn(float x) { int r; asm("cvt.rni.ftz.s32.f32 %0, %1;" : "=r"(r) : "f"(x)); return r; }
TW_FN int __float2int_rz(float x) { int r; asm("cvt.rzi.ftz.s32.f32 %0, %1;" : "=r"(r) : "f"(x)); return r; }
TW_FN float __int2float_rn(int x) { return (float)x; }
TW_FN size_t __cvta_generic_to_shared(const void *p) { unsigned long long r;
    asm("cvta.to.shared.u64 %0, %1;" : "=l"(r) : "l"(p)); return (size_t)r; }
template <class T> TW_FN T __ldg(const T *p) { return *p; }
// Cache operators: the simulator has no caches, so these are loads and stores.
#define TW_CACHED(load) template <class T> TW_FN T load(const T *p) { return *p; }
TW_CACHED(__ldca) TW_CACHED(__ldcg) TW_CACHED(__ldcs) TW_CACHED(__ldlu) TW_CACHED(__ldcv)
#define TW_CACHED_STORE(store) template <class T> TW_FN void store(T *p, T v) { *p = v; }
TW_CACHED_STORE(__stwb) TW_CACHED_STORE(__stcg) TW_CACHED_STORE(__stcs) TW_CACHED_STORE(__stwt)

// ---- variables that a trace follows: `// watch: s` in a kernel becomes tw_watch<0>(s) when it is compiled
// for a trace

#define TW_WATCH(type, ptx, letter) template <int id> TW_FN void tw_watch(type v) { \
    asm volatile("tw.watch." ptx " %0, %1;" ::"n"(id), letter(v)); }
TW_WATCH(float, "f32", "f") TW_WATCH(double, "f64", "d") TW_WATCH(int, "s32", "r")
TW_WATCH(unsigned, "u32", "r")
TW_WATCH(long long, "s64", "l") TW_WATCH(unsigned long long, "u64", "l")

// ---- barriers, warps, atomics

TW_FN int __syncthreads_count(int p) { int r;
    asm volatile("{ .reg .pred v; setp.ne.s32 v, %1, 0; bar.red.popc.u32 %0, 0, v; }" : "=r"(r) : "r"(p)
    : "memory"); return r; }
TW_FN int __syncthreads_and(int p) { int r;
    asm volatile("{ .reg .pred v, w; setp.ne.s32 v, %1, 0; bar.red.and.pred w, 0, v; selp.b32 %0, 1, 0, w; }"
    : "=r"(r) : "r"(p) : "memory"); return r; }
TW_FN int __syncthreads_or(int p) { int r;
    asm volatile("{ .reg .pred v, w; setp.ne.s32 v, %1, 0; bar.red.or.pred w, 0, v; selp.b32 %0, 1, 0, w; }"
    : "=r"(r) : "r"(p) : "memory"); return r; }
TW_FN void __syncwarp(unsigned mask = 0xffffffffu) { asm volatile("bar.warp.sync %0;" ::"r"(mask)
    : "memory"); }
TW_FN void __threadfence() { asm volatile("membar.gl;" ::: "memory"); }
TW_FN void __threadfence_block() { asm volatile("membar.cta;" ::: "memory"); }
TW_FN void __nanosleep(unsigned) {}
TW_FN void __trap() { asm volatile("trap;"); }
extern "C" __device__ int printf(const char *, ...);  // clang makes vprintf with a buffer of arguments of it
extern "C" __device__ __attribute__((noreturn)) void __assertfail(const char *, const char *, unsigned,
    const char *, size_t);
#define assert(condition) ((condition) ? (void)0 : __assertfail(#condition, __FILE__, __LINE__, __func__, 1))
TW_FN long long clock64() { long long r; asm volatile("mov.u64 %0, %%clock64;"
    : "=l"(r)::"memory"); return r; }
TW_FN int clock() { int r; asm volatile("mov.u32 %0, %%clock;" : "=r"(r)::"memory"); return r; }
TW_FN unsigned __activemask() { unsigned r; asm volatile("activemask.b32 %0;" : "=r"(r)); return r; }
// Votes and shuffles are clang's own, not asm volatile: they order no memory, so a load before one need not
// be done again after.
TW_FN unsigned tw_vote(unsigned mask, int p) { return __nvvm_vote_ballot_sync(mask, p != 0); }
TW_FN unsigned __ballot_sync(unsigned mask, int p) { return tw_vote(mask, p); }
TW_FN int __any_sync(unsigned mask, int p) { return tw_vote(mask, p) != 0; }
TW_FN int __all_sync(unsigned mask, int p) { return (tw_vote(mask, p) & mask) == mask; }
#define TW_MATCH(type, bits, letter) \
    TW_FN unsigned __match_any_sync(unsigned mask, type v) { unsigned r; \
        asm volatile("match.any.sync." bits " %0, %1, %2;" : "=r"(r) : letter(v), "r"(mask)); return r; } \
    TW_FN unsigned __match_all_sync(unsigned mask, type v, int *all) { unsigned r; \
        asm volatile("{ .reg .pred p; match.all.sync." bits " %0|p, %2, %3; selp.b32 %1, 1, 0, p; }" \
            : "=r"(r), "=r"(*all) : letter(v), "r"(mask)); return r; }
TW_MATCH(unsigned, "b32", "r") TW_MATCH(int, "b32", "r") TW_MATCH(float, "b32", "f")
TW_MATCH(unsigned long long, "b64", "l")
TW_MATCH(long long, "b64", "l") TW_MATCH(double, "b64", "d")
#define TW_SHUFFLE(name, form, clamp) \
    TW_FN unsigned tw_##form(unsigned mask, unsigned v, int by, int width) { \
        return (unsigned)__nvvm_shfl_sync_##form##_i32(mask, (int)v, by, ((32 - width) << 8) | clamp); } \
    TW_FN int name(unsigned mask, int v, int by, int width = 32) { \
        return (int)tw_##form(mask, (unsigned)v, by, width); } \
    TW_FN unsigned name(unsigned mask, unsigned v, int by, int width = 32) { \
        return tw_##form(mask, v, by, width); } \
    TW_FN float name(unsigned mask, float v, int by, int width = 32) { \
        return __uint_as_float(tw_##form(mask, __float_as_uint(v), by, width)); } \
    TW_FN unsigned long long name(unsigned mask, unsigned long long v, int by, int width = 32) { \
        unsigned low = tw_##form(mask, (unsigned)v, by, width), \
            high = tw_##form(mask, (unsigned)(v >> 32), by, width); \
        return (unsigned long long)high << 32 | low; } \
    TW_FN double name(unsigned mask, double v, int by, int width = 32) { \
        return __builtin_bit_cast(double, name(mask, __builtin_bit_cast(unsigned long long, v), by, width)); }
TW_SHUFFLE(__shfl_sync, idx, 31)
TW_SHUFFLE(__shfl_up_sync, up, 0)
TW_SHUFFLE(__shfl_down_sync, down, 31)
TW_SHUFFLE(__shfl_xor_sync, bfly, 31)
#define TW_REDUX(name, op, type, letter) TW_FN type name(unsigned mask, type v) { type r; \
    asm volatile("redux.sync." op " %0, %1, %2;" : "=r"(r) : "r"(v), "r"(mask)); return r; }
TW_REDUX(__reduce_add_sync, "add.s32", int, r) TW_REDUX(__reduce_min_sync, "min.s32", int, r)
TW_REDUX(__reduce_max_sync, "max.s32", int, r)
TW_REDUX(__reduce_add_sync, "add.u32", unsigned, r) TW_REDUX(__reduce_min_sync, "min.u32", unsigned, r)
TW_REDUX(__reduce_max_sync, "max.u32", unsigned, r)
TW_REDUX(__reduce_and_sync, "and.b32", unsigned, r) TW_REDUX(__reduce_or_sync, "or.b32", unsigned, r)
TW_REDUX(__reduce_xor_sync, "xor.b32", unsigned, r)
#include "tilewise_atomics.h"
#include "tilewise_more.h"
#include "tilewise_intrinsics.h"
#include "tilewise_std.h"
