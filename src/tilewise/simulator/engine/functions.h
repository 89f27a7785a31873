// Conversions, comparisons, math functions, and the macros that apply an expression to all lanes.

// `how`: rounding of a conversion, R_rn, R_rz, R_rm, R_rp for floats and with a trailing i for integers.
static f64 rounded(f64 v, int how) {
    switch (how) { case R_rzi: return trunc(v); case R_rmi: return floor(v); case R_rpi: return ceil(v);
        case R_rni: return nearbyint(v); }
    return v;
}
static int is_signed(int t) { return t == T_s8 || t == T_s16 || t == T_s32 || t == T_s64; }
static int is_float(int t) { return t == T_f16 || t == T_bf16 || t == T_f32 || t == T_f64; }
static int width(int t) {
    switch (t) { case T_u8: case T_s8: return 8; case T_u16: case T_s16: case T_f16: case T_bf16: return 16;
        case T_u64: case T_s64: case T_f64: return 64; }
    return 32;
}
static f32 f64_to_f32(f64 v, int how) {
    f32 r = (f32)v;
    if (how == R_rn || how == R_none || v != v || isinf(v) || (f64)r == v) return r;
    if (how == R_rz) return fabs((f64)r) > fabs(v) ? nextafterf(r, 0.f) : r;
    if (how == R_rm) return (f64)r > v ? nextafterf(r, -INFINITY) : r;
    if (how == R_rp) return (f64)r < v ? nextafterf(r, INFINITY) : r;
    return r;
}
// Represents the exact sum `v + rest`, |rest| at most half an ulp of v, as a double rounded to odd: if
// inexact, its last bit is 1. One more rounding, to at most 50 bits, then gives the correctly rounded result.
static f64 odd(f64 v, f64 rest) {
    if (rest == 0 || rest != rest || v != v || isinf(v) || (of_f64(v) & 1)) return v;
    return nextafter(v, rest > 0 ? INFINITY : -INFINITY);
}
static f64 odd_sum(f64 x, f64 y) {
    f64 s = x + y, part = s - x;
    return odd(s, (x - (s - part)) + (y - part));
}
static f64 odd_integer(u64 raw, int negative) {  // `raw`: the magnitude
    f64 v = (f64)raw, rest = v >= 0x1p64 ? -(f64)(0 - raw) : raw >= (u64)v ? (f64)(raw - (u64)v)
        : -(f64)((u64)v - raw);
    v = odd(v, rest);
    return negative ? -v : v;
}
static f32 sum_f32(f32 x, f32 y, int how) {
    // cancellation rounded down gives -0
    if (how == R_rm && x == -y && of_f32(x) != of_f32(y) && !isinf(x)) return -0.f;
    return f64_to_f32(odd_sum((f64)x, (f64)y), how);
}
static f64 min64(f64 x, f64 y) { return x != x ? y : y != y ? x : x < y ? x : y < x ? y
    : of_f64(x) >> 63 ? x : y; }
static f64 max64(f64 x, f64 y) { return x != x ? y : y != y ? x : x > y ? x : y > x ? y
    : of_f64(x) >> 63 ? y : x; }
static u16 to_half(f64 v) { return f64_to_half(v); }
static u16 to_bf16(f64 v) {  // rounds once
    u64 b = of_f64(v), e = b >> 52 & 2047;
    if (e < 897) return f32_to_bf16((f32)round_to(v, 7, -126));
    if (e < 2047) v = as_f64((b + ((1ull << 44) - 1) + (b >> 45 & 1)) & ~((1ull << 45) - 1));
    return f32_to_bf16((f32)v);
}

static u64 convert(const Ins *in, u64 raw) {
    int from = in->type2, to = in->type, how = in->sub, ftz = in->flags & FTZ, clip = in->flags & SATURATE;
    if (is_float(from)) {
        f64 v = from == T_f32 ? (f64)flushf(as_f32((u32)raw), ftz) : from == T_f64 ? as_f64(raw)
            : from == T_f16 ? (f64)half_to_f32((u16)raw) : (f64)bf16_to_f32((u16)raw);
        v = rounded(v, how);
        if (is_float(to)) {
            if (clip) v = v != v ? 0 : v < 0 ? 0 : v > 1 ? 1 : v;
            if (to == T_f64) return of_f64(v);
            if (to == T_f32) return of_f32(flushf(f64_to_f32(v, how), ftz));
            if (to == T_f16) return f64_to_half(v);
            return to_bf16(v);
        }
        int bits = width(to);
        if (v != v) {  // NaN: 0, or only the top bit if either side has 64 bits
            u64 top = 1ull << (bits - 1);
            return bits < 64 && from != T_f64 ? 0 : is_signed(to) ? 0 - top : top;
        }
        if (is_signed(to)) {
            f64 most = ldexp(1.0, bits - 1);
            s64 r = v >= most ? (bits == 64 ? INT64_MAX : (1ll << (bits - 1)) - 1)
                : v < -most ? (bits == 64 ? INT64_MIN : -(1ll << (bits - 1))) : (s64)v;
            return bits == 64 ? (u64)r : (u64)r & ((1ull << (bits < 32 ? 32 : bits)) - 1);
        }
        f64 most = ldexp(1.0, bits);
        return v >= most ? (bits == 64 ? ~0ull : (1ull << bits) - 1) : v < 0 ? 0 : (u64)v;
    }
    int bits = width(from);
    s64 v = is_signed(from) ? (bits == 64 ? (s64)raw : (s64)(raw << (64 - bits)) >> (64 - bits))
        : (s64)(bits == 64 ? raw : raw & ((1ull << bits) - 1));
    if (!is_float(to)) {
        int tb = width(to);
        if (clip && tb < 64) {
            s64 high = is_signed(to) ? (1ll << (tb - 1)) - 1 : (s64)((1ull << tb) - 1),
                low = is_signed(to) ? -(1ll << (tb - 1)) : 0;
            v = v > high ? high : v < low ? low : v;
        }
        if (tb == 64) return (u64)v;
        return is_signed(to) ? (u64)(u32)(s32)((s64)((u64)v << (64 - tb)) >> (64 - tb))
            : (u64)v & ((1ull << tb) - 1);
    }
    const int negative = from != T_u64 && v < 0;
    f64 exact = bits < 64 ? (f64)v : odd_integer(negative ? 0 - (u64)v : (u64)v, negative);
    if (to == T_f64) {
        f64 r = from == T_u64 ? (f64)(u64)v : (f64)v;
        if (how == R_rz ? fabs(r) > fabs(exact) : how == R_rm ? r > exact : how == R_rp && r < exact) r =
            nextafter(r, how == R_rz ? 0 : how == R_rm ? -INFINITY : INFINITY);
        return of_f64(r);
    }
    if (to == T_f32) return of_f32(f64_to_f32(exact, how));
    return to == T_f16 ? f64_to_half(exact) : to_bf16(exact);
}

static f64 math_function(int id, f64 x, f64 y, f64 z) {
    switch ((enum math)id) {
    case M_exp: return exp(x); case M_exp2: return exp2(x); case M_exp10: return pow(10.0, x);
    case M_expm1: return expm1(x);
    case M_log: return log(x); case M_log2: return log2(x); case M_log10: return log10(x);
    case M_log1p: return log1p(x);
    case M_sin: return sin(x); case M_cos: return cos(x); case M_tan: return tan(x);
    case M_asin: return asin(x); case M_acos: return acos(x); case M_atan: return atan(x);
    case M_atan2: return atan2(x, y);
    case M_sinh: return sinh(x); case M_cosh: return cosh(x); case M_tanh: return tanh(x);
    case M_erf: return erf(x); case M_erfc: return erfc(x); case M_pow: return pow(x, y);
    case M_fmod: return fmod(x, y);
    case M_hypot: return hypot(x, y); case M_cbrt: return cbrt(x); case M_sqrt: return sqrt(x);
    case M_rsqrt: return 1.0 / sqrt(x);
    case M_floor: return floor(x); case M_ceil: return ceil(x); case M_trunc: return trunc(x);
    case M_rint: return nearbyint(x); case M_round: return round(x);
    case M_fma: return fma(x, y, z); case M_fmin: return fmin(x, y); case M_fmax: return fmax(x, y);
    case M_fabs: return fabs(x);
    case M_copysign: return copysign(x, y); case M_sigmoid: return 1.0 / (1.0 + exp(-x));
    case M_lgamma: return lgamma(x); case M_tgamma: return tgamma(x);
    }
    return x;
}

// Mask of outcomes a comparison accepts: less, equal, greater, unordered (1, 2, 4, 8).
static int accepted(int comparison) {
    switch ((enum compare)comparison) {
    case C_eq: return 2; case C_ne: return 5; case C_lt: case C_lo: return 1; case C_le: case C_ls: return 3;
    case C_gt: case C_hi: return 4; case C_ge: case C_hs: return 6; case C_equ: return 10;
    case C_neu: return 13;
    case C_ltu: return 9; case C_leu: return 11; case C_gtu: return 12; case C_geu: return 14;
    case C_num: return 7; case C_nan: return 8;
    }
    return 0;
}
// in->e: combine the result with a predicate (1 and, 2 or, 3 xor; 0 none), which OTHER_NEGATED inverts.
#define COMPARE(T, GET) do { \
    const u32 want = (u32)accepted(in->sub), how = (u32)in->e, inverted = in->flags & OTHER_NEGATED ? 1 : 0; \
    u32 unused[32]; \
    const u32 *c = how ? REG(in->c) : 0; u32 *e = in->d[1] != NO_SLOT ? REG(in->d[1]) : unused; \
    if (!how) LANES(T x = GET(a, l); T y = GET(b, l); const u32 r = \
        (want & (x < y ? 1u : x > y ? 4u : x == y ? 2u : 8u)) != 0; d[l] = r; e[l] = r ^ 1); \
    else LANES(T x = GET(a, l); T y = GET(b, l); const u32 p = (c[l] & 1) ^ inverted; \
        const u32 r = (want & (x < y ? 1u : x > y ? 4u : x == y ? 2u : 8u)) != 0; const u32 q = r ^ 1; \
        d[l] = how == 1 ? r & p : how == 2 ? r | p : r ^ p; e[l] = how == 1 ? q & p : how == 2 ? q | p \
            : q ^ p); } while (0)
#define GET_S32(p, l) ((s32)(p)[l])
#define GET_U32(p, l) ((p)[l])
#define GET_S16(p, l) ((s16)(p)[l])
#define GET_U16(p, l) ((u16)(p)[l])
#define GET_S64(p, l) (((s64 *)(p))[l])
#define GET_U64(p, l) (((u64 *)(p))[l])
#define GET_F32(p, l) flushf(as_f32((p)[l]), in->flags & FTZ)
#define GET_F64(p, l) as_f64(((u64 *)(p))[l])
#define GET_F16(p, l) half_to_f32((u16)(p)[l])
#define GET_BF16(p, l) bf16_to_f32((u16)(p)[l])

#define A32 const u32 *a = REG(in->a)
#define AB32 A32; const u32 *b = REG(in->b)
#define ABC32 AB32; const u32 *c = REG(in->c)
#define A64 const u64 *a = REG64(in->a)
#define AB64 A64; const u64 *b = REG64(in->b)
#define ABC64 AB64; const u64 *c = REG64(in->c)
#define D32 u32 *d = REG(in->d[0])
#define D64 u64 *d = REG64(in->d[0])
#define F1(...) { A32; D32; const int ftz = in->flags & FTZ, st = in->flags & SATURATE; \
    if (ftz && !st) LANES(f32 x = as_f32(flush(a[l])); d[l] = flush(of_f32(__VA_ARGS__))); \
    else LANES(f32 x = flushf(as_f32(a[l]), ftz); d[l] = of_f32(sat(flushf(__VA_ARGS__, ftz), st))); break; }
#define F2(...) { AB32; D32; const int ftz = in->flags & FTZ, st = in->flags & SATURATE; \
    if (ftz && !st) LANES(f32 x = as_f32(flush(a[l])); f32 y = as_f32(flush(b[l])); \
    d[l] = flush(of_f32(__VA_ARGS__))); \
    else LANES(f32 x = flushf(as_f32(a[l]), ftz); f32 y = flushf(as_f32(b[l]), ftz); \
        d[l] = of_f32(sat(flushf(__VA_ARGS__, ftz), st))); break; }
#define F3(...) { ABC32; D32; const int ftz = in->flags & FTZ, st = in->flags & SATURATE; \
    if (ftz && !st) LANES(f32 x = as_f32(flush(a[l])); f32 y = as_f32(flush(b[l])); \
    f32 z = as_f32(flush(c[l])); d[l] = flush(of_f32(__VA_ARGS__))); \
    else LANES(f32 x = flushf(as_f32(a[l]), ftz); f32 y = flushf(as_f32(b[l]), ftz); \
        f32 z = flushf(as_f32(c[l]), ftz); d[l] = of_f32(sat(flushf(__VA_ARGS__, ftz), st))); break; }
#define G1(...) { A64; D64; LANES(f64 x = as_f64(a[l]); d[l] = of_f64(__VA_ARGS__)); break; }
#define G2(...) { AB64; D64; LANES(f64 x = as_f64(a[l]); f64 y = as_f64(b[l]); \
    d[l] = of_f64(__VA_ARGS__)); break; }
#define G3(...) { ABC64; D64; LANES(f64 x = as_f64(a[l]); f64 y = as_f64(b[l]); f64 z = as_f64(c[l]); \
    d[l] = of_f64(__VA_ARGS__)); break; }
#define I2(T, expr) { AB32; D32; LANES(T x = (T)a[l]; T y = (T)b[l]; d[l] = (u32)(expr)); break; }
#define J2(T, expr) { AB64; D64; LANES(T x = (T)a[l]; T y = (T)b[l]; d[l] = (u64)(expr)); break; }
#define HALF2(get, set, expr) { AB32; D32; LANES(f64 x = get((u16)a[l]); f64 y = get((u16)b[l]); \
    d[l] = set(expr)); break; }

static f32 fmin32(f32 x, f32 y) { return x != x ? y : y != y ? x : x < y ? x : y < x ? y
    : of_f32(x) >> 31 ? x : y; }
static f32 fmax32(f32 x, f32 y) { return x != x ? y : y != y ? x : x > y ? x : y > x ? y
    : of_f32(x) >> 31 ? y : x; }
