// What CUDA files use beside what lessons do: limits and constants, C's and C++'s own names, and the rest of
// the functions that the CUDA Math API lists. Written from its public documentation and from the C++ standard.
#pragma once

#define NULL __null
#define CHAR_BIT 8
#define SCHAR_MIN (-128)
#define SCHAR_MAX 127
#define UCHAR_MAX 255
#define CHAR_MIN (-128)
#define CHAR_MAX 127
#define SHRT_MIN (-32768)
#define SHRT_MAX 32767
#define USHRT_MAX 65535
#define INT_MAX __INT_MAX__
#define INT_MIN (-__INT_MAX__ - 1)
#define UINT_MAX (__INT_MAX__ * 2u + 1u)
#define LONG_MAX 9223372036854775807l
#define LONG_MIN (-LONG_MAX - 1l)
#define ULONG_MAX 18446744073709551615ul
#define LLONG_MAX 9223372036854775807ll
#define LLONG_MIN (-LLONG_MAX - 1ll)
#define ULLONG_MAX 18446744073709551615ull
#define INT8_MIN SCHAR_MIN
#define INT8_MAX SCHAR_MAX
#define UINT8_MAX UCHAR_MAX
#define INT16_MIN SHRT_MIN
#define INT16_MAX SHRT_MAX
#define UINT16_MAX USHRT_MAX
#define INT32_MIN INT_MIN
#define INT32_MAX INT_MAX
#define UINT32_MAX UINT_MAX
#define INT64_MIN LLONG_MIN
#define INT64_MAX LLONG_MAX
#define UINT64_MAX ULLONG_MAX
#define SIZE_MAX ULONG_MAX
#define RAND_MAX 2147483647
#define FLT_MAX __FLT_MAX__
#define FLT_MIN __FLT_MIN__
#define FLT_EPSILON __FLT_EPSILON__
#define FLT_DIG __FLT_DIG__
#define FLT_MANT_DIG __FLT_MANT_DIG__
#define DBL_MAX __DBL_MAX__
#define DBL_MIN __DBL_MIN__
#define DBL_EPSILON __DBL_EPSILON__
#define DBL_DIG __DBL_DIG__
#define DBL_MANT_DIG __DBL_MANT_DIG__
#define HUGE_VAL __builtin_huge_val()
#define HUGE_VALF __builtin_huge_valf()
#define M_E 2.71828182845904523536
#define M_LOG2E 1.44269504088896340736
#define M_LOG10E 0.43429448190325182765
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_2_SQRTPI 1.12837916709551257390
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#define CUDART_INF __builtin_huge_val()
#define CUDART_NAN __builtin_nan("")
#define CUDART_MAX_NORMAL_F __FLT_MAX__
#define CUDART_MIN_DENORM_F __FLT_DENORM_MIN__
#define CUDART_PI_F 3.141592654f
#define CUDART_PIO2_F 1.570796327f
#define CUDART_PI 3.1415926535897931e+0
#define CUDART_L2E_F 1.442695041f
#define CUDART_LN2_F 0.693147181f
#define CUDART_SQRT_TWO_F 1.414213562f
#define CUDART_ZERO_F 0.0f
#define CUDART_ONE_F 1.0f
#define __CUDACC__ 1
#define __CUDACC_VER_MAJOR__ 13
#define __CUDACC_VER_MINOR__ 0
#define CUDART_VERSION 13000
#define CUDA_VERSION 13000
#define __managed__ __attribute__((device))
#define __maxnreg__(...)
#define __block_size__(...)

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;
typedef long clock_t;
typedef long time_t;
typedef long ptrdiff_t;
typedef long intptr_t;
typedef long ssize_t;
typedef long long intmax_t;
typedef unsigned long long uintmax_t;
typedef int8_t int_fast8_t, int_least8_t;
typedef uint8_t uint_fast8_t, uint_least8_t;
typedef int16_t int_least16_t;
typedef uint16_t uint_least16_t;
typedef int32_t int_least32_t;
typedef uint32_t uint_least32_t;
typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;
enum cudaError_t { cudaSuccess = 0 };
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost,
    cudaMemcpyDeviceToDevice, cudaMemcpyDefault };
struct cudaDeviceProp { char name[256]; int major, minor, multiProcessorCount, maxThreadsPerBlock, warpSize,
    maxThreadsPerMultiProcessor, clockRate, concurrentKernels, l2CacheSize;
    size_t totalGlobalMem, sharedMemPerBlock; };
// Host code that stands within a type is read, and never run: its calls take anything.
#define TW_HOST(name) template <class... A> __host__ cudaError_t name(A...);
TW_HOST(cudaMalloc) TW_HOST(cudaMallocManaged) TW_HOST(cudaMallocHost) TW_HOST(cudaHostAlloc) TW_HOST(cudaFree)
TW_HOST(cudaFreeHost) TW_HOST(cudaMemcpy) TW_HOST(cudaMemcpyAsync) TW_HOST(cudaMemset) TW_HOST(cudaMemsetAsync)
TW_HOST(cudaMemcpyToSymbol) TW_HOST(cudaMemcpyFromSymbol) TW_HOST(cudaDeviceSynchronize) TW_HOST(cudaSetDevice)
TW_HOST(cudaStreamCreate) TW_HOST(cudaStreamDestroy) TW_HOST(cudaStreamSynchronize) TW_HOST(cudaEventCreate)
TW_HOST(cudaEventRecord) TW_HOST(cudaEventSynchronize) TW_HOST(cudaEventElapsedTime) TW_HOST(cudaEventDestroy)
TW_HOST(cudaGetLastError) TW_HOST(cudaGetDevice) TW_HOST(cudaGetDeviceProperties) TW_HOST(cudaGetSymbolAddress)
TW_HOST(cudaFuncSetAttribute) TW_HOST(cudaMemPrefetchAsync)
template <class... A> __host__ const char *cudaGetErrorString(A...);
__host__ size_t strlen(const char *);
__host__ void *malloc(size_t);
__host__ void *calloc(size_t, size_t);
__host__ void free(void *);
__host__ char *strcpy(char *, const char *);
__host__ int strcmp(const char *, const char *);
__host__ void exit(int);
__host__ int rand();
__host__ void srand(unsigned);
__host__ int atoi(const char *);
__host__ double atof(const char *);
__host__ int fprintf(void *, const char *, ...);

TW_VECTOR(long, long, 16, 16)
TW_VECTOR(unsigned long, ulong, 16, 16)

// ---- numbers

#define TW_PAIRS(type, one, two) \
    TW_FN type min(one x, two y) { return (type)x < (type)y ? (type)x : (type)y; } \
    TW_FN type max(one x, two y) { return (type)x > (type)y ? (type)x : (type)y; }
#define TW_MIXED(type, one, two) TW_PAIRS(type, one, two) TW_PAIRS(type, two, one)
TW_MIXED(unsigned, int, unsigned)
TW_PAIRS(long, long, long) TW_PAIRS(unsigned long, unsigned long, unsigned long)
TW_PAIRS(unsigned long long, unsigned long long, unsigned long long)
TW_MIXED(long, int, long) TW_MIXED(long, unsigned, long)
TW_MIXED(unsigned long, int, unsigned long) TW_MIXED(unsigned long, unsigned, unsigned long)
TW_MIXED(unsigned long, long, unsigned long)
TW_MIXED(long long, int, long long) TW_MIXED(long long, unsigned, long long)
TW_MIXED(unsigned long long, int, unsigned long long) TW_MIXED(unsigned long long, unsigned, unsigned long long)
TW_MIXED(unsigned long long, long long, unsigned long long)
TW_MIXED(unsigned long long, unsigned long, unsigned long long)
TW_MIXED(long long, long, long long)
TW_FN double min(double x, double y) { return fmin(x, y); }
TW_FN double max(double x, double y) { return fmax(x, y); }
TW_FN double min(float x, double y) { return fmin((double)x, y); }
TW_FN double max(float x, double y) { return fmax((double)x, y); }
TW_FN double min(double x, float y) { return fmin(x, (double)y); }
TW_FN double max(double x, float y) { return fmax(x, (double)y); }
#define TW_WITH_WHOLE(whole) \
    TW_FN float min(float x, whole y) { return fminf(x, (float)y); } \
    TW_FN float max(float x, whole y) { return fmaxf(x, (float)y); } \
    TW_FN float min(whole x, float y) { return fminf((float)x, y); } \
    TW_FN float max(whole x, float y) { return fmaxf((float)x, y); } \
    TW_FN double min(double x, whole y) { return fmin(x, (double)y); } \
    TW_FN double max(double x, whole y) { return fmax(x, (double)y); } \
    TW_FN double min(whole x, double y) { return fmin((double)x, y); } \
    TW_FN double max(whole x, double y) { return fmax((double)x, y); }
TW_WITH_WHOLE(int) TW_WITH_WHOLE(unsigned)
TW_FN unsigned umin(unsigned x, unsigned y) { return min(x, y); }
TW_FN unsigned umax(unsigned x, unsigned y) { return max(x, y); }
TW_FN long long llmin(long long x, long long y) { return min(x, y); }
TW_FN long long llmax(long long x, long long y) { return max(x, y); }
TW_FN unsigned long long ullmin(unsigned long long x, unsigned long long y) { return min(x, y); }
TW_FN unsigned long long ullmax(unsigned long long x, unsigned long long y) { return max(x, y); }
TW_FN long abs(long x) { return x < 0 ? -x : x; }
TW_FN long long abs(long long x) { return x < 0 ? -x : x; }
TW_FN double abs(double x) { return fabs(x); }
TW_FN long labs(long x) { return abs(x); }
TW_FN long long llabs(long long x) { return abs(x); }

TW_OVERLOAD(exp10) TW_OVERLOAD(expm1) TW_OVERLOAD(log10) TW_OVERLOAD(log1p) TW_OVERLOAD(tan) TW_OVERLOAD(asin)
TW_OVERLOAD(acos) TW_OVERLOAD(atan) TW_OVERLOAD(sinh) TW_OVERLOAD(cosh) TW_OVERLOAD(erf) TW_OVERLOAD(erfc)
TW_OVERLOAD(cbrt) TW_OVERLOAD(lgamma) TW_OVERLOAD(tgamma) TW_OVERLOAD(rint) TW_OVERLOAD(round)
TW_FN double copysign(double x, double y) { return __builtin_copysign(x, y); }
TW_FN double nearbyint(double x) { return rint(x); }
#define TW_OVERLOAD2(name) TW_FN float name(float x, float y) { return name##f(x, y); } \
    TW_FN double name(float x, double y) { return name((double)x, y); } \
    TW_FN double name(double x, float y) { return name(x, (double)y); }
TW_OVERLOAD2(fmin) TW_OVERLOAD2(fmax) TW_OVERLOAD2(atan2) TW_OVERLOAD2(fmod) TW_OVERLOAD2(hypot)
TW_OVERLOAD2(copysign)
TW_FN double pow(float x, double y) { return pow((double)x, y); }
TW_FN double pow(double x, float y) { return pow(x, (double)y); }
TW_FN double pow(double x, int y) { return pow(x, (double)y); }
TW_FN float pow(float x, int y) { return powf(x, (float)y); }
TW_FN double pow(int x, int y) { return pow((double)x, (double)y); }
#define TW_OF_WHOLE(name) TW_FN double name(int x) { return name((double)x); } \
    TW_FN double name(unsigned x) { return name((double)x); }
TW_OF_WHOLE(exp) TW_OF_WHOLE(exp2) TW_OF_WHOLE(log) TW_OF_WHOLE(log2) TW_OF_WHOLE(log10) TW_OF_WHOLE(sin)
TW_OF_WHOLE(cos) TW_OF_WHOLE(sqrt) TW_OF_WHOLE(rsqrt) TW_OF_WHOLE(floor) TW_OF_WHOLE(ceil) TW_OF_WHOLE(fabs)
TW_FN float fma(float x, float y, float z) { return fmaf(x, y, z); }
TW_FN float fdimf(float x, float y) { return x > y ? x - y : x <= y ? 0.0f : x + y; }
TW_FN double fdim(double x, double y) { return x > y ? x - y : x <= y ? 0.0 : x + y; }
TW_FN void sincosf(float x, float *s, float *c) { *s = sinf(x); *c = cosf(x); }
TW_FN void sincos(double x, double *s, double *c) { *s = sin(x); *c = cos(x); }
TW_FN void sincos(float x, float *s, float *c) { sincosf(x, s, c); }
TW_FN void __sincosf(float x, float *s, float *c) { *s = __sinf(x); *c = __cosf(x); }
TW_FN double sinpi(double x) { x -= 2.0 * trunc(x / 2.0); return sin(x * M_PI); }
TW_FN double cospi(double x) { x -= 2.0 * trunc(x / 2.0); return cos(x * M_PI); }
TW_FN float sinpif(float x) { return (float)sinpi((double)x); }
TW_FN float cospif(float x) { return (float)cospi((double)x); }
TW_FN void sincospif(float x, float *s, float *c) { *s = sinpif(x); *c = cospif(x); }
TW_FN void sincospi(double x, double *s, double *c) { *s = sinpi(x); *c = cospi(x); }
TW_FN double ldexp(double x, int n) {
    int half = n / 2;
    half = half < -1100 ? -1100 : half > 1100 ? 1100 : half;
    return x * exp2((double)half) * exp2((double)(n < -2200 ? -1100 : n > 2200 ? 1100 : n - half)); }
TW_FN float ldexpf(float x, int n) { return (float)ldexp((double)x, n); }
TW_FN float ldexp(float x, int n) { return ldexpf(x, n); }
TW_FN float scalbnf(float x, int n) { return ldexpf(x, n); }
TW_FN double scalbn(double x, int n) { return ldexp(x, n); }
TW_FN double frexp(double x, int *n) {
    unsigned long long bits = __builtin_bit_cast(unsigned long long, x), field = bits >> 52 & 2047;
    if (x == 0.0 || field == 2047) { *n = 0; return x; }
    int more = 0;
    if (!field) { bits = __builtin_bit_cast(unsigned long long, x * 0x1p54); field = bits >> 52 & 2047; more = 54; }
    *n = (int)field - 1022 - more;
    return __builtin_bit_cast(double, (bits & ~(2047ull << 52)) | 1022ull << 52); }
TW_FN float frexpf(float x, int *n) { return (float)frexp((double)x, n); }
TW_FN float frexp(float x, int *n) { return frexpf(x, n); }
TW_FN int ilogbf(float x) { int n; frexpf(x, &n); return n - 1; }
TW_FN int ilogb(double x) { int n; frexp(x, &n); return n - 1; }
TW_FN float logbf(float x) { return (float)ilogbf(x); }
TW_FN float modff(float x, float *whole) { *whole = truncf(x); return copysignf(x - *whole, x); }
TW_FN double modf(double x, double *whole) { *whole = trunc(x); return copysign(x - *whole, x); }
TW_FN float remainderf(float x, float y) { return (float)((double)x - (double)y * rint((double)x / (double)y)); }
TW_FN float norm3df(float x, float y, float z) { return sqrtf(x * x + y * y + z * z); }
TW_FN float norm4df(float x, float y, float z, float w) { return sqrtf(x * x + y * y + z * z + w * w); }
TW_FN float rnorm3df(float x, float y, float z) { return rsqrtf(x * x + y * y + z * z); }
TW_FN float rhypotf(float x, float y) { return rsqrtf(x * x + y * y); }
TW_FN float rcbrtf(float x) { return 1.0f / cbrtf(x); }
TW_FN float normcdff(float x) { return 0.5f * erfcf(-x * 0.707106781f); }
TW_FN double normcdf(double x) { return 0.5 * erfc(-x * M_SQRT1_2); }
TW_FN float asinhf(float x) { return (float)copysign(log(fabs((double)x) + sqrt((double)x * x + 1.0)), (double)x); }
TW_FN float acoshf(float x) { return (float)log((double)x + sqrt((double)x * x - 1.0)); }
TW_FN float atanhf(float x) { return (float)(0.5 * log((1.0 + (double)x) / (1.0 - (double)x))); }
TW_FN int lrintf(float x) { return (int)rintf(x); }
TW_FN long long llrintf(float x) { return (long long)rintf(x); }
TW_FN long lroundf(float x) { return (long)roundf(x); }
TW_FN long long llroundf(float x) { return (long long)roundf(x); }
TW_FN long lround(double x) { return (long)round(x); }
TW_FN long lrint(double x) { return (long)rint(x); }
TW_FN bool isnan(double x) { return x != x; }
TW_FN bool isinf(double x) { return __builtin_isinf(x); }
TW_FN bool isfinite(double x) { return __builtin_isfinite(x); }
TW_FN bool signbit(float x) { return __builtin_signbit(x); }
TW_FN bool signbit(double x) { return __builtin_signbit(x); }
TW_FN float nextafterf(float x, float y) {
    if (x != x || y != y) return x + y;
    if (x == y) return y;
    if (x == 0.0f) return copysignf(__FLT_DENORM_MIN__, y);
    int bits = __float_as_int(x);
    return __int_as_float(bits + ((x < y) == (x > 0.0f) ? 1 : -1)); }
TW_FN float nanf(const char *) { return NAN; }

// ---- bits and whole numbers

TW_FN int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
TW_FN int __ffsll(long long x) { return x ? __builtin_ctzll((unsigned long long)x) + 1 : 0; }
TW_FN unsigned long long __brevll(unsigned long long x) { return __builtin_bitreverse64(x); }
TW_FN unsigned __fns(unsigned mask, unsigned base, int offset) {
    if (offset == 0) return mask >> base & 1 ? base : ~0u;
    int step = offset > 0 ? 1 : -1, left = offset > 0 ? offset : -offset;
    for (int at = (int)base; 0 <= at && at < 32; at += step)
        if (mask >> at & 1 && --left == 0) return (unsigned)at;
    return ~0u; }
TW_FN unsigned __funnelshift_l(unsigned low, unsigned high, unsigned by) {
    return (unsigned)(((unsigned long long)high << 32 | low) << (by & 31) >> 32); }
TW_FN unsigned __funnelshift_r(unsigned low, unsigned high, unsigned by) {
    return (unsigned)(((unsigned long long)high << 32 | low) >> (by & 31)); }
TW_FN unsigned __funnelshift_lc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? low : __funnelshift_l(low, high, by); }
TW_FN unsigned __funnelshift_rc(unsigned low, unsigned high, unsigned by) {
    return by >= 32 ? high : __funnelshift_r(low, high, by); }
TW_FN int __mul24(int x, int y) { return (x << 8 >> 8) * (y << 8 >> 8); }
TW_FN unsigned __umul24(unsigned x, unsigned y) { return (x & 0xffffff) * (y & 0xffffff); }
TW_FN long long __mul64hi(long long x, long long y) { return (long long)(((__int128)x * y) >> 64); }
TW_FN unsigned long long __umul64hi(unsigned long long x, unsigned long long y) {
    return (unsigned long long)(((unsigned __int128)x * y) >> 64); }
TW_FN int __hadd(int x, int y) { return (int)(((long long)x + y) >> 1); }
TW_FN int __rhadd(int x, int y) { return (int)(((long long)x + y + 1) >> 1); }
TW_FN unsigned __uhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y) >> 1); }
TW_FN unsigned __sad(int x, int y, unsigned z) { return z + (unsigned)(x > y ? x - y : y - x); }
TW_FN unsigned __usad(unsigned x, unsigned y, unsigned z) { return z + (x > y ? x - y : y - x); }
TW_FN unsigned __dp4a(unsigned x, unsigned y, unsigned z) { unsigned r;
    asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(z)); return r; }
#define TW_EACH(name, pieces, type, result) TW_FN unsigned name(unsigned a, unsigned b) { \
    unsigned r = 0; const int bits = 32 / pieces; const unsigned mask = (1u << bits) - 1; \
    for (int i = 0; i < pieces; ++i) { \
        type x = (type)(a >> i * bits & mask), y = (type)(b >> i * bits & mask); \
        r |= ((unsigned)(result) & mask) << i * bits; } \
    return r; }
TW_EACH(__vadd2, 2, short, x + y) TW_EACH(__vadd4, 4, signed char, x + y)
TW_EACH(__vsub2, 2, short, x - y) TW_EACH(__vsub4, 4, signed char, x - y)
TW_EACH(__vmaxs2, 2, short, x > y ? x : y) TW_EACH(__vmaxs4, 4, signed char, x > y ? x : y)
TW_EACH(__vmaxu2, 2, unsigned short, x > y ? x : y) TW_EACH(__vmaxu4, 4, unsigned char, x > y ? x : y)
TW_EACH(__vmins2, 2, short, x < y ? x : y) TW_EACH(__vmins4, 4, signed char, x < y ? x : y)
TW_EACH(__vminu2, 2, unsigned short, x < y ? x : y) TW_EACH(__vminu4, 4, unsigned char, x < y ? x : y)
TW_EACH(__vabsdiffu2, 2, unsigned short, x > y ? x - y : y - x)
TW_EACH(__vabsdiffu4, 4, unsigned char, x > y ? x - y : y - x)
TW_EACH(__vabsdiffs4, 4, signed char, x > y ? x - y : y - x)
TW_EACH(__vcmpeq2, 2, unsigned short, x == y ? -1 : 0) TW_EACH(__vcmpeq4, 4, unsigned char, x == y ? -1 : 0)
TW_EACH(__vcmpne4, 4, unsigned char, x != y ? -1 : 0)
TW_EACH(__vcmpgts2, 2, short, x > y ? -1 : 0) TW_EACH(__vcmpgts4, 4, signed char, x > y ? -1 : 0)
TW_EACH(__vcmpgtu4, 4, unsigned char, x > y ? -1 : 0) TW_EACH(__vcmpltu4, 4, unsigned char, x < y ? -1 : 0)
TW_EACH(__vcmples4, 4, signed char, x <= y ? -1 : 0) TW_EACH(__vcmpgeu4, 4, unsigned char, x >= y ? -1 : 0)
TW_EACH(__vseteq4, 4, unsigned char, x == y) TW_EACH(__vavgu4, 4, unsigned char, (x + y + 1) >> 1)
TW_EACH(__vaddus4, 4, unsigned char, x + y > 255 ? 255 : x + y)
TW_EACH(__vsubus4, 4, unsigned char, x > y ? x - y : 0)
TW_EACH(__vaddss2, 2, short, x + y > 32767 ? 32767 : x + y < -32768 ? -32768 : x + y)
TW_FN unsigned __vsadu4(unsigned a, unsigned b) {
    unsigned d = __vabsdiffu4(a, b);
    return (d & 255) + (d >> 8 & 255) + (d >> 16 & 255) + (d >> 24); }
TW_FN unsigned __vneg4(unsigned a) { return __vsub4(0, a); }
TW_FN unsigned __vabs4(unsigned a) { return __vmaxs4(a, __vneg4(a)); }

// ---- conversions

#define TW_CONVERT(name, to, from, instruction, out, in) TW_FN to name(from x) { to r; \
    asm(instruction " %0, %1;" : "=" out(r) : in(x)); return r; }
#define TW_TO_WHOLE(end, mode) \
    TW_CONVERT(__float2uint_##end, unsigned, float, "cvt." mode ".ftz.u32.f32", "r", "f") \
    TW_CONVERT(__float2ll_##end, long long, float, "cvt." mode ".ftz.s64.f32", "l", "f") \
    TW_CONVERT(__float2ull_##end, unsigned long long, float, "cvt." mode ".ftz.u64.f32", "l", "f") \
    TW_CONVERT(__double2int_##end, int, double, "cvt." mode ".s32.f64", "r", "d") \
    TW_CONVERT(__double2uint_##end, unsigned, double, "cvt." mode ".u32.f64", "r", "d") \
    TW_CONVERT(__double2ll_##end, long long, double, "cvt." mode ".s64.f64", "l", "d") \
    TW_CONVERT(__double2ull_##end, unsigned long long, double, "cvt." mode ".u64.f64", "l", "d")
TW_TO_WHOLE(rn, "rni") TW_TO_WHOLE(rz, "rzi") TW_TO_WHOLE(ru, "rpi") TW_TO_WHOLE(rd, "rmi")
TW_CONVERT(__float2int_ru, int, float, "cvt.rpi.ftz.s32.f32", "r", "f")
TW_CONVERT(__float2int_rd, int, float, "cvt.rmi.ftz.s32.f32", "r", "f")
TW_FN float __uint2float_rn(unsigned x) { return (float)x; }
TW_FN float __ll2float_rn(long long x) { return (float)x; }
TW_FN float __ull2float_rn(unsigned long long x) { return (float)x; }
TW_FN float __double2float_rn(double x) { return (float)x; }
TW_FN double __int2double_rn(int x) { return (double)x; }
TW_FN double __uint2double_rn(unsigned x) { return (double)x; }
TW_FN double __ll2double_rn(long long x) { return (double)x; }
TW_FN double __ull2double_rn(unsigned long long x) { return (double)x; }
TW_FN long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
TW_FN double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
TW_FN int __double2hiint(double x) { return (int)(__double_as_longlong(x) >> 32); }
TW_FN int __double2loint(double x) { return (int)__double_as_longlong(x); }
TW_FN double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)high << 32 | (unsigned)low); }

// ---- memory

TW_FN void *memcpy(void *to, const void *from, size_t n) { __builtin_memcpy(to, from, n); return to; }
TW_FN void *memmove(void *to, const void *from, size_t n) { __builtin_memmove(to, from, n); return to; }
TW_FN void *memset(void *to, int value, size_t n) { __builtin_memset(to, value, n); return to; }
TW_FN void __threadfence_system() { asm volatile("membar.sys;" ::: "memory"); }
TW_FN float2 atomicAdd(float2 *p, float2 v) {
    float x = atomicAdd(&p->x, v.x), y = atomicAdd(&p->y, v.y);
    return make_float2(x, y); }
TW_FN float4 atomicAdd(float4 *p, float4 v) {
    float x = atomicAdd(&p->x, v.x), y = atomicAdd(&p->y, v.y), z = atomicAdd(&p->z, v.z),
        w = atomicAdd(&p->w, v.w);
    return make_float4(x, y, z, w); }
TW_FN unsigned long atomicAdd(unsigned long *p, unsigned long v) {
    return (unsigned long)atomicAdd((unsigned long long *)p, (unsigned long long)v); }
#define TW_SHUFFLE_LONG(name) \
    TW_FN long long name(unsigned mask, long long v, int by, int width = 32) { \
        return (long long)name(mask, (unsigned long long)v, by, width); } \
    TW_FN long name(unsigned mask, long v, int by, int width = 32) { \
        return (long)name(mask, (unsigned long long)v, by, width); } \
    TW_FN unsigned long name(unsigned mask, unsigned long v, int by, int width = 32) { \
        return (unsigned long)name(mask, (unsigned long long)v, by, width); }
TW_SHUFFLE_LONG(__shfl_sync) TW_SHUFFLE_LONG(__shfl_up_sync) TW_SHUFFLE_LONG(__shfl_down_sync)
TW_SHUFFLE_LONG(__shfl_xor_sync)

// ---- C++'s own

namespace std {
using ::size_t; using ::ptrdiff_t; using ::int8_t; using ::uint8_t; using ::int16_t; using ::uint16_t;
using ::int32_t; using ::uint32_t; using ::int64_t; using ::uint64_t; using ::uintptr_t; using ::intptr_t;
using ::abs; using ::fabs; using ::sqrt; using ::exp; using ::exp2; using ::log; using ::log2; using ::log10;
using ::log1p; using ::expm1; using ::sin; using ::cos; using ::tan; using ::asin; using ::acos; using ::atan;
using ::atan2; using ::sinh; using ::cosh; using ::tanh; using ::pow; using ::floor; using ::ceil; using ::trunc;
using ::round; using ::rint; using ::fmod; using ::fmin; using ::fmax; using ::fma; using ::hypot; using ::cbrt;
using ::erf; using ::erfc; using ::isnan; using ::isinf; using ::isfinite; using ::signbit; using ::copysign;
using ::memcpy; using ::memset; using ::ldexp; using ::frexp; using ::lgamma; using ::tgamma;
template <class T, T v> struct integral_constant { static constexpr T value = v; typedef T value_type;
    __host__ __device__ constexpr operator T() const { return v; } };
template <bool b> using bool_constant = integral_constant<bool, b>;
typedef bool_constant<true> true_type;
typedef bool_constant<false> false_type;
template <class, class> struct is_same : false_type {};
template <class T> struct is_same<T, T> : true_type {};
template <class A, class B> inline constexpr bool is_same_v = is_same<A, B>::value;
template <bool, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool b, class T = void> using enable_if_t = typename enable_if<b, T>::type;
template <bool, class A, class> struct conditional { typedef A type; };
template <class A, class B> struct conditional<false, A, B> { typedef B type; };
template <bool b, class A, class B> using conditional_t = typename conditional<b, A, B>::type;
template <class T> struct remove_reference { typedef T type; };
template <class T> struct remove_reference<T &> { typedef T type; };
template <class T> struct remove_reference<T &&> { typedef T type; };
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> struct remove_const { typedef T type; };
template <class T> struct remove_const<const T> { typedef T type; };
template <class T> using remove_const_t = typename remove_const<T>::type;
template <class T> struct remove_cv { typedef __remove_cv(T) type; };
template <class T> using remove_cv_t = __remove_cv(T);
template <class T> using remove_cvref_t = __remove_cvref(T);
template <class T> using decay_t = __decay(T);
template <class T> struct decay { typedef __decay(T) type; };
template <class T> struct remove_pointer { typedef __remove_pointer(T) type; };
template <class T> using remove_pointer_t = __remove_pointer(T);
template <class T> struct is_integral : bool_constant<__is_integral(T)> {};
template <class T> struct is_floating_point : bool_constant<__is_floating_point(T)> {};
template <class T> struct is_arithmetic : bool_constant<__is_arithmetic(T)> {};
template <class T> struct is_pointer : bool_constant<__is_pointer(T)> {};
template <class T> struct is_signed : bool_constant<__is_signed(T)> {};
template <class T> struct is_unsigned : bool_constant<__is_unsigned(T)> {};
template <class T> struct is_const : bool_constant<__is_const(T)> {};
template <class T> struct is_void : bool_constant<__is_void(T)> {};
template <class T> struct is_trivially_copyable : bool_constant<__is_trivially_copyable(T)> {};
template <class A, class B> struct is_convertible : bool_constant<__is_convertible(A, B)> {};
template <class A, class B> struct is_base_of : bool_constant<__is_base_of(A, B)> {};
template <class T> inline constexpr bool is_integral_v = __is_integral(T);
template <class T> inline constexpr bool is_floating_point_v = __is_floating_point(T);
template <class T> inline constexpr bool is_arithmetic_v = __is_arithmetic(T);
template <class T> inline constexpr bool is_pointer_v = __is_pointer(T);
template <class T> inline constexpr bool is_unsigned_v = __is_unsigned(T);
template <class T> inline constexpr bool is_signed_v = __is_signed(T);
template <class T> constexpr __host__ __device__ T &&forward(remove_reference_t<T> &x) { return (T &&)x; }
template <class T> constexpr __host__ __device__ T &&forward(remove_reference_t<T> &&x) { return (T &&)x; }
template <class T> constexpr __host__ __device__ remove_reference_t<T> &&move(T &&x) {
    return (remove_reference_t<T> &&)x; }
template <class T> __host__ __device__ T &&declval();
template <class T> constexpr __host__ __device__ const T &min(const T &x, const T &y) { return y < x ? y : x; }
template <class T> constexpr __host__ __device__ const T &max(const T &x, const T &y) { return x < y ? y : x; }
template <class T> __host__ __device__ void swap(T &x, T &y) { T z = x; x = y; y = z; }
template <class T, size_t n> struct array {
    T held[n ? n : 1];
    constexpr __host__ __device__ T &operator[](size_t i) { return held[i]; }
    constexpr __host__ __device__ const T &operator[](size_t i) const { return held[i]; }
    constexpr __host__ __device__ size_t size() const { return n; }
    constexpr __host__ __device__ T *data() { return held; }
    constexpr __host__ __device__ const T *data() const { return held; }
    constexpr __host__ __device__ T *begin() { return held; }
    constexpr __host__ __device__ T *end() { return held + n; }
};
template <class A, class B> struct pair { A first; B second; };
template <class T> struct numeric_limits { static constexpr bool is_specialized = false; };
#define TW_LIMITS(type, least, most, lowest_, whole) template <> struct numeric_limits<type> { \
    static constexpr bool is_specialized = true, is_integer = whole, is_signed = (type)-1 < (type)0; \
    static constexpr __host__ __device__ type min() { return least; } \
    static constexpr __host__ __device__ type max() { return most; } \
    static constexpr __host__ __device__ type lowest() { return lowest_; } TW_LIMITS_MORE(type)
#define TW_LIMITS_MORE(type) };
TW_LIMITS(char, CHAR_MIN, CHAR_MAX, CHAR_MIN, true) TW_LIMITS(signed char, SCHAR_MIN, SCHAR_MAX, SCHAR_MIN, true)
TW_LIMITS(unsigned char, 0, UCHAR_MAX, 0, true) TW_LIMITS(short, SHRT_MIN, SHRT_MAX, SHRT_MIN, true)
TW_LIMITS(unsigned short, 0, USHRT_MAX, 0, true) TW_LIMITS(int, INT_MIN, INT_MAX, INT_MIN, true)
TW_LIMITS(unsigned, 0, UINT_MAX, 0, true) TW_LIMITS(long, LONG_MIN, LONG_MAX, LONG_MIN, true)
TW_LIMITS(unsigned long, 0, ULONG_MAX, 0, true) TW_LIMITS(long long, LLONG_MIN, LLONG_MAX, LLONG_MIN, true)
TW_LIMITS(unsigned long long, 0, ULLONG_MAX, 0, true)
#undef TW_LIMITS_MORE
#define TW_LIMITS_MORE(type) static constexpr __host__ __device__ type infinity() { \
        return (type)__builtin_huge_val(); } \
    static constexpr __host__ __device__ type quiet_NaN() { return (type)__builtin_nan(""); } \
    static constexpr __host__ __device__ type epsilon() { \
        return sizeof(type) == 4 ? (type)__FLT_EPSILON__ : (type)__DBL_EPSILON__; } };
TW_LIMITS(float, __FLT_MIN__, __FLT_MAX__, -__FLT_MAX__, false)
TW_LIMITS(double, __DBL_MIN__, __DBL_MAX__, -__DBL_MAX__, false)
}
