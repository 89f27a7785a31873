// Arithmetic rounded toward zero, down or up, as the processor's own instructions round it: in->e says which
// operation, in->sub how. The operands go through volatile, so that no compiler moves the operation out of
// the mode.
#include <fenv.h>

enum { D_add = 1, D_sub, D_mul, D_div, D_fma, D_sqrt, D_rcp };  // the order of _DIRECTED in arithmetic.py

#define DIRECTED(T, fma_of, sqrt_of)                                                     \
    volatile T a = x, b = y, c = z, r = 0;                                               \
    switch (which) {                                                                     \
    case D_add: r = a + b; break; case D_sub: r = a - b; break;                          \
    case D_mul: r = a * b; break; case D_div: r = a / b; break;                          \
    case D_fma: r = fma_of(a, b, c); break; case D_sqrt: r = sqrt_of(a); break;          \
    case D_rcp: r = (T)1 / a; break; }                                                   \
    return r;
static f32 directed_f32(int which, f32 x, f32 y, f32 z) { DIRECTED(f32, fmaf, sqrtf) }
static f64 directed_f64(int which, f64 x, f64 y, f64 z) { DIRECTED(f64, fma, sqrt) }

static void round_directed(const Launch *L, const Warp *W, const Ins *in, u32 mask) {
    const int ftz = in->flags & FTZ, saturate = in->flags & SATURATE;
    fesetround(in->sub == R_rz ? FE_TOWARDZERO : in->sub == R_rm ? FE_DOWNWARD : FE_UPWARD);
    if (in->type == T_f32) {
        const u32 *a = REG(in->a), *b = REG(in->b), *c = REG(in->c); u32 *d = REG(in->d[0]);
        EACH({ f32 r = directed_f32(in->e, flushf(as_f32(a[l]), ftz), flushf(as_f32(b[l]), ftz),
            flushf(as_f32(c[l]), ftz));
               d[l] = of_f32(sat(flushf(r, ftz), saturate)); })
    } else {
        const u64 *a = REG64(in->a), *b = REG64(in->b), *c = REG64(in->c); u64 *d = REG64(in->d[0]);
        EACH(d[l] = of_f64(directed_f64(in->e, as_f64(a[l]), as_f64(b[l]), as_f64(c[l]))))
    }
    fesetround(FE_TONEAREST);
}
