// Arithmetic rounded toward zero, down or up: in->e is the operation, in->sub the rounding.
enum { D_add = 1, D_sub, D_mul, D_div, D_fma, D_sqrt, D_rcp };  // the order of _DIRECTED in arithmetic.py

#ifdef __wasm__
// WebAssembly only rounds to nearest. A type W with more than twice the bits shows on which side of that
// result the exact one is: `over` and, if it is 0, `rest` have the sign of exact - nearest.
#define BESIDE(T, W, fma_of, sqrt_of, next)                                              \
    T r = 0; W over = 0, rest = 0, p, part;                                              \
    switch (which) {                                                                     \
    case D_sub: y = -y; /* fall through */                                               \
    case D_add: z = y; y = 1; /* fall through */                                         \
    case D_fma: r = which == D_fma ? fma_of(x, y, z) : x + z;                            \
        p = (W)x * y; over = p + z; part = over - p;                                     \
        rest = (p - (over - part)) + (z - part); over -= r;                              \
        if (p == -(W)z && signbit(p) != signbit(z) && !isinf(z)) return how == R_rm ? -(T)0 : (T)0; \
        break;                                                                           \
    case D_mul: r = x * y; z = 0; over = (W)x * y - r; break;                            \
    case D_rcp: y = x; x = 1; /* fall through */                                         \
    case D_div: r = x / y; z = 0; over = (W)x - (W)r * y; if (y < 0) over = -over; break; \
    case D_sqrt: r = sqrt_of(x); y = z = 0; over = (W)x - (W)r * r; break; }             \
    if (r != r || isinf(x) || isinf(y) || isinf(z) || (y == 0 && isinf(r))) return r;    \
    if (isinf(r)) over = -r;                                                             \
    const int side = over != 0 ? (over > 0 ? 1 : -1) : (rest > 0) - (rest < 0);          \
    if (r == 0 && side) r = side < 0 ? -(T)0 : (T)0;                                     \
    if (how == R_rz) return side && r != 0 && (side < 0) == (r > 0) ? next(r, 0) : r;    \
    if (how == R_rm) return side < 0 ? next(r, -INFINITY) : r;                           \
    return side > 0 ? next(r, INFINITY) : r;
static f32 directed_f32(int how, int which, f32 x, f32 y, f32 z) { BESIDE(f32, f64, fmaf, sqrtf, nextafterf) }
static f64 directed_f64(int how, int which, f64 x, f64 y, f64 z) { BESIDE(f64, long double, fma, sqrt, nextafter) }
static void set_rounding(int how) { (void)how; }
#else
// Uses the processor's rounding modes. Volatile operands keep the compiler from moving the operation out of
// the mode.
#include <fenv.h>

#define DIRECTED(T, fma_of, sqrt_of)                                                     \
    volatile T a = x, b = y, c = z, r = 0;                                               \
    switch (which) {                                                                     \
    case D_add: r = a + b; break; case D_sub: r = a - b; break;                          \
    case D_mul: r = a * b; break; case D_div: r = a / b; break;                          \
    case D_fma: r = fma_of(a, b, c); break; case D_sqrt: r = sqrt_of(a); break;          \
    case D_rcp: r = (T)1 / a; break; }                                                   \
    return r;
static f32 directed_f32(int how, int which, f32 x, f32 y, f32 z) { (void)how; DIRECTED(f32, fmaf, sqrtf) }
static f64 directed_f64(int how, int which, f64 x, f64 y, f64 z) { (void)how; DIRECTED(f64, fma, sqrt) }

static void set_rounding(int how) {
    fesetround(how == R_rz ? FE_TOWARDZERO : how == R_rm ? FE_DOWNWARD : how == R_rp ? FE_UPWARD : FE_TONEAREST);
}
#endif

static void round_directed(const Launch *L, const Warp *W, const Ins *in, u32 mask) {
    const int ftz = in->flags & FTZ, saturate = in->flags & SATURATE;
    set_rounding(in->sub);
    if (in->type == T_f32) {
        const u32 *a = REG(in->a), *b = REG(in->b), *c = REG(in->c); u32 *d = REG(in->d[0]);
        EACH({ f32 r = directed_f32(in->sub, in->e, flushf(as_f32(a[l]), ftz), flushf(as_f32(b[l]), ftz),
            flushf(as_f32(c[l]), ftz));
               d[l] = of_f32(sat(flushf(r, ftz), saturate)); })
    } else {
        const u64 *a = REG64(in->a), *b = REG64(in->b), *c = REG64(in->c); u64 *d = REG64(in->d[0]);
        EACH(d[l] = of_f64(directed_f64(in->sub, in->e, as_f64(a[l]), as_f64(b[l]), as_f64(c[l]))))
    }
    set_rounding(R_rn);
}
