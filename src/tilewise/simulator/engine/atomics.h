// Atomic operations of a warp on global and shared memory: read, combine, write back, lane by lane.

// Adds one or two packed 16-bit values.
static u64 add_short(int type, u64 x, u64 y, int size) {
    u64 sum = 0;
    for (int k = 0; k < size / 2; k++) {
        const u16 a = (u16)(x >> 16 * k), b = (u16)(y >> 16 * k);
        const u16 r = type == T_f16 ? f64_to_half((f64)half_to_f32(a) + (f64)half_to_f32(b))
                                    : f32_to_bf16(bf16_to_f32(a) + bf16_to_f32(b));
        sum |= (u64)r << 16 * k;
    }
    return sum;
}

static u64 combine(const Ins *in, u64 old, u64 x, u64 y, int size) {
    switch ((enum atomic)in->sub) {
    case A_add: if (in->type2 == T_f16 || in->type2 == T_bf16) return add_short(in->type2, old, x, size);
        return in->type2 == T_f32 ? of_f32(as_f32((u32)old) + as_f32((u32)x))
            : in->type2 == T_f64 ? of_f64(as_f64(old) + as_f64(x)) : old + x;
    case A_min: return in->type2 == T_s32 ? (u32)((s32)old < (s32)x ? old : x)
        : in->type2 == T_s64 ? (u64)((s64)old < (s64)x ? old : x) : (old < x ? old : x);
    case A_max: return in->type2 == T_s32 ? (u32)((s32)old > (s32)x ? old : x)
        : in->type2 == T_s64 ? (u64)((s64)old > (s64)x ? old : x) : (old > x ? old : x);
    case A_exch: return x;
    case A_cas: return old == x ? y : old;
    case A_and: return old & x;
    case A_or: return old | x;
    case A_xor: return old ^ x;
    case A_inc: return old >= x ? 0 : old + 1;
    case A_dec: return old == 0 || old > x ? x : old - 1;
    }
    (void)size; return old;
}

static void atomic_memory(Block *B, Warp *W, int w, const Ins *in, u32 mask) {
    Launch *L = B->L;
    int size = (int)in->e;
    const u64 *base = REG64(in->a);
    u64 address[32]; u32 global = 0, shared = 0;
    for (int l = 0; l < 32; l++) address[l] = base[l] + (u64)in->imm;
    synchronise(B, in, KIND_ATOMIC);
    EACH({
        int space, buffer; s64 index;
        u8 *p = resolve(B, in, w, l, address[l], size, in->type, KIND_ATOMIC, &space, &buffer, &index);
        if (!p && B->stop) return;
        if (space == SPACE_SHARED) { shared |= 1u << l; if (in->type ==
            SPACE_GENERIC) address[l] -= SHARED_BASE;
            if (p) { order_shared(B, in, w, l, address[l], size, KIND_ATOMIC, 0); if (B->stop) return; }
            if (p) { order_lanes(B, in, w, l, address[l], size, KIND_ATOMIC, 0); if (B->stop) return; } }
        else if (space == SPACE_GLOBAL) global |= 1u << l;
        if (global && L->spread) { B->stop = STOPPED; return; }  // the result depends on block order
        u64 x = size == 8 ? REG64(in->b)[l] : REG(in->b)[l], y = in->sub == A_cas
            ? (size == 8 ? REG64(in->c)[l] : REG(in->c)[l]) : 0;
        if (p && space == SPACE_GLOBAL && buffer >= 0 && L->buffers[buffer].words) order_global(B, in, w, l,
            buffer, index, size, KIND_ATOMIC, 0);
        if (B->stop) return;
        u64 old = p ? fetch(p, size) : POISON, now = combine(in, old, x, y, size);
        if (p) put(p, now, size);
        if (in->d[0] != NO_SLOT) { if (size == 8) REG64(in->d[0])[l] = old;
            else REG(in->d[0])[l] = (u32)old; }
        if (L->tracing) trace_access(B, in, w, l, space, KIND_ATOMIC, size, buffer, address[l], index, now);
    })
    W->epoch++;  // may implement a lock
    Count *c = &L->counts[in->line];
    if (global) count_global(c, address, global, size, KIND_ATOMIC);
    if (shared) count_shared(c, address, shared, size, KIND_ATOMIC);
}
