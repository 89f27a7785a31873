// Warp-level matrix instructions: mma.sync, ldmatrix and stmatrix. Fragment layouts are those of the PTX ISA,
// "Matrix Fragments for mma": lane l is thread l % 4 of group l / 4.

// Operand slots of an instruction with more operands than a row has fields, in source order.
static u32 *operand(const Launch *L, const Warp *W, const Ins *in, int number) {
    return REG(((const s32 *)(uintptr_t)in->imm)[number]);
}

// Element i of a register of A or B, as a double, which holds every type exactly.
static inline f64 element(u32 word, int i, int type) {
    switch (type) {
    case T_f16: return half_to_f32((u16)(word >> 16 * i));
    case T_bf16: return bf16_to_f32((u16)(word >> 16 * i));
    case T_s8: return (s8)(word >> 8 * i);
    case T_u8: return (u8)(word >> 8 * i);
    }
    return as_f32(word & 0xffffe000u);  // tf32 ignores the lower 13 bits
}

// The same for all lanes; one loop per type, which the compiler vectorises.
static void elements(f64 *found, const u32 *words, int i, int type) {
#define OF_TYPE(type) for (int l = 0; l < 32; l++) found[l] = element(words[l], i, type); return;
    switch (type) {
    case T_f16: OF_TYPE(T_f16)
    case T_bf16: OF_TYPE(T_bf16)
    case T_s8: OF_TYPE(T_s8)
    case T_u8: OF_TYPE(T_u8)
    default: OF_TYPE(T_f32)
    }
}

// D = A B + C, A with 16 rows and B with 8 columns; in->sub: columns of A; in->type, type2, in->c, in->b:
// element types of A, B, D, C. Products and their sum with C are exact or nearly so (in double); the result
// is rounded once, to nearest. A GPU accumulates in a narrower format and truncates, so last bits may differ.
//
// Poison in a row of A poisons that row of D, in a column of B that column, in an element of C that element.
static void follow_product(Block *B, Warp *W, int w, const Ins *in, int a_words, int b_words, int c_words,
    int d_words) {
    const s32 *slots = (const s32 *)(uintptr_t)in->imm; Poison *p = &B->poison[w];
    u32 rows = 0, columns = 0, made[4] = {0}; int origin = 0;
    for (int r = 0; r < a_words + b_words; r++) {
        u32 on = tainted(B, W, w, slots[d_words + r]);
        if (on) origin = p->origin[slots[d_words + r]];
        for (; on; on &= on - 1) {
            const int group = __builtin_ctz(on) >> 2;
            if (r < a_words) rows |= 1u << (group + 8 * (r & 1)); else columns |= 1u << group;
        }
    }
    for (int i = 0; i < 4; i++) {
        const s32 c = slots[d_words + a_words + b_words + (c_words == 2 ? i >> 1 : i)];
        u32 on = tainted(B, W, w, c);
        if (on) origin = p->origin[c];
        for (int l = 0; l < 32; l++)
            on |= (rows >> ((l >> 2) + 8 * (i >> 1)) & 1 || columns >> ((l & 3) * 2 + (i & 1)) & 1) << l;
        made[d_words == 2 ? i >> 1 : i] |= on;
    }
    for (int i = 0; i < d_words; i++) {
        p->lanes[slots[i]] = made[i];
        if (made[i]) p->origin[slots[i]] = (u8)origin;
    }
}

static void multiply_matrices(Block *B, Warp *W, int w, const Ins *in) {
    const Launch *L = B->L;
    const int k = in->sub, per = in->type == T_f32 ? 1 : in->type == T_f16 || in->type == T_bf16 ? 2 : 4;
    const int a_words = k / (2 * per), b_words = k / (4 * per), d_words = in->c == T_f16 ? 2 : 4;
    const int c_words = in->b == T_f16 ? 2 : 4;
    if (W->poisoned) follow_product(B, W, w, in, a_words, b_words, c_words, d_words);
    f64 a[16][32], b[32][8], sum[16][8], found[32];
    for (int r = 0; r < a_words; r++) for (int i = 0; i < per; i++) {
        elements(found, operand(L, W, in, d_words + r), i, in->type);
        for (int l = 0; l < 32; l++)
            a[(l >> 2) + 8 * (r & 1)][(l & 3) * per + i + (r >> 1) * 4 * per] = found[l];
    }
    for (int r = 0; r < b_words; r++) for (int i = 0; i < per; i++) {
        elements(found, operand(L, W, in, d_words + a_words + r), i, in->type2);
        for (int l = 0; l < 32; l++) b[(l & 3) * per + i + r * 4 * per][l >> 2] = found[l];
    }
    for (int i = 0; i < 4; i++) {
        const u32 *c = operand(L, W, in, d_words + a_words + b_words + (c_words == 2 ? i >> 1 : i));
        for (int l = 0; l < 32; l++)
            sum[(l >> 2) + 8 * (i >> 1)][(l & 3) * 2 + (i & 1)] =
                c_words == 2 ? half_to_f32((u16)(c[l] >> 16 * (i & 1)))
                : in->b == T_s32 ? (f64)(s32)c[l] : as_f32(c[l]);
    }
    for (int row = 0; row < 16; row++) {
        f64 total[8] = {0};
        for (int i = 0; i < k; i++)
            for (int column = 0; column < 8; column++) total[column] += a[row][i] * b[i][column];
        for (int column = 0; column < 8; column++) sum[row][column] += total[column];
    }
    for (int i = 0; i < 4; i++) for (int l = 0; l < 32; l++) {
        const f64 v = sum[(l >> 2) + 8 * (i >> 1)][(l & 3) * 2 + (i & 1)];
        u32 *d = operand(L, W, in, d_words == 2 ? i >> 1 : i);
        if (d_words == 2) {
            d[l] = (i & 1 ? d[l] & 0xffff : d[l] & 0xffff0000u) | (u32)f64_to_half(v) << 16 * (i & 1);
        } else if (in->c == T_s32) {
            const f64 kept = in->flags & SATURATE ? (v > INT32_MAX ? INT32_MAX
                : v < INT32_MIN ? INT32_MIN : v) : v;
            d[l] = (u32)(s64)kept;
        } else d[l] = v != v ? 0x7fffffffu : of_f32((f32)v);
    }
}

// Lanes 8 m to 8 m + 7 hold the addresses of the 16-byte rows of matrix m. Each lane holds two adjacent
// elements of a row of each matrix or, with in->type2 (".trans"), of a column. One request moves all in->sub
// matrices.
static void move_matrices(Block *B, Warp *W, int w, const Ins *in, int kind) {
    Launch *L = B->L;
    const u64 *base = REG64(in->a);
    u64 address[32]; u8 *rows[32]; u32 shared = 0; const u32 mask = FULL >> (32 - 8 * in->sub);
    for (int l = 0; l < 32; l++) address[l] = base[l] + (u64)in->imm;
    const int quick = in->type == SPACE_SHARED && B->quick && is_owned(B, address, mask, 16)
        && order_vectors(B, in, W, w, mask, kind, address, 4);
    if (quick) { shared = mask; EACH(rows[l] = B->shared + address[l]) }
    for (int l = 0; l < 8 * in->sub && !quick; l++) {
        int space, buffer; s64 index;
        rows[l] = resolve(B, in, w, l, address[l], 16, in->type, kind, &space, &buffer, &index);
        if (!rows[l] && B->stop) return;
        if (in->type == SPACE_GENERIC && space == SPACE_SHARED) address[l] -= SHARED_BASE;
        if (!rows[l] || space != SPACE_SHARED) { rows[l] = 0; continue; }
        shared |= 1u << l;
        order_shared(B, in, w, l, address[l], 16, kind, 0);
        if (B->stop) return;
    }
    const int unwritten = B->unwritten && kind == KIND_LOAD;
    B->unwritten = 0;
    if (kind == KIND_LOAD && W->poisoned) settle_results(&B->poison[w], in, FULL, 0, 0);
    if (quick && !in->type2 && !is_traced(B, w)) {  // a lane's two elements are adjacent
        for (int m = 0; m < in->sub; m++) for (int l = 0; l < 32; l++) {
            u8 *at = rows[8 * m + (l >> 2)] + 4 * (l & 3);
            memcpy(kind == KIND_LOAD ? (void *)&REG(in->d[m])[l] : at, kind == KIND_LOAD ? at
                : (void *)&REG(in->d[m])[l], 4);
        }
        count_shared(&L->counts[in->line], address, shared, 16, kind);
        return;
    }
    for (int m = 0; m < in->sub; m++) for (int l = 0; l < 32; l++) {
        u32 *word = &REG(in->d[m])[l], got = 0;
        for (int i = 0; i < 2; i++) {
            const int row = in->type2 ? (l & 3) * 2 + i : l >> 2;
            const int column = in->type2 ? l >> 2 : (l & 3) * 2 + i;
            u8 *at = rows[8 * m + row] ? rows[8 * m + row] + 2 * column : 0;
            if (kind == KIND_STORE && at) put(at, *word >> 16 * i, 2);
            const u64 bits = kind == KIND_STORE ? *word >> 16 * i & 0xffff : at ? fetch(at, 2)
                : POISON & 0xffff;
            got |= (u32)bits << 16 * i;
            if (unwritten && at) {
                u64 offset = address[8 * m + row] + 2 * (u64)column; const Block *T = owner_of(B, &offset);
                if (T) taint_unwritten(B, T, W, w, l, in, in->d[m], offset, 2);
            }
            if (L->tracing && at) {
                const u64 where = address[8 * m + row] + 2 * (u64)column;
                trace_access(B, in, w, l, SPACE_SHARED, kind, 2, -1, where, (s64)where, bits);
            }
        }
        if (kind == KIND_LOAD) *word = got;
    }
    if (shared) count_shared(&L->counts[in->line], address, shared, 16, kind);
}
