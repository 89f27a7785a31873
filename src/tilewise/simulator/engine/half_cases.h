// The f16 and bf16 cases of run_halves; included in its switch.

#define NAN_OR(expr) (x != x || y != y ? (f64)NAN : (expr))
case OP_minnan_f16: HALF2(half_to_f32, to_half, NAN_OR(min64(x, y)))
case OP_maxnan_f16: HALF2(half_to_f32, to_half, NAN_OR(max64(x, y)))
case OP_minnan_bf16: HALF2(bf16_to_f32, to_bf16, NAN_OR(min64(x, y)))
case OP_maxnan_bf16: HALF2(bf16_to_f32, to_bf16, NAN_OR(max64(x, y)))
case OP_add_f16: HALF2(half_to_f32, to_half, x + y)
case OP_sub_f16: HALF2(half_to_f32, to_half, x - y)
case OP_mul_f16: HALF2(half_to_f32, to_half, x * y)
case OP_min_f16: HALF2(half_to_f32, to_half, min64(x, y))
case OP_max_f16: HALF2(half_to_f32, to_half, max64(x, y))
case OP_neg_16f: { A32; D32; LANES(d[l] = a[l] ^ 0x8000); break; }
case OP_neg_16fx2: { A32; D32; LANES(d[l] = a[l] ^ 0x80008000u); break; }
case OP_abs_16f: { A32; D32; LANES(d[l] = a[l] & 0x7fff); break; }
case OP_abs_16fx2: { A32; D32; LANES(d[l] = a[l] & 0x7fff7fffu); break; }
case OP_fma_f16: { ABC32; D32; LANES(d[l] = f64_to_half(fma((f64)half_to_f32((u16)a[l]),
    (f64)half_to_f32((u16)b[l]), (f64)half_to_f32((u16)c[l])))); break; }
#define PAIR2(get, set, expr) { AB32; D32; LANES(u32 r = 0; \
    for (int k = 0; k < 2; k++) { f64 x = get((u16)(a[l] >> 16 * k)); f64 y = get((u16)(b[l] >> 16 * k)); \
    r |= (u32)set(expr) << 16 * k; } d[l] = r); break; }
#define PAIR3(get, set, expr) { ABC32; D32; LANES(u32 r = 0; \
    for (int k = 0; k < 2; k++) { f64 x = get((u16)(a[l] >> 16 * k)); f64 y = get((u16)(b[l] >> 16 * k)); \
    f64 z = get((u16)(c[l] >> 16 * k)); r |= (u32)set(expr) << 16 * k; } d[l] = r); break; }
case OP_add_f16x2: PAIR2(half_to_f32, to_half, x + y)
case OP_sub_f16x2: PAIR2(half_to_f32, to_half, x - y)
case OP_mul_f16x2: PAIR2(half_to_f32, to_half, x * y)
case OP_min_f16x2: PAIR2(half_to_f32, to_half, min64(x, y))
case OP_max_f16x2: PAIR2(half_to_f32, to_half, max64(x, y))
case OP_fma_f16x2: PAIR3(half_to_f32, to_half, fma(x, y, z))
case OP_add_bf16: HALF2(bf16_to_f32, to_bf16, x + y)
case OP_sub_bf16: HALF2(bf16_to_f32, to_bf16, x - y)
case OP_mul_bf16: HALF2(bf16_to_f32, to_bf16, x * y)
case OP_min_bf16: HALF2(bf16_to_f32, to_bf16, min64(x, y))
case OP_max_bf16: HALF2(bf16_to_f32, to_bf16, max64(x, y))
case OP_fma_bf16: { ABC32; D32; LANES(d[l] = to_bf16(odd_sum((f64)bf16_to_f32((u16)a[l])
    * (f64)bf16_to_f32((u16)b[l]), (f64)bf16_to_f32((u16)c[l])))); break; }
case OP_minnan_f16x2: PAIR2(half_to_f32, to_half, NAN_OR(min64(x, y)))
case OP_maxnan_f16x2: PAIR2(half_to_f32, to_half, NAN_OR(max64(x, y)))
case OP_minnan_bf16x2: PAIR2(bf16_to_f32, to_bf16, NAN_OR(min64(x, y)))
case OP_maxnan_bf16x2: PAIR2(bf16_to_f32, to_bf16, NAN_OR(max64(x, y)))
case OP_add_bf16x2: PAIR2(bf16_to_f32, to_bf16, x + y)
case OP_sub_bf16x2: PAIR2(bf16_to_f32, to_bf16, x - y)
case OP_mul_bf16x2: PAIR2(bf16_to_f32, to_bf16, x * y)
case OP_min_bf16x2: PAIR2(bf16_to_f32, to_bf16, min64(x, y))
case OP_max_bf16x2: PAIR2(bf16_to_f32, to_bf16, max64(x, y))
case OP_fma_bf16x2: PAIR3(bf16_to_f32, to_bf16, odd_sum(x * y, z))
