// Move, integer, bit, comparison and conversion cases of run_integers; included in its switch.

case OP_mov_32: { A32; D32; LANES(d[l] = a[l]); break; }
case OP_mov_64: { A64; D64; LANES(d[l] = a[l]); break; }
case OP_special: { D32; EACH(d[l] = special(B, w, l, in->sub)) break; }
case OP_clock: { L->used_clock = 1; if (in->type == T_u64) { D64; LANES(d[l] = W->issued); }
    else { D32; LANES(d[l] = (u32)W->issued); } break; }
case OP_param_32: { D32; u64 v = fetch(L->params + in->imm, in->type2);
    if (in->flags & SIGNED) v = in->type2 == 1 ? (u64)(s64)(s8)v
    : in->type2 == 2 ? (u64)(s64)(s16)v : v; LANES(d[l] = (u32)v); break; }
case OP_param_64: { D64; u64 v = fetch(L->params + in->imm, in->type2);
    if (in->flags & SIGNED) v = in->type2 == 4 ? (u64)(s64)(s32)v : v; LANES(d[l] = v); break; }
case OP_pack_64: { AB32; D64; LANES(d[l] = (u64)a[l] | (u64)b[l] << 32); break; }
case OP_pack_32: { AB32; D32; LANES(d[l] = (a[l] & 0xffff) | b[l] << 16); break; }
case OP_unpack_64: { A64; u32 *x = in->d[0] == NO_SLOT ? 0 : REG(in->d[0]),
    *y = in->d[1] == NO_SLOT ? 0 : REG(in->d[1]); EACH({ u64 v = a[l]; if (x) x[l] = (u32)v;
    if (y) y[l] = (u32)(v >> 32); }) break; }
case OP_unpack_32: { A32; u32 *x = in->d[0] == NO_SLOT ? 0 : REG(in->d[0]),
    *y = in->d[1] == NO_SLOT ? 0 : REG(in->d[1]); EACH({ u32 v = a[l]; if (x) x[l] = v & 0xffff;
    if (y) y[l] = v >> 16; }) break; }
case OP_add_32: I2(u32, x + y) case OP_sub_32: I2(u32, x - y) case OP_mul_32: I2(u32, x * y)
case OP_add_16: I2(u32, (u16)(x + y)) case OP_sub_16: I2(u32, (u16)(x - y))
case OP_mul_16: I2(u32, (u16)(x * y))
case OP_add_64: J2(u64, x + y) case OP_sub_64: J2(u64, x - y) case OP_mul_64: J2(u64, x * y)
case OP_mad_32: { ABC32; D32; LANES(d[l] = a[l] * b[l] + c[l]); break; }
case OP_mad_16: { ABC32; D32; LANES(d[l] = (u16)(a[l] * b[l] + c[l])); break; }
case OP_mad_64: { ABC64; D64; LANES(d[l] = a[l] * b[l] + c[l]); break; }
case OP_mulwide_s32: { AB32; D64; LANES(d[l] = (u64)((s64)(s32)a[l] * (s64)(s32)b[l])); break; }
case OP_mulwide_u32: { AB32; D64; LANES(d[l] = (u64)a[l] * (u64)b[l]); break; }
case OP_mulwide_s16: { AB32; D32; LANES(d[l] = (u32)((s32)(s16)a[l] * (s32)(s16)b[l])); break; }
case OP_mulwide_u16: { AB32; D32; LANES(d[l] = (a[l] & 0xffff) * (b[l] & 0xffff)); break; }
case OP_madwide_s32: { AB32; const u64 *c = REG64(in->c); D64;
    LANES(d[l] = (u64)((s64)(s32)a[l] * (s64)(s32)b[l]) + c[l]); break; }
case OP_madwide_u32: { AB32; const u64 *c = REG64(in->c); D64;
    LANES(d[l] = (u64)a[l] * (u64)b[l] + c[l]); break; }
case OP_mulhi_s16: I2(s16, (u16)(((s32)x * (s32)y) >> 16))
case OP_mulhi_u16: I2(u16, ((u32)x * (u32)y) >> 16)
case OP_abs_16: { A32; D32; LANES(s16 x = (s16)a[l]; d[l] = (u16)(x < 0 ? -x : x)); break; }
case OP_mulhi_s32: I2(s32, ((s64)x * (s64)y) >> 32)
case OP_mulhi_u32: I2(u32, ((u64)x * (u64)y) >> 32)
case OP_mulhi_s64: J2(s64, ((__int128)x * (__int128)y) >> 64)
case OP_mulhi_u64: J2(u64, ((unsigned __int128)x * (unsigned __int128)y) >> 64)
case OP_div_s32: I2(s32, y == 0 ? -1 : y == -1 ? (s32)(0u - (u32)x) : x / y)
case OP_div_u32: I2(u32, y == 0 ? FULL : x / y)
case OP_rem_s32: I2(s32, y == 0 ? x : y == -1 ? 0 : x % y)
case OP_rem_u32: I2(u32, y == 0 ? x : x % y)
case OP_div_s64: J2(s64, y == 0 ? -1 : y == -1 ? (s64)(0ull - (u64)x) : x / y)
case OP_div_u64: J2(u64, y == 0 ? ~0ull : x / y)
case OP_rem_s64: J2(s64, y == 0 ? x : y == -1 ? 0 : x % y)
case OP_rem_u64: J2(u64, y == 0 ? x : x % y)
case OP_div_s16: I2(s16, (u16)(y == 0 ? -1 : x / y))
case OP_div_u16: I2(u16, y == 0 ? 0xffff : x / y)
case OP_rem_s16: I2(s16, (u16)(y == 0 ? x : x % y)) case OP_rem_u16: I2(u16, y == 0 ? x : x % y)
case OP_min_s32: I2(s32, x < y ? x : y) case OP_min_u32: I2(u32, x < y ? x : y)
case OP_max_s32: I2(s32, x > y ? x : y) case OP_max_u32: I2(u32, x > y ? x : y)
case OP_min_s16: I2(s16, (u16)(x < y ? x : y)) case OP_min_u16: I2(u16, x < y ? x : y)
case OP_max_s16: I2(s16, (u16)(x > y ? x : y)) case OP_max_u16: I2(u16, x > y ? x : y)
case OP_min_s64: J2(s64, x < y ? x : y) case OP_min_u64: J2(u64, x < y ? x : y)
case OP_max_s64: J2(s64, x > y ? x : y) case OP_max_u64: J2(u64, x > y ? x : y)
case OP_abs_32: { A32; D32; LANES(d[l] = (s32)a[l] < 0 ? 0u - a[l] : a[l]); break; }
case OP_abs_64: { A64; D64; LANES(d[l] = (s64)a[l] < 0 ? 0ull - a[l] : a[l]); break; }
case OP_neg_32: { A32; D32; LANES(d[l] = 0u - a[l]); break; }
case OP_neg_16: { A32; D32; LANES(d[l] = (u16)(0u - a[l])); break; }
case OP_neg_64: { A64; D64; LANES(d[l] = 0ull - a[l]); break; }
case OP_and_32: I2(u32, x & y) case OP_or_32: I2(u32, x | y) case OP_xor_32: I2(u32, x ^ y)
case OP_and_64: J2(u64, x & y) case OP_or_64: J2(u64, x | y) case OP_xor_64: J2(u64, x ^ y)
case OP_not_32: { A32; D32; LANES(d[l] = ~a[l]); break; }
case OP_not_16: { A32; D32; LANES(d[l] = (u16)~a[l]); break; }
case OP_not_1: { A32; D32; LANES(d[l] = (a[l] & 1) ^ 1); break; }
case OP_not_64: { A64; D64; LANES(d[l] = ~a[l]); break; }
case OP_shl_32: I2(u32, y > 31 ? 0 : x << y) case OP_shl_16: I2(u32, y > 15 ? 0 : (u16)(x << y))
case OP_shr_u32: I2(u32, y > 31 ? 0 : x >> y)
case OP_shr_s32: { AB32; D32; LANES(d[l] = (u32)((s32)a[l] >> (b[l] > 31 ? 31 : b[l]))); break; }
case OP_shr_u16: I2(u32, y > 15 ? 0 : (x & 0xffff) >> y)
case OP_shr_s16: { AB32; D32; LANES(d[l] = (u16)((s32)(s16)a[l] >> (b[l] > 15 ? 15
    : b[l]))); break; }
case OP_shl_64: { A64; const u32 *b = REG(in->b); D64; LANES(d[l] = b[l] > 63 ? 0
    : a[l] << b[l]); break; }
case OP_shr_u64: { A64; const u32 *b = REG(in->b); D64;
    LANES(d[l] = b[l] > 63 ? 0 : a[l] >> b[l]); break; }
case OP_shr_s64: { A64; const u32 *b = REG(in->b); D64;
    LANES(d[l] = (u64)((s64)a[l] >> (b[l] > 63 ? 63 : b[l]))); break; }
case OP_shf_l: { ABC32; D32; LANES(u32 n = in->sub ? c[l] & 31 : (c[l] > 32 ? 32 : c[l]);
    d[l] = n == 0 ? b[l] : n == 32 ? a[l] : b[l] << n | a[l] >> (32 - n)); break; }
case OP_shf_r: { ABC32; D32; LANES(u32 n = in->sub ? c[l] & 31 : (c[l] > 32 ? 32 : c[l]);
    d[l] = n == 0 ? a[l] : n == 32 ? b[l] : b[l] << (32 - n) | a[l] >> n); break; }
case OP_lop3: { ABC32; D32; const u32 t = (u32)in->imm;
    LANES(u32 r = 0; for (int k = 0; k < 8; k++) if (t >> k & 1) r |= (k & 4 ? a[l]
    : ~a[l]) & (k & 2 ? b[l] : ~b[l]) & (k & 1 ? c[l] : ~c[l]); d[l] = r); break; }
case OP_prmt: { ABC32; D32; LANES(u64 both = (u64)a[l] | (u64)b[l] << 32; u32 r = 0;
    for (int k = 0; k < 4; k++) { u32 s = c[l] >> (4 * k) & 15;
    u32 byte = (u32)(both >> (8 * (s & 7))) & 255; if (s & 8) byte = byte & 128 ? 255 : 0;
    r |= byte << (8 * k); } d[l] = r); break; }
case OP_popc_32: { A32; D32; LANES(d[l] = (u32)__builtin_popcount(a[l])); break; }
case OP_popc_64: { A64; D32; LANES(d[l] = (u32)__builtin_popcountll(a[l])); break; }
case OP_clz_32: { A32; D32; LANES(d[l] = a[l] ? (u32)__builtin_clz(a[l]) : 32); break; }
case OP_clz_64: { A64; D32; LANES(d[l] = a[l] ? (u32)__builtin_clzll(a[l]) : 64); break; }
case OP_brev_32: { A32; D32; LANES(d[l] = __builtin_bitreverse32(a[l])); break; }
case OP_brev_64: { A64; D64; LANES(d[l] = __builtin_bitreverse64(a[l])); break; }
case OP_bfind_u32: { A32; D32; LANES(d[l] = a[l] ? (u32)(31 - __builtin_clz(a[l]))
    : FULL); break; }
case OP_bfe_u32: { ABC32; D32; LANES(u32 p = b[l] & 255; u32 n = c[l] & 255;
    u32 v = p > 31 ? 0 : a[l] >> p; d[l] = n > 31 ? v : v & ((1u << n) - 1)); break; }
case OP_bfe_s32: { ABC32; D32; LANES(u32 p = b[l] & 255; u32 n = c[l] & 255; if (p > 31) p = 31;
    if (n > 32 - p) n = 32 - p; d[l] = n == 0 ? 0 : (u32)((s32)(a[l] << (32 - p - n)) >> (32
    - n))); break; }
case OP_bfi_32: { ABC32; const u32 *e = REG(in->e); D32;
    LANES(u32 p = c[l] & 255; u32 n = e[l] & 255; u32 m = n > 31 ? FULL : (1u << n) - 1;
    m = p > 31 ? 0 : m << p; d[l] = (b[l] & ~m) | (p > 31 ? 0 : a[l] << p & m)); break; }
case OP_bfe_u64: { A64; const u32 *b = REG(in->b), *c = REG(in->c); D64;
    LANES(u32 p = b[l] & 255; u32 n = c[l] & 255; u64 v = p > 63 ? 0 : a[l] >> p;
        d[l] = n > 63 ? v : v & ((1ull << n) - 1)); break; }
case OP_bfe_s64: { A64; const u32 *b = REG(in->b), *c = REG(in->c); D64;
    LANES(u32 p = b[l] & 255; u32 n = c[l] & 255; if (p > 63) p = 63; if (n > 64 - p) n = 64 - p;
        d[l] = n == 0 ? 0 : (u64)((s64)(a[l] << (64 - p - n)) >> (64 - n))); break; }
case OP_bfi_64: { AB64; const u32 *c = REG(in->c), *e = REG(in->e); D64;
    LANES(u32 p = c[l] & 255; u32 n = e[l] & 255; u64 m = n > 63 ? ~0ull : (1ull << n) - 1;
        m = p > 63 ? 0 : m << p; d[l] = (b[l] & ~m) | (p > 63 ? 0 : a[l] << p & m)); break; }
case OP_dp4a: { ABC32; D32; LANES(s32 r = (s32)c[l]; for (int k = 0; k < 4; k++) {
    s32 x = in->type == T_s32 ? (s8)(a[l] >> 8 * k) : (u8)(a[l] >> 8 * k);
    s32 y = in->type2 == T_s32 ? (s8)(b[l] >> 8 * k) : (u8)(b[l] >> 8 * k); r += x * y;
    } d[l] = (u32)r); break; }
case OP_setp_s32: { AB32; D32; COMPARE(s32, GET_S32); break; }
case OP_setp_u32: { AB32; D32; COMPARE(u32, GET_U32); break; }
case OP_setp_s16: { AB32; D32; COMPARE(s16, GET_S16); break; }
case OP_setp_u16: { AB32; D32; COMPARE(u16, GET_U16); break; }
case OP_setp_s64: { AB64; D32; COMPARE(s64, GET_S64); break; }
case OP_setp_u64: { AB64; D32; COMPARE(u64, GET_U64); break; }
case OP_setp_f32: { AB32; D32; COMPARE(f32, GET_F32); break; }
case OP_setp_f64: { AB64; D32; COMPARE(f64, GET_F64); break; }
case OP_setp_f16: { AB32; D32; COMPARE(f32, GET_F16); break; }
case OP_setp_bf16: { AB32; D32; COMPARE(f32, GET_BF16); break; }
case OP_selp_32: { ABC32; D32; LANES(d[l] = c[l] & 1 ? a[l] : b[l]); break; }
case OP_selp_64: { AB64; const u32 *c = REG(in->c); D64;
    LANES(d[l] = c[l] & 1 ? a[l] : b[l]); break; }
case OP_cvt_u64_u32: { A32; D64; LANES(d[l] = a[l]); break; }
case OP_cvt_s64_s32: { A32; D64; LANES(d[l] = (u64)(s64)(s32)a[l]); break; }
case OP_cvt_u32_u64: { A64; D32; LANES(d[l] = (u32)a[l]); break; }
case OP_cvt: {
    const int wide_in = width(in->type2) == 64 || (in->e & 2),
        wide_out = width(in->type) == 64 || (in->e & 1);
    EACH({ u64 v = convert(in, wide_in ? REG64(in->a)[l] : REG(in->a)[l]);
           if (wide_out) { if ((in->e & 1) && width(in->type) < 64) v = is_signed(in->type)
               ? (u64)(s64)(s32)v : v; REG64(in->d[0])[l] = v; }
               else REG(in->d[0])[l] = (u32)v; })
    break; }
// sub: nearest with ties away from zero, ties to even, toward zero
case OP_cvt_tf32: { A32; D32;
    LANES(u32 v = a[l]; if ((v & 0x7f800000u) != 0x7f800000u) v += in->sub == 0 ? 0x1000u
        : in->sub == 1 ? 0xfffu + (v >> 13 & 1) : 0; d[l] = v & 0xffffe000u);
    break; }
case OP_cvt_pack_f16: { AB32; D32; LANES(d[l] = (u32)f64_to_half((f64)as_f32(a[l])) << 16
    | f64_to_half((f64)as_f32(b[l]))); break; }
case OP_cvt_pack_bf16: { AB32; D32; LANES(d[l] = (u32)f32_to_bf16(as_f32(a[l])) << 16
    | f32_to_bf16(as_f32(b[l]))); break; }
