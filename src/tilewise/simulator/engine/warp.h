// The interpreter: one warp, from where its lanes stand until each has exited or waits at a barrier.

// The slice is over: leave everything as it was before this instruction. Or the kernel has had all the steps that it may take.
static void out_of_steps(Block *B, int w, const Ins *in, u32 group, u32 mask, s32 pc) {
    Launch *L = B->L; Warp *W = &B->warps[w]; Count *c = &L->counts[in->line];
    if (L->steps > L->max_steps) { hazard(B, in, w, __builtin_ctz(group), H_STEPS); B->stop = TOO_MANY_STEPS; return; }
    L->steps--; W->issued--; c->issued--; c->active_lanes -= (u64)__builtin_popcount(mask);
    for (; group; group &= group - 1) W->pc[__builtin_ctz(group)] = pc;
    B->stop = PAUSED;
}

// Behind the limit of steps: the slice is over, or this warp has results of wgmma to be watched. Whether to stop.
static int beyond(Block *B, int w, const Ins *in, u32 group, u32 mask, s32 pc) {
    if (B->warps[w].wgmma) {
        if (B->L->steps <= B->L->last) watch_registers(B, w, in, mask);
        if (B->stop || B->L->steps <= B->L->last) return B->stop;
    }
    out_of_steps(B, w, in, group, mask, pc);
    return 1;
}

// Lanes that sleep at an instruction, to run it again when they wake: it has not been issued yet. The others go on.
static void sleep_at(Block *B, int w, const Ins *in, u32 group, u32 asleep, u32 mask, s32 pc) {
    Warp *W = &B->warps[w]; Count *c = &B->L->counts[in->line];
    c->active_lanes -= (u64)__builtin_popcount(asleep);
    if (asleep == mask) { c->issued--; W->issued--; }
    for (u32 r = group; r; r &= r - 1) { const int l = __builtin_ctz(r); W->pc[l] = pc + !(asleep >> l & 1); }
}

// Runs a warp until each of its lanes has exited or waits at a barrier.
static void run_warp(Block *B, int w) {
    Launch *L = B->L; Warp *W = &B->warps[w]; const Ins *code = L->code;
    L->limit = W->wgmma ? 0 : L->last;
    while (!B->stop) {
        s32 pc = INT32_MAX, next = INT32_MAX;
        u32 mask = lowest_lanes(W, lanes_in(W, LANE_RUNNING), &pc, &next);
        if (!mask) { if (release_waiting(B, w)) continue; return; }
        const u32 group = mask;
        for (;;) {  // straight on while these lanes stay together and lowest
            const Ins *in = &code[pc];
            mask = group;
            if (in->pred != NO_SLOT) {
                const u32 *p = REG(in->pred); u32 on = 0;
                for (int l = 0; l < 32; l++) on |= (p[l] & 1u) << l;
                mask &= in->flags & NEGATED ? ~on : on;
            }
            Count *c = &L->counts[in->line];
            c->issued++; c->active_lanes += (u64)__builtin_popcount(mask);
            W->issued++;
            if (++L->steps > L->limit && beyond(B, w, in, group, mask, pc)) return;
            int jumped = 0;
            switch ((enum op)in->op) {
            case OP_nop: break;
            case OP_mov_32: { A32; D32; LANES(d[l] = a[l]); break; }
            case OP_mov_64: { A64; D64; LANES(d[l] = a[l]); break; }
            case OP_special: { D32; EACH(d[l] = special(B, w, l, in->sub)) break; }
            case OP_clock: { L->used_clock = 1; if (in->type == T_u64) { D64; LANES(d[l] = W->issued); } else { D32; LANES(d[l] = (u32)W->issued); } break; }
            case OP_param_32: { D32; u64 v = fetch(L->params + in->imm, in->type2); if (in->flags & SIGNED) v = in->type2 == 1 ? (u64)(s64)(s8)v : in->type2 == 2 ? (u64)(s64)(s16)v : v; LANES(d[l] = (u32)v); break; }
            case OP_param_64: { D64; u64 v = fetch(L->params + in->imm, in->type2); if (in->flags & SIGNED) v = in->type2 == 4 ? (u64)(s64)(s32)v : v; LANES(d[l] = v); break; }
            case OP_pack_64: { AB32; D64; LANES(d[l] = (u64)a[l] | (u64)b[l] << 32); break; }
            case OP_pack_32: { AB32; D32; LANES(d[l] = (a[l] & 0xffff) | b[l] << 16); break; }
            case OP_unpack_64: { A64; u32 *x = in->d[0] == NO_SLOT ? 0 : REG(in->d[0]), *y = in->d[1] == NO_SLOT ? 0 : REG(in->d[1]); EACH({ u64 v = a[l]; if (x) x[l] = (u32)v; if (y) y[l] = (u32)(v >> 32); }) break; }
            case OP_unpack_32: { A32; u32 *x = in->d[0] == NO_SLOT ? 0 : REG(in->d[0]), *y = in->d[1] == NO_SLOT ? 0 : REG(in->d[1]); EACH({ u32 v = a[l]; if (x) x[l] = v & 0xffff; if (y) y[l] = v >> 16; }) break; }
            case OP_add_32: I2(u32, x + y) case OP_sub_32: I2(u32, x - y) case OP_mul_32: I2(u32, x * y)
            case OP_add_16: I2(u32, (u16)(x + y)) case OP_sub_16: I2(u32, (u16)(x - y)) case OP_mul_16: I2(u32, (u16)(x * y))
            case OP_add_64: J2(u64, x + y) case OP_sub_64: J2(u64, x - y) case OP_mul_64: J2(u64, x * y)
            case OP_mad_32: { ABC32; D32; LANES(d[l] = a[l] * b[l] + c[l]); break; }
            case OP_mad_16: { ABC32; D32; LANES(d[l] = (u16)(a[l] * b[l] + c[l])); break; }
            case OP_mad_64: { ABC64; D64; LANES(d[l] = a[l] * b[l] + c[l]); break; }
            case OP_mulwide_s32: { AB32; D64; LANES(d[l] = (u64)((s64)(s32)a[l] * (s64)(s32)b[l])); break; }
            case OP_mulwide_u32: { AB32; D64; LANES(d[l] = (u64)a[l] * (u64)b[l]); break; }
            case OP_mulwide_s16: { AB32; D32; LANES(d[l] = (u32)((s32)(s16)a[l] * (s32)(s16)b[l])); break; }
            case OP_mulwide_u16: { AB32; D32; LANES(d[l] = (a[l] & 0xffff) * (b[l] & 0xffff)); break; }
            case OP_madwide_s32: { AB32; const u64 *c = REG64(in->c); D64; LANES(d[l] = (u64)((s64)(s32)a[l] * (s64)(s32)b[l]) + c[l]); break; }
            case OP_madwide_u32: { AB32; const u64 *c = REG64(in->c); D64; LANES(d[l] = (u64)a[l] * (u64)b[l] + c[l]); break; }
            case OP_mulhi_s16: I2(s16, (u16)(((s32)x * (s32)y) >> 16)) case OP_mulhi_u16: I2(u16, ((u32)x * (u32)y) >> 16)
            case OP_abs_16: { A32; D32; LANES(s16 x = (s16)a[l]; d[l] = (u16)(x < 0 ? -x : x)); break; }
            case OP_mulhi_s32: I2(s32, ((s64)x * (s64)y) >> 32) case OP_mulhi_u32: I2(u32, ((u64)x * (u64)y) >> 32)
            case OP_mulhi_s64: J2(s64, ((__int128)x * (__int128)y) >> 64) case OP_mulhi_u64: J2(u64, ((unsigned __int128)x * (unsigned __int128)y) >> 64)
            case OP_div_s32: I2(s32, y == 0 ? -1 : y == -1 ? (s32)(0u - (u32)x) : x / y) case OP_div_u32: I2(u32, y == 0 ? FULL : x / y)
            case OP_rem_s32: I2(s32, y == 0 ? x : y == -1 ? 0 : x % y) case OP_rem_u32: I2(u32, y == 0 ? x : x % y)
            case OP_div_s64: J2(s64, y == 0 ? -1 : y == -1 ? (s64)(0ull - (u64)x) : x / y) case OP_div_u64: J2(u64, y == 0 ? ~0ull : x / y)
            case OP_rem_s64: J2(s64, y == 0 ? x : y == -1 ? 0 : x % y) case OP_rem_u64: J2(u64, y == 0 ? x : x % y)
            case OP_div_s16: I2(s16, (u16)(y == 0 ? -1 : x / y)) case OP_div_u16: I2(u16, y == 0 ? 0xffff : x / y)
            case OP_rem_s16: I2(s16, (u16)(y == 0 ? x : x % y)) case OP_rem_u16: I2(u16, y == 0 ? x : x % y)
            case OP_min_s32: I2(s32, x < y ? x : y) case OP_min_u32: I2(u32, x < y ? x : y) case OP_max_s32: I2(s32, x > y ? x : y) case OP_max_u32: I2(u32, x > y ? x : y)
            case OP_min_s16: I2(s16, (u16)(x < y ? x : y)) case OP_min_u16: I2(u16, x < y ? x : y) case OP_max_s16: I2(s16, (u16)(x > y ? x : y)) case OP_max_u16: I2(u16, x > y ? x : y)
            case OP_min_s64: J2(s64, x < y ? x : y) case OP_min_u64: J2(u64, x < y ? x : y) case OP_max_s64: J2(s64, x > y ? x : y) case OP_max_u64: J2(u64, x > y ? x : y)
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
            case OP_shr_u32: I2(u32, y > 31 ? 0 : x >> y) case OP_shr_s32: { AB32; D32; LANES(d[l] = (u32)((s32)a[l] >> (b[l] > 31 ? 31 : b[l]))); break; }
            case OP_shr_u16: I2(u32, y > 15 ? 0 : (x & 0xffff) >> y) case OP_shr_s16: { AB32; D32; LANES(d[l] = (u16)((s32)(s16)a[l] >> (b[l] > 15 ? 15 : b[l]))); break; }
            case OP_shl_64: { A64; const u32 *b = REG(in->b); D64; LANES(d[l] = b[l] > 63 ? 0 : a[l] << b[l]); break; }
            case OP_shr_u64: { A64; const u32 *b = REG(in->b); D64; LANES(d[l] = b[l] > 63 ? 0 : a[l] >> b[l]); break; }
            case OP_shr_s64: { A64; const u32 *b = REG(in->b); D64; LANES(d[l] = (u64)((s64)a[l] >> (b[l] > 63 ? 63 : b[l]))); break; }
            case OP_shf_l: { ABC32; D32; LANES(u32 n = in->sub ? c[l] & 31 : (c[l] > 32 ? 32 : c[l]); d[l] = n == 0 ? b[l] : n == 32 ? a[l] : b[l] << n | a[l] >> (32 - n)); break; }
            case OP_shf_r: { ABC32; D32; LANES(u32 n = in->sub ? c[l] & 31 : (c[l] > 32 ? 32 : c[l]); d[l] = n == 0 ? a[l] : n == 32 ? b[l] : b[l] << (32 - n) | a[l] >> n); break; }
            case OP_lop3: { ABC32; D32; const u32 t = (u32)in->imm; LANES(u32 r = 0; for (int k = 0; k < 8; k++) if (t >> k & 1) r |= (k & 4 ? a[l] : ~a[l]) & (k & 2 ? b[l] : ~b[l]) & (k & 1 ? c[l] : ~c[l]); d[l] = r); break; }
            case OP_prmt: { ABC32; D32; LANES(u64 both = (u64)a[l] | (u64)b[l] << 32; u32 r = 0; for (int k = 0; k < 4; k++) { u32 s = c[l] >> (4 * k) & 15; u32 byte = (u32)(both >> (8 * (s & 7))) & 255; if (s & 8) byte = byte & 128 ? 255 : 0; r |= byte << (8 * k); } d[l] = r); break; }
            case OP_popc_32: { A32; D32; LANES(d[l] = (u32)__builtin_popcount(a[l])); break; }
            case OP_popc_64: { A64; D32; LANES(d[l] = (u32)__builtin_popcountll(a[l])); break; }
            case OP_clz_32: { A32; D32; LANES(d[l] = a[l] ? (u32)__builtin_clz(a[l]) : 32); break; }
            case OP_clz_64: { A64; D32; LANES(d[l] = a[l] ? (u32)__builtin_clzll(a[l]) : 64); break; }
            case OP_brev_32: { A32; D32; LANES(d[l] = __builtin_bitreverse32(a[l])); break; }
            case OP_brev_64: { A64; D64; LANES(d[l] = __builtin_bitreverse64(a[l])); break; }
            case OP_bfind_u32: { A32; D32; LANES(d[l] = a[l] ? (u32)(31 - __builtin_clz(a[l])) : FULL); break; }
            case OP_bfe_u32: { ABC32; D32; LANES(u32 p = b[l] & 255; u32 n = c[l] & 255; u32 v = p > 31 ? 0 : a[l] >> p; d[l] = n > 31 ? v : v & ((1u << n) - 1)); break; }
            case OP_bfe_s32: { ABC32; D32; LANES(u32 p = b[l] & 255; u32 n = c[l] & 255; if (p > 31) p = 31; if (n > 32 - p) n = 32 - p; d[l] = n == 0 ? 0 : (u32)((s32)(a[l] << (32 - p - n)) >> (32 - n))); break; }
            case OP_bfi_32: { ABC32; const u32 *e = REG(in->e); D32; LANES(u32 p = c[l] & 255; u32 n = e[l] & 255; u32 m = n > 31 ? FULL : (1u << n) - 1; m = p > 31 ? 0 : m << p; d[l] = (b[l] & ~m) | (p > 31 ? 0 : a[l] << p & m)); break; }
            case OP_bfe_u64: { A64; const u32 *b = REG(in->b), *c = REG(in->c); D64;
                LANES(u32 p = b[l] & 255; u32 n = c[l] & 255; u64 v = p > 63 ? 0 : a[l] >> p; d[l] = n > 63 ? v : v & ((1ull << n) - 1)); break; }
            case OP_bfe_s64: { A64; const u32 *b = REG(in->b), *c = REG(in->c); D64;
                LANES(u32 p = b[l] & 255; u32 n = c[l] & 255; if (p > 63) p = 63; if (n > 64 - p) n = 64 - p; d[l] = n == 0 ? 0 : (u64)((s64)(a[l] << (64 - p - n)) >> (64 - n))); break; }
            case OP_bfi_64: { AB64; const u32 *c = REG(in->c), *e = REG(in->e); D64;
                LANES(u32 p = c[l] & 255; u32 n = e[l] & 255; u64 m = n > 63 ? ~0ull : (1ull << n) - 1; m = p > 63 ? 0 : m << p; d[l] = (b[l] & ~m) | (p > 63 ? 0 : a[l] << p & m)); break; }
            case OP_dp4a: { ABC32; D32; LANES(s32 r = (s32)c[l]; for (int k = 0; k < 4; k++) { s32 x = in->type == T_s32 ? (s8)(a[l] >> 8 * k) : (u8)(a[l] >> 8 * k); s32 y = in->type2 == T_s32 ? (s8)(b[l] >> 8 * k) : (u8)(b[l] >> 8 * k); r += x * y; } d[l] = (u32)r); break; }
            case OP_setp_s32: { AB32; D32; COMPARE(s32, GET_S32); break; } case OP_setp_u32: { AB32; D32; COMPARE(u32, GET_U32); break; }
            case OP_setp_s16: { AB32; D32; COMPARE(s16, GET_S16); break; } case OP_setp_u16: { AB32; D32; COMPARE(u16, GET_U16); break; }
            case OP_setp_s64: { AB64; D32; COMPARE(s64, GET_S64); break; } case OP_setp_u64: { AB64; D32; COMPARE(u64, GET_U64); break; }
            case OP_setp_f32: { AB32; D32; COMPARE(f32, GET_F32); break; } case OP_setp_f64: { AB64; D32; COMPARE(f64, GET_F64); break; }
            case OP_setp_f16: { AB32; D32; COMPARE(f32, GET_F16); break; } case OP_setp_bf16: { AB32; D32; COMPARE(f32, GET_BF16); break; }
            case OP_selp_32: { ABC32; D32; LANES(d[l] = c[l] & 1 ? a[l] : b[l]); break; }
            case OP_selp_64: { AB64; const u32 *c = REG(in->c); D64; LANES(d[l] = c[l] & 1 ? a[l] : b[l]); break; }
            case OP_cvt_u64_u32: { A32; D64; LANES(d[l] = a[l]); break; }
            case OP_cvt_s64_s32: { A32; D64; LANES(d[l] = (u64)(s64)(s32)a[l]); break; }
            case OP_cvt_u32_u64: { A64; D32; LANES(d[l] = (u32)a[l]); break; }
            case OP_cvt: {
                const int wide_in = width(in->type2) == 64 || (in->e & 2), wide_out = width(in->type) == 64 || (in->e & 1);
                EACH({ u64 v = convert(in, wide_in ? REG64(in->a)[l] : REG(in->a)[l]);
                       if (wide_out) { if ((in->e & 1) && width(in->type) < 64) v = is_signed(in->type) ? (u64)(s64)(s32)v : v; REG64(in->d[0])[l] = v; } else REG(in->d[0])[l] = (u32)v; })
                break; }
            case OP_cvt_tf32: { A32; D32;  // sub: to nearest with ties away from zero, with ties to even, toward zero
                LANES(u32 v = a[l]; if ((v & 0x7f800000u) != 0x7f800000u) v += in->sub == 0 ? 0x1000u : in->sub == 1 ? 0xfffu + (v >> 13 & 1) : 0; d[l] = v & 0xffffe000u);
                break; }
            case OP_cvt_pack_f16: { AB32; D32; LANES(d[l] = (u32)f64_to_half((f64)as_f32(a[l])) << 16 | f64_to_half((f64)as_f32(b[l]))); break; }
            case OP_cvt_pack_bf16: { AB32; D32; LANES(d[l] = (u32)f32_to_bf16(as_f32(a[l])) << 16 | f32_to_bf16(as_f32(b[l]))); break; }
            case OP_add_f32: F2(x + y) case OP_sub_f32: F2(x - y) case OP_mul_f32: F2(x * y) case OP_fma_f32: F3(fmaf(x, y, z))
            case OP_div_f32: F2(x / y) case OP_min_f32: F2(fmin32(x, y)) case OP_max_f32: F2(fmax32(x, y))
            case OP_abs_f32: F1(fabsf(x)) case OP_neg_f32: F1(-x) case OP_sqrt_f32: F1(sqrtf(x)) case OP_rcp_f32: F1(1.f / x)
            case OP_rsqrt_f32: F1((f32)(1.0 / sqrt((f64)x))) case OP_ex2_f32: F1((f32)exp2((f64)x)) case OP_lg2_f32: F1((f32)log2((f64)x))
            case OP_sin_f32: F1((f32)sin((f64)x)) case OP_cos_f32: F1((f32)cos((f64)x)) case OP_tanh_f32: F1((f32)tanh((f64)x))
            case OP_copysign_f32: { AB32; D32; LANES(d[l] = (a[l] & 0x80000000u) | (b[l] & 0x7fffffffu)); break; }
            case OP_add_rz_f32: F2(sum_f32(x, y, in->sub)) case OP_mul_rz_f32: F2(f64_to_f32((f64)x * (f64)y, in->sub))
            case OP_add_f64: G2(x + y) case OP_sub_f64: G2(x - y) case OP_mul_f64: G2(x * y) case OP_fma_f64: G3(fma(x, y, z)) case OP_div_f64: G2(x / y)
            case OP_directed: round_directed(L, W, in, mask); break;
            case OP_minnan_f32: F2(x != x || y != y ? as_f32(0x7fffffffu) : fmin32(x, y))
            case OP_maxnan_f32: F2(x != x || y != y ? as_f32(0x7fffffffu) : fmax32(x, y))
#define NAN_OR(expr) (x != x || y != y ? (f64)NAN : (expr))
            case OP_minnan_f16: HALF2(half_to_f32, to_half, NAN_OR(min64(x, y))) case OP_maxnan_f16: HALF2(half_to_f32, to_half, NAN_OR(max64(x, y)))
            case OP_minnan_bf16: HALF2(bf16_to_f32, to_bf16, NAN_OR(min64(x, y))) case OP_maxnan_bf16: HALF2(bf16_to_f32, to_bf16, NAN_OR(max64(x, y)))
            case OP_min_f64: G2(min64(x, y)) case OP_max_f64: G2(max64(x, y)) case OP_abs_f64: G1(fabs(x)) case OP_neg_f64: G1(-x) case OP_sqrt_f64: G1(sqrt(x)) case OP_rcp_f64: G1(1.0 / x) case OP_rsqrt_f64: G1(1.0 / sqrt(x))
            case OP_copysign_f64: { AB64; D64; LANES(d[l] = (a[l] & 0x8000000000000000ull) | (b[l] & 0x7fffffffffffffffull)); break; }
            case OP_add_f16: HALF2(half_to_f32, to_half, x + y) case OP_sub_f16: HALF2(half_to_f32, to_half, x - y) case OP_mul_f16: HALF2(half_to_f32, to_half, x * y)
            case OP_min_f16: HALF2(half_to_f32, to_half, min64(x, y)) case OP_max_f16: HALF2(half_to_f32, to_half, max64(x, y))
            case OP_neg_16f: { A32; D32; LANES(d[l] = a[l] ^ 0x8000); break; } case OP_neg_16fx2: { A32; D32; LANES(d[l] = a[l] ^ 0x80008000u); break; }
            case OP_abs_16f: { A32; D32; LANES(d[l] = a[l] & 0x7fff); break; } case OP_abs_16fx2: { A32; D32; LANES(d[l] = a[l] & 0x7fff7fffu); break; }
            case OP_fma_f16: { ABC32; D32; LANES(d[l] = f64_to_half(fma((f64)half_to_f32((u16)a[l]), (f64)half_to_f32((u16)b[l]), (f64)half_to_f32((u16)c[l])))); break; }
#define PAIR2(get, set, expr) { AB32; D32; LANES(u32 r = 0; for (int k = 0; k < 2; k++) { f64 x = get((u16)(a[l] >> 16 * k)); f64 y = get((u16)(b[l] >> 16 * k)); r |= (u32)set(expr) << 16 * k; } d[l] = r); break; }
#define PAIR3(get, set, expr) { ABC32; D32; LANES(u32 r = 0; for (int k = 0; k < 2; k++) { f64 x = get((u16)(a[l] >> 16 * k)); f64 y = get((u16)(b[l] >> 16 * k)); f64 z = get((u16)(c[l] >> 16 * k)); r |= (u32)set(expr) << 16 * k; } d[l] = r); break; }
            case OP_add_f16x2: PAIR2(half_to_f32, to_half, x + y) case OP_sub_f16x2: PAIR2(half_to_f32, to_half, x - y) case OP_mul_f16x2: PAIR2(half_to_f32, to_half, x * y)
            case OP_min_f16x2: PAIR2(half_to_f32, to_half, min64(x, y)) case OP_max_f16x2: PAIR2(half_to_f32, to_half, max64(x, y)) case OP_fma_f16x2: PAIR3(half_to_f32, to_half, fma(x, y, z))
            case OP_add_bf16: HALF2(bf16_to_f32, to_bf16, x + y) case OP_sub_bf16: HALF2(bf16_to_f32, to_bf16, x - y) case OP_mul_bf16: HALF2(bf16_to_f32, to_bf16, x * y)
            case OP_min_bf16: HALF2(bf16_to_f32, to_bf16, min64(x, y)) case OP_max_bf16: HALF2(bf16_to_f32, to_bf16, max64(x, y))
            case OP_fma_bf16: { ABC32; D32; LANES(d[l] = to_bf16(odd_sum((f64)bf16_to_f32((u16)a[l]) * (f64)bf16_to_f32((u16)b[l]), (f64)bf16_to_f32((u16)c[l])))); break; }
            case OP_minnan_f16x2: PAIR2(half_to_f32, to_half, NAN_OR(min64(x, y))) case OP_maxnan_f16x2: PAIR2(half_to_f32, to_half, NAN_OR(max64(x, y)))
            case OP_minnan_bf16x2: PAIR2(bf16_to_f32, to_bf16, NAN_OR(min64(x, y))) case OP_maxnan_bf16x2: PAIR2(bf16_to_f32, to_bf16, NAN_OR(max64(x, y)))
            case OP_add_bf16x2: PAIR2(bf16_to_f32, to_bf16, x + y) case OP_sub_bf16x2: PAIR2(bf16_to_f32, to_bf16, x - y) case OP_mul_bf16x2: PAIR2(bf16_to_f32, to_bf16, x * y)
            case OP_min_bf16x2: PAIR2(bf16_to_f32, to_bf16, min64(x, y)) case OP_max_bf16x2: PAIR2(bf16_to_f32, to_bf16, max64(x, y)) case OP_fma_bf16x2: PAIR3(bf16_to_f32, to_bf16, odd_sum(x * y, z))
            case OP_testp: { A32; D32; LANES(f32 x = as_f32(a[l]); int k = in->sub; d[l] = (u32)(k == 0 ? x - x == 0 : k == 1 ? x == x && x - x != 0 : k == 2 ? x == x : k == 3 ? x != x : k == 4 ? (a[l] & 0x7f800000u) && x - x == 0 : !(a[l] & 0x7f800000u) && (a[l] & 0x7fffffu))); break; }
            case OP_math_f32: { const u32 *a = REG(in->a), *b = REG(in->b), *c = REG(in->c); D32; const int ftz = in->flags & FTZ;
                EACH(d[l] = of_f32(flushf((f32)math_function(in->sub, (f64)flushf(as_f32(a[l]), ftz), (f64)flushf(as_f32(b[l]), ftz), (f64)flushf(as_f32(c[l]), ftz)), ftz))) break; }
            case OP_math_f64: { ABC64; D64; EACH(d[l] = of_f64(math_function(in->sub, as_f64(a[l]), as_f64(b[l]), as_f64(c[l])))) break; }
            case OP_ld: access_memory(B, W, w, in, mask, KIND_LOAD); break;
            case OP_st: access_memory(B, W, w, in, mask, KIND_STORE); break;
            case OP_atom: atomic_memory(B, W, w, in, mask); break;
            case OP_mma: case OP_ldmatrix: case OP_stmatrix: {
                GATHER if (!mask) break;
                if (mask != FULL) { hazard(B, in, w, __builtin_ctz(mask), H_SHUFFLE); if (B->stop) return; }
                if (in->op == OP_mma) multiply_matrices(W, L, in);
                else move_matrices(B, W, w, in, in->op == OP_ldmatrix ? KIND_LOAD : KIND_STORE);
                W->epoch++;
                break; }
            case OP_cp_async: begin_copies(B, W, w, in, mask); break;
            case OP_cp_commit: EACH(W->committed[l]++) break;
            case OP_cp_wait: finish_copies(B, W, w, in, mask); break;
            case OP_cvta_shared: { A64; D64; LANES(d[l] = a[l] + SHARED_BASE); break; } case OP_cvta_to_shared: { A64; D64; LANES(d[l] = a[l] - SHARED_BASE); break; }
            case OP_cvta_local: { A64; D64; LANES(d[l] = a[l] + LOCAL_BASE); break; } case OP_cvta_to_local: { A64; D64; LANES(d[l] = a[l] - LOCAL_BASE); break; }
            case OP_isspacep: { A64; D32; LANES(int s = a[l] - SHARED_BASE < WINDOW ? SPACE_SHARED : a[l] - LOCAL_BASE < WINDOW ? SPACE_LOCAL : SPACE_GLOBAL; d[l] = (u32)(s == in->sub)); break; }
            case OP_warp_sync: GATHER break;
            case OP_shfl: GATHER shuffle(B, W, w, in, mask); break;
            case OP_vote: { GATHER A32; D32; u32 on = 0, all, named = mask; EACH(on |= ((a[l] & 1) ^ (in->flags & VOLATILE ? 1 : 0)) << l) on &= named; all = named & mask;
                u32 r = in->sub == 0 ? on == all : in->sub == 1 ? on != 0 : in->sub == 2 ? on == 0 || on == all : on; EACH(d[l] = r) break; }
            case OP_activemask: { D32; u32 m = mask; EACH(d[l] = m) break; }
            case OP_match: { GATHER match(L, W, in, mask); break; }
            case OP_redux: { GATHER A32; D32; u32 r = 0; int first = 1; EACH({ u32 v = a[l]; if (first) { r = v; first = 0; } else switch ((enum atomic)in->sub) { case A_add: r += v; break; case A_and: r &= v; break; case A_or: r |= v; break; case A_xor: r ^= v; break;
                case A_min: r = in->type == T_s32 ? ((s32)v < (s32)r ? v : r) : v < r ? v : r; break; case A_max: r = in->type == T_s32 ? ((s32)v > (s32)r ? v : r) : v > r ? v : r; break; default: break; } }) EACH(d[l] = r) break; }
            case OP_bar: {
                W->epoch++;
                L->counts[in->line].barriers++;
                EACH({ W->state[l] = LANE_PARKED; W->bar_id[l] = (s32)REG(in->a)[l]; W->bar_count[l] = in->b == NO_SLOT ? B->threads : (s32)REG(in->b)[l]; W->bar_pc[l] = pc; W->bar_line[l] = in->line; W->pc[l] = pc + 1; })
                u32 rest = group & ~mask;
                for (; rest; rest &= rest - 1) W->pc[__builtin_ctz(rest)] = pc + 1;
                jumped = 1; break; }
            case OP_bar_arrive: {
                W->epoch++;
                if (mask) { int id = (int)REG(in->a)[__builtin_ctz(mask)] & 15; B->came[id] += __builtin_popcount(mask); L->counts[in->line].barriers++;
                    join(B->came_vc + (s64)id * B->clocks, W->clock, B->clocks);
                    W->vc[w]++; }
                break; }
            case OP_bra: {
                u32 rest = group & ~mask;
                if (!rest && in->target < next) { pc = in->target; continue; }  // they stay together and lowest
                LANES(W->pc[l] = in->target);
                for (u32 r = rest; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc + 1;
                if (rest && mask) L->counts[in->line].divergent++;
                jumped = 1; break; }
            case OP_brx: { A32; const s32 *table = (const s32 *)(uintptr_t)in->imm; s32 first = -1; int split = 0;
                EACH({ s32 t = table[a[l] < (u32)in->sub ? a[l] : 0]; if (first >= 0 && t != first) split = 1; first = t; W->pc[l] = t; })
                for (u32 r = group & ~mask; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc + 1;
                if (split) L->counts[in->line].divergent++;
                jumped = 1; break; }
            case OP_call: {
                EACH({ if (W->depth[l] == MAX_DEPTH) { hazard(B, in, w, l, H_STEPS); B->stop = 1; return; } W->stack[l * MAX_DEPTH + W->depth[l]++] = pc + 1; W->pc[l] = in->target; })
                for (u32 r = group & ~mask; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc + 1;
                jumped = 1; break; }
            case OP_ret: {
                EACH({ if (W->depth[l]) W->pc[l] = W->stack[l * MAX_DEPTH + --W->depth[l]]; else W->state[l] = LANE_EXITED; })
                for (u32 r = group & ~mask; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc + 1;
                jumped = 1; break; }
            case OP_exit: {
                EACH(W->state[l] = LANE_EXITED)
                for (u32 r = group & ~mask; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc + 1;
                jumped = 1; break; }
            case OP_watch: {  // a variable that a trace follows; not part of the kernel, so not counted
                c->issued--; c->active_lanes -= (u64)__builtin_popcount(mask); W->issued--; L->steps--;
                const int size = (int)in->e;
                if (L->tracing) EACH(trace_access(B, in, w, l, SPACE_LOCAL, KIND_WATCH, size, in->sub, 0, in->type2, size == 8 ? REG64(in->a)[l] : REG(in->a)[l]))
                break; }
            case OP_print: { A64; const u64 *b = REG64(in->b); D32; EACH({ d[l] = print(B, in, w, l, a[l], b[l]); if (B->stop) return; }) break; }
            case OP_assert: if (mask) { const int l = __builtin_ctz(mask); Hazard *h = hazard(B, in, w, l, H_ASSERT); if (h) h->address = REG64(in->a)[l]; B->stop = 1; return; } break;
            case OP_fence: if (mask) { B->fenced = 1; W->epoch++; } break;
            case OP_fence_proxy: if (mask) fence_proxy(B, w); break;
            case OP_mbarrier: use_objects(B, W, w, in, mask); break;
            case OP_mbarrier_wait: {
                const u32 asleep = wait_objects(B, W, w, in, mask);
                if (asleep && !B->stop) { sleep_at(B, w, in, group, asleep, mask, pc); jumped = 1; }
                break; }
            case OP_cluster_arrive: case OP_cluster_wait: {
                const u32 asleep = meet_cluster(B, W, w, in, mask);
                if (asleep && !B->stop) { sleep_at(B, w, in, group, asleep, mask, pc); jumped = 1; }
                break; }
            case OP_bulk: copy_bulk(B, W, w, in, mask); break;
            case OP_tensor: copy_tensor(B, W, w, in, mask); break;
            case OP_bulk_commit: EACH(W->bulk_committed[l]++) break;
            case OP_bulk_wait: finish_bulk(B, W, w, in, mask); break;
            case OP_mapa_32: { A64; const u32 *b = REG(in->b); D32; LANES(d[l] = (u32)((a[l] & WITHIN) | (u64)(b[l] + 1) << RANK_SHIFT)); break; }
            case OP_mapa_64: { A64; const u32 *b = REG(in->b); D64; LANES(d[l] = (a[l] & ~(0xffull << RANK_SHIFT)) | (u64)(b[l] + 1) << RANK_SHIFT); break; }
            case OP_getctarank: { A64; D32; LANES(const u32 rank = (u32)(a[l] >> RANK_SHIFT & 0xff); d[l] = rank ? rank - 1 : (u32)B->rank); break; }
            case OP_elect: { GATHER if (!mask) break; const u32 named = REG(in->e)[__builtin_ctz(mask)]; const int leader = __builtin_ctz(named ? named : mask);
                EACH({ if (in->d[0] != NO_SLOT) REG(in->d[0])[l] = (u32)leader; if (in->d[1] != NO_SLOT) REG(in->d[1])[l] = l == leader; })
                break; }
            case OP_wgmma: case OP_wgmma_fence: case OP_wgmma_commit: case OP_wgmma_wait: case OP_setmaxnreg: {
                GATHER if (!mask) break;
                if (mask != FULL) { hazard(B, in, w, __builtin_ctz(mask), H_SHUFFLE); if (B->stop) return; }
                Wgmma *g = in->op == OP_setmaxnreg ? 0 : wgmma_of(B, W);
                if (B->stop) return;
                if (in->op == OP_setmaxnreg) set_registers(B, in, w);
                else if (in->op == OP_wgmma_fence) fence_group(B, W);
                else if (in->op == OP_wgmma_commit) g->committed++;
                else if (in->op == OP_wgmma_wait) wait_group(B, W, w, in->imm);
                else if (warpgroup_here(B, w, in, pc)) multiply_groups(B, w, in, pc);
                else if (!B->stop) { EACH({ W->state[l] = LANE_BLOCKED; W->blocked_on[l] = ON_GROUP; W->pc[l] = pc; }) jumped = 1; }
                break; }
            case OP_trap: if (mask) { hazard(B, in, w, __builtin_ctz(mask), H_TRAP); B->stop = 1; return; } break;
            }
            if (B->stop) return;
            if (jumped) break;
            pc++;
            if (pc == next) {  // others wait here: meet them
                for (u32 r = group; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc;
                break;
            }
        }
    }
}
