// Functions that few kernels use: votes and shuffles from before Volta, which took whichever lanes were
// there; conversions and roots with a rounding of their own; special functions; bytes and halves side by side.
#pragma once

#define TW_BEFORE_VOLTA(name) template <class T, class B> TW_FN T name(T v, B by, int width = 32) { \
    return name##_sync(__activemask(), v, (int)by, width); }
TW_BEFORE_VOLTA(__shfl) TW_BEFORE_VOLTA(__shfl_up) TW_BEFORE_VOLTA(__shfl_down) TW_BEFORE_VOLTA(__shfl_xor)
TW_FN int __any(int p) { return __any_sync(__activemask(), p); }
TW_FN int __all(int p) { return __all_sync(__activemask(), p); }
TW_FN unsigned __ballot(int p) { return __ballot_sync(__activemask(), p); }

#define TW_ROOT64(end, mode) \
    TW_FN double __drcp_##end(double x) { double r; asm("rcp." mode ".f64 %0, %1;" : "=d"(r) : "d"(x)); return r; } \
    TW_FN double __dsqrt_##end(double x) { double r; asm("sqrt." mode ".f64 %0, %1;" : "=d"(r) : "d"(x)); return r; }
TW_ROOT64(rn, "rn") TW_ROOT64(rz, "rz") TW_ROOT64(rd, "rm") TW_ROOT64(ru, "rp")
TW_FN float __frsqrt_rn(float x) { return (float)rsqrt((double)x); }

// A narrower type rounded in a direction: to nearest first, then one step where that went the other way.
TW_FN float tw_next(float x, bool up) {
    int bits = __float_as_int(x);
    if (x == 0) return __int_as_float(up ? 1 : (int)0x80000001);
    return __int_as_float(bits + ((x > 0) == up ? 1 : -1)); }
TW_FN float tw_toward(double x, bool up) {
    float r = (float)x;
    return x != x || r == x || (r > x) == up ? r : tw_next(r, up); }
TW_FN float __double2float_rd(double x) { return tw_toward(x, false); }
TW_FN float __double2float_ru(double x) { return tw_toward(x, true); }
TW_FN float __double2float_rz(double x) { return tw_toward(x, x < 0); }
#define TW_WHOLE_TO_FLOAT(from, type) \
    TW_FN float __##from##2float_rd(type x) { return tw_toward((double)x, false); } \
    TW_FN float __##from##2float_ru(type x) { return tw_toward((double)x, true); } \
    TW_FN float __##from##2float_rz(type x) { return tw_toward((double)x, x < 0); }
TW_WHOLE_TO_FLOAT(int, int) TW_WHOLE_TO_FLOAT(uint, unsigned)

TW_FN int __isnan(double x) { return x != x; }
TW_FN int __isnanf(float x) { return x != x; }
TW_FN int __isinf(double x) { return __builtin_isinf(x); }
TW_FN int __isinff(float x) { return __builtin_isinf(x); }
TW_FN int __finite(double x) { return __builtin_isfinite(x); }
TW_FN int __finitef(float x) { return __builtin_isfinite(x); }
TW_FN int __signbit(double x) { return __builtin_signbit(x); }
TW_FN int __signbitf(float x) { return __builtin_signbit(x); }
TW_FN bool isnormal(float x) { return __builtin_isnormal(x); }
TW_FN bool isnormal(double x) { return __builtin_isnormal(x); }
TW_FN double nan(const char *) { return __builtin_nan(""); }

TW_FN double norm3d(double x, double y, double z) { return sqrt(x * x + y * y + z * z); }
TW_FN double norm4d(double x, double y, double z, double w) { return sqrt(x * x + y * y + z * z + w * w); }
TW_FN double rnorm3d(double x, double y, double z) { return 1.0 / norm3d(x, y, z); }
TW_FN double rnorm4d(double x, double y, double z, double w) { return 1.0 / norm4d(x, y, z, w); }
TW_FN float rnorm4df(float x, float y, float z, float w) { return (float)rnorm4d(x, y, z, w); }
TW_FN double rhypot(double x, double y) { return 1.0 / hypot(x, y); }
TW_FN double norm(int n, const double *p) { double s = 0; for (int i = 0; i < n; i++) s += p[i] * p[i]; return sqrt(s); }
TW_FN float normf(int n, const float *p) {
    double s = 0; for (int i = 0; i < n; i++) s += (double)p[i] * p[i]; return (float)sqrt(s); }
TW_FN double rcbrt(double x) { return 1.0 / cbrt(x); }
TW_FN double asinh(double x) { double a = fabs(x); return copysign(log1p(a + a * a / (1.0 + sqrt(a * a + 1.0))), x); }
TW_FN double acosh(double x) { double t = x - 1.0; return log1p(t + sqrt(2.0 * t + t * t)); }
TW_FN double atanh(double x) { return 0.5 * log1p(2.0 * x / (1.0 - x)); }
TW_OVERLOAD(asinh) TW_OVERLOAD(acosh) TW_OVERLOAD(atanh)
TW_FN double logb(double x) { int n; frexp(x, &n); return x == 0 ? -__builtin_huge_val() : (double)(n - 1); }
TW_FN double scalbln(double x, long n) { return ldexp(x, (int)n); }
TW_FN float scalblnf(float x, long n) { return ldexpf(x, (int)n); }
TW_FN double remainder(double x, double y) { double r = fmod(x, y), h = fabs(y) / 2;
    double q = fmod(fabs(trunc(x / y)), 2.0);
    if (fabs(r) > h || (fabs(r) == h && q == 1.0)) r -= copysign(fabs(y), r);
    return r; }
TW_FN double remquo(double x, double y, int *quotient) { double r = remainder(x, y);
    *quotient = (int)fmod(rint((x - r) / y), 8.0); return r; }
TW_FN float remquof(float x, float y, int *quotient) { return (float)remquo((double)x, (double)y, quotient); }
TW_FN double nextafter(double x, double y) {
    if (x != x || y != y) return x + y;
    if (x == y) return y;
    long long bits = __builtin_bit_cast(long long, x);
    if (x == 0) return copysign(__builtin_bit_cast(double, 1LL), y);
    return __builtin_bit_cast(double, bits + ((x > 0) == (y > x) ? 1 : -1)); }
TW_FN float nextafter(float x, float y) { return nextafterf(x, y); }
TW_FN long long llrint(double x) { return (long long)rint(x); }
TW_FN long long llround(double x) { return (long long)round(x); }

// Inverses by Newton's method from the error function itself, from Winitzki's elementary first guess.
TW_FN double erfinv(double y) {
    if (y <= -1 || y >= 1) return y == 1 ? __builtin_huge_val() : y == -1 ? -__builtin_huge_val() : __builtin_nan("");
    double l = log1p(-y * y), t = 4.330746750799873 + l / 2, x = copysign(sqrt(sqrt(t * t - l / 0.147) - t), y);
    for (int i = 0; i < 4; i++) {
        double off = (y > 0.5 ? (1 - y) - erfc(x) : y < -0.5 ? erfc(-x) - (1 + y) : y - erf(x));
        double step = off * 0.8862269254527580 * exp(x * x);
        x += step / (1 - x * step); }
    return x; }
TW_FN double erfcinv(double y) { if (y > 0.5) return erfinv(1 - y);
    if (y <= 0) return y == 0 ? __builtin_huge_val() : __builtin_nan("");
    double x = sqrt(-log(y * sqrt(-log(y)) * 1.7724538509055160));
    for (int i = 0; i < 6; i++) { double step = (erfc(x) - y) * 0.8862269254527580 * exp(x * x); x += step / (1 + x * step); }
    return x; }
TW_FN float erfinvf(float y) { return (float)erfinv((double)y); }
TW_FN float erfcinvf(float y) { return (float)erfcinv((double)y); }
TW_FN double normcdfinv(double y) { return -1.4142135623730951 * erfcinv(2 * y); }
TW_FN float normcdfinvf(float y) { return (float)normcdfinv((double)y); }
TW_FN double erfcx(double x) {
    if (x < 25) return exp(x * x) * erfc(x);
    double h = 1 / (x * x);
    return 0.5641895835477563 / x * (1 - h / 2 * (1 - 1.5 * h)); }
TW_FN float erfcxf(float x) { return (float)erfcx((double)x); }

TW_FN int __dp4a(char4 x, char4 y, int z) { return z + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w; }
TW_FN unsigned __dp4a(uchar4 x, uchar4 y, unsigned z) { return z + x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w; }
TW_FN int __dp2a_lo(int x, int y, int z) { return z + (short)x * (signed char)y + (x >> 16) * (signed char)(y >> 8); }
TW_FN int __dp2a_hi(int x, int y, int z) { return __dp2a_lo(x, y >> 16, z); }
TW_FN unsigned __dp2a_lo(unsigned x, unsigned y, unsigned z) {
    return z + (x & 0xffff) * (y & 0xff) + (x >> 16) * (y >> 8 & 0xff); }
TW_FN unsigned __dp2a_hi(unsigned x, unsigned y, unsigned z) { return __dp2a_lo(x, y >> 16, z); }
TW_FN unsigned __urhadd(unsigned x, unsigned y) { return (unsigned)(((unsigned long long)x + y + 1) >> 1); }
TW_FN int __viaddmax_s32(int x, int y, int z) { return max(x + y, z); }
TW_FN int __viaddmin_s32(int x, int y, int z) { return min(x + y, z); }
TW_FN int __vimax3_s32(int x, int y, int z) { return max(max(x, y), z); }
TW_FN int __vimin3_s32(int x, int y, int z) { return min(min(x, y), z); }
TW_FN int __vimax_s32_relu(int x, int y) { return max(max(x, y), 0); }
TW_FN int __vimin_s32_relu(int x, int y) { return max(min(x, y), 0); }
TW_EACH(__vcmpleu4, 4, unsigned char, x <= y ? -1 : 0) TW_EACH(__vsetgtu4, 4, unsigned char, x > y)
TW_EACH(__vhaddu4, 4, unsigned char, (x + y) >> 1) TW_EACH(__vavgu2, 2, unsigned short, (x + y + 1) >> 1)
TW_FN unsigned __vabsdiff4(unsigned a, unsigned b) { return __vabsdiffu4(a, b); }

#define TW_IS_SPACE(name, space) TW_FN unsigned name(const void *p) { unsigned r; \
    asm("{ .reg .pred v; isspacep." space " v, %1; selp.b32 %0, 1, 0, v; }" : "=r"(r) : "l"(p)); return r; }
TW_IS_SPACE(__isGlobal, "global") TW_IS_SPACE(__isShared, "shared") TW_IS_SPACE(__isLocal, "local")
TW_FN size_t __cvta_generic_to_global(const void *p) { return (size_t)p; }
TW_FN int memcmp(const void *a, const void *b, size_t n) {
    const unsigned char *x = (const unsigned char *)a, *y = (const unsigned char *)b;
    for (size_t i = 0; i < n; i++) if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
    return 0; }
TW_FN void __prof_trigger(int) {}
#define TW_OF_LONG(name) TW_FN double name(long x) { return name((double)x); } \
    TW_FN double name(long long x) { return name((double)x); } \
    TW_FN double name(unsigned long x) { return name((double)x); } \
    TW_FN double name(unsigned long long x) { return name((double)x); }
TW_OF_LONG(sqrt) TW_OF_LONG(log) TW_OF_LONG(log2) TW_OF_LONG(exp) TW_OF_LONG(floor) TW_OF_LONG(ceil) TW_OF_LONG(fabs)
