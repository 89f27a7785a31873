// The f32 and f64 cases of run_floats; included in its switch.

case OP_add_f32: F2(x + y) case OP_sub_f32: F2(x - y) case OP_mul_f32: F2(x * y)
case OP_fma_f32: F3(fmaf(x, y, z))
case OP_div_f32: F2(x / y) case OP_min_f32: F2(fmin32(x, y)) case OP_max_f32: F2(fmax32(x, y))
case OP_abs_f32: F1(fabsf(x)) case OP_neg_f32: F1(-x) case OP_sqrt_f32: F1(sqrtf(x))
case OP_rcp_f32: F1(1.f / x)
case OP_rsqrt_f32: F1((f32)(1.0 / sqrt((f64)x))) case OP_ex2_f32: F1((f32)exp2((f64)x))
case OP_lg2_f32: F1((f32)log2((f64)x))
case OP_sin_f32: F1((f32)sin((f64)x)) case OP_cos_f32: F1((f32)cos((f64)x))
case OP_tanh_f32: F1((f32)tanh((f64)x))
case OP_copysign_f32: { AB32; D32; LANES(d[l] = (a[l] & 0x80000000u)
    | (b[l] & 0x7fffffffu)); break; }
case OP_add_rz_f32: F2(sum_f32(x, y, in->sub))
case OP_mul_rz_f32: F2(f64_to_f32((f64)x * (f64)y, in->sub))
case OP_add_f64: G2(x + y) case OP_sub_f64: G2(x - y) case OP_mul_f64: G2(x * y)
case OP_fma_f64: G3(fma(x, y, z)) case OP_div_f64: G2(x / y)
case OP_directed: round_directed(L, W, in, mask); break;
case OP_minnan_f32: F2(x != x || y != y ? as_f32(0x7fffffffu) : fmin32(x, y))
case OP_maxnan_f32: F2(x != x || y != y ? as_f32(0x7fffffffu) : fmax32(x, y))
case OP_min_f64: G2(min64(x, y)) case OP_max_f64: G2(max64(x, y)) case OP_abs_f64: G1(fabs(x))
case OP_neg_f64: G1(-x) case OP_sqrt_f64: G1(sqrt(x)) case OP_rcp_f64: G1(1.0 / x)
case OP_rsqrt_f64: G1(1.0 / sqrt(x))
case OP_copysign_f64: { AB64; D64; LANES(d[l] = (a[l] & 0x8000000000000000ull)
    | (b[l] & 0x7fffffffffffffffull)); break; }
case OP_testp: { A32; D32; LANES(f32 x = as_f32(a[l]); int k = in->sub;
    d[l] = (u32)(k == 0 ? x - x == 0 : k == 1 ? x == x && x - x != 0 : k == 2 ? x == x
    : k == 3 ? x != x : k == 4 ? (a[l] & 0x7f800000u) && x - x == 0 : !(a[l] & 0x7f800000u)
    && (a[l] & 0x7fffffu))); break; }
case OP_math_f32: { const u32 *a = REG(in->a), *b = REG(in->b), *c = REG(in->c); D32;
    const int ftz = in->flags & FTZ;
    EACH(d[l] = of_f32(flushf((f32)math_function(in->sub, (f64)flushf(as_f32(a[l]), ftz),
        (f64)flushf(as_f32(b[l]), ftz), (f64)flushf(as_f32(c[l]), ftz)), ftz))) break; }
case OP_math_f64: { ABC64; D64; EACH(d[l] = of_f64(math_function(in->sub, as_f64(a[l]),
    as_f64(b[l]), as_f64(c[l])))) break; }
