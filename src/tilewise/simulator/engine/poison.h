// Poison: shared-memory words never written, and what a shuffle reads from a lane that does not take part.
// Reading poison is legal, since kernels load a whole tile and use part of it; it is a hazard once it reaches
// a store, an address or a branch. Until then it propagates through registers (a result is poison if an
// operand is) and a thread's local memory.
//
// Each warp has, per register, a mask of poisoned lanes and the origin. Before the first poison value neither
// exists and the check is free; from then on every instruction of the warp goes through follow_poison,
// because L->limit is 0.

// Origin of a poison value: the instruction that read it, and what it read.
typedef struct Origin { const Ins *in; s32 kind, thread, size, from, why; u64 address; } Origin;
#define MOST_ORIGINS 254
typedef struct Poison { u32 *lanes; u8 *origin; u32 steps; } Poison;
enum { TO_STORE = 1, TO_ADDRESS, TO_BRANCH, TO_ATOMIC, TO_OTHER };  // Hazard.agent: where it was used
enum { GONE_ELSEWHERE, GONE_EXITED, GONE_ABSENT };                  // why a lane does not take part

static int is_ignored(const Launch *L, int kind) { return (int)(L->ignored >> kind & 1); }

// Index of an origin, from 1; one per instruction. 0 if poison is not tracked.
static int origin_of(Block *B, const Ins *in, int thread, int kind, u64 address, int size, int from, int why) {
    if (is_ignored(B->L, kind)) return 0;
    if (!B->origins) B->origins = calloc(MOST_ORIGINS + 1, sizeof(Origin));
    if (!B->origins) { B->stop = NO_MEMORY; return 0; }
    for (int k = 1; k <= B->n_origins; k++) if (B->origins[k].in == in && B->origins[k].kind == kind) return k;
    const int number = B->n_origins < MOST_ORIGINS ? ++B->n_origins : MOST_ORIGINS;
    B->origins[number] = (Origin){in, kind, thread, size, from, why, address};
    return number;
}

static Poison *poison_of(Block *B, Warp *W, int w) {
    const size_t units = (size_t)(B->L->units ? B->L->units : 1);
    if (!B->poison) B->poison = calloc((size_t)B->n_warps, sizeof(Poison));
    if (!B->poison) { B->stop = NO_MEMORY; return 0; }
    Poison *p = &B->poison[w];
    if (W->poisoned) return p;
    if (!p->lanes) { p->lanes = malloc(units * 4); p->origin = malloc(units); }
    if (!p->lanes || !p->origin) { B->stop = NO_MEMORY; return 0; }
    memset(p->lanes, 0, units * 4); p->steps = 0;
    W->poisoned = 1; B->L->limit = 0;
    return p;
}

// Marks lanes of a register as poison.
static void taint(Block *B, Warp *W, int w, s32 slot, u32 lanes, int origin) {
    if (!lanes || !origin || slot < 0 || slot == NO_SLOT) return;
    Poison *p = poison_of(B, W, w);
    if (!p) return;
    p->lanes[slot] |= lanes; p->origin[slot] = (u8)origin;
}

static u32 tainted(const Block *B, const Warp *W, int w, s32 slot) {
    return W->poisoned && slot >= 0 && slot != NO_SLOT ? B->poison[w].lanes[slot] : 0;
}

// Poison was used: the hazard is at the read and names the use.
static void used(Block *B, const Ins *in, int w, int origin, u32 lanes, int use) {
    const Origin from = B->origins[origin];
    Hazard *h = hazard(B, from.in, from.thread / 32, from.thread % 32, from.kind);
    if (!h) return;
    h->address = from.address; h->size = from.size; h->index = from.from; h->write = from.why;
    h->agent = use; h->other_line = in->line; h->other_warp = w; h->other_lane = __builtin_ctz(lanes) + 1;
}

// Reports, once, the use of a register's poisoned lanes.
static void use_register(Block *B, const Ins *in, Warp *W, int w, s32 slot, u32 mask, int use) {
    const u32 lanes = tainted(B, W, w, slot) & mask;
    if (!lanes || B->stop) return;
    B->poison[w].lanes[slot] &= ~lanes;
    used(B, in, w, B->poison[w].origin[slot], lanes, use);
}

static void settle_results(Poison *p, const Ins *in, u32 mask, u32 on, int origin) {
    for (int k = 0; k < 4; k++) {
        const s32 d = in->d[k];
        if (d < 0 || d == NO_SLOT) continue;
        p->lanes[d] = (p->lanes[d] & ~mask) | on;
        if (on) p->origin[d] = (u8)origin;
    }
}

// Propagates poison through an instruction. Cross-lane operands are handled once the lanes have synchronised
// (lanes.h, matrix.h).
static void follow_poison(Block *B, Warp *W, int w, const Ins *in, u32 group, u32 mask) {
    Launch *L = B->L; Poison *p = &B->poison[w]; const u32 *lanes = p->lanes;
    if (!(++p->steps & 255)) {
        u32 any = 0;
        for (s64 k = 0; k < L->units; k++) any |= lanes[k];
        if (!any) { W->poisoned = 0; if (!W->wgmma) L->limit = L->last; return; }
    }
    if (in->pred >= 0 && in->pred != NO_SLOT) use_register(B, in, W, w, in->pred, group, TO_BRANCH);
    const s32 from[4] = {in->flags & USES_A ? in->a : -1, in->flags & USES_B ? in->b : -1,
                         in->flags & USES_C ? in->c : -1, in->flags & USES_E ? in->e : -1};
    switch ((enum op)in->op) {
    case OP_shfl: case OP_vote: case OP_match: case OP_redux: case OP_mma: case OP_elect: case OP_watch: return;
    case OP_ld: case OP_st: case OP_ldmatrix: case OP_stmatrix: {
        use_register(B, in, W, w, from[0], mask, TO_ADDRESS);
        if (!(in->flags & USES_D)) { if (in->op == OP_ld) settle_results(p, in, mask, 0, 0); return; }
        u32 elsewhere = mask;  // stores to local memory are tracked there
        if (in->type == SPACE_LOCAL) return;
        if (in->type == SPACE_GENERIC) {
            const u64 *base = REG64(in->a);
            EACH(if (base[l] + (u64)in->imm - LOCAL_BASE < WINDOW) elsewhere &= ~(1u << l))
        }
        for (int k = 0; k < in->sub; k++) use_register(B, in, W, w, in->d[k], elsewhere, TO_STORE);
        return; }
    case OP_atom:
        use_register(B, in, W, w, from[0], mask, TO_ADDRESS);
        for (int k = 1; k < 3; k++) use_register(B, in, W, w, from[k], mask, TO_ATOMIC);
        settle_results(p, in, mask, 0, 0);
        return;
    case OP_bar: case OP_bar_arrive: case OP_brx:
        for (int k = 0; k < 4; k++) use_register(B, in, W, w, from[k], mask, TO_BRANCH);
        return;
    case OP_cp_async: case OP_mbarrier: case OP_mbarrier_wait: case OP_bulk: case OP_st_async: case OP_tensor:
    case OP_print: case OP_setmaxnreg:
        for (int k = 0; k < 4; k++) use_register(B, in, W, w, from[k], mask, TO_OTHER);
        settle_results(p, in, in->op == OP_mbarrier || in->op == OP_mbarrier_wait || in->op == OP_print
            ? mask : 0, 0, 0);
        return;
    case OP_wgmma: case OP_wgmma_fence: case OP_wgmma_commit: case OP_wgmma_wait: return;
    default: break;
    }
    u32 on = 0; int origin = 0;
    for (int k = 0; k < 4; k++) {
        const u32 here = from[k] >= 0 && from[k] != NO_SLOT ? lanes[from[k]] & mask : 0;
        if (here) { on |= here; origin = p->origin[from[k]]; }
    }
    if (on && (in->op == OP_selp_32 || in->op == OP_selp_64)) {  // unselected operands do not count
        const u32 a = from[0] >= 0 ? lanes[from[0]] : 0, b = from[1] >= 0 ? lanes[from[1]] : 0,
            c = from[2] >= 0 ? lanes[from[2]] : 0, *which = REG(in->c);
        u32 first = 0;
        EACH(first |= (which[l] & 1) << l)
        on = mask & (c | (first & a) | (~first & b));
        origin = on & c ? p->origin[from[2]] : on & first ? p->origin[from[0]] : on ? p->origin[from[1]] : 0;
    } else if (on && (in->op == OP_and_32 || in->op == OP_or_32)) {  // nor what the other operand masks
        const u32 a = from[0] >= 0 ? lanes[from[0]] : 0, b = from[1] >= 0 ? lanes[from[1]] : 0,
            *x = REG(in->a), *y = REG(in->b), decides = in->op == OP_and_32 ? 0 : FULL;
        const u32 one = in->op == OP_or_32;  // a predicate is one bit, stored as 1
        EACH(if (!(a >> l & 1) && (x[l] == decides || (one && x[l] == 1 && (in->flags & ONE_BIT)))) on &= ~(1u << l);
             if (!(b >> l & 1) && (y[l] == decides || (one && y[l] == 1 && (in->flags & ONE_BIT)))) on &= ~(1u << l);)
    }
    settle_results(p, in, mask, on, origin);
}

// A shuffle: each lane reads from lane source[l]; `absent`: lanes without a source.
static void follow_shuffle(Block *B, Warp *W, int w, const Ins *in, u32 mask, const u8 *source, u32 absent,
    u32 live) {
    if (W->poisoned) {
        const u32 value = tainted(B, W, w, in->a);
        const u32 how = (in->flags & USES_B ? tainted(B, W, w, in->b) : 0) | (in->flags & USES_C
            ? tainted(B, W, w, in->c) : 0);
        u32 got = how & mask;
        EACH(got |= (value >> source[l] & 1) << l)
        Poison *p = &B->poison[w];
        const int origin = value ? p->origin[in->a] : how ? p->origin[(in->flags & USES_B)
            && tainted(B, W, w, in->b) ? in->b : in->c] : 0;
        settle_results(p, in, mask, got, origin);
        if (in->d[1] >= 0 && in->d[1] != NO_SLOT) p->lanes[in->d[1]] &= ~(mask & ~how);
    }
    if (!absent) return;
    const int l = __builtin_ctz(absent), from = source[l];
    const int why = !(W->present >> from & 1) ? GONE_ABSENT : live >> from & 1 ? GONE_ELSEWHERE : GONE_EXITED;
    taint(B, W, w, in->d[0], absent, origin_of(B, in, w * 32 + l, H_SHUFFLE, 0, 0, from, why));
}

// A vote, match or reduction: the result is poison if an operand of a named lane is.
static void follow_together(Block *B, Warp *W, int w, const Ins *in, u32 mask) {
    if (!W->poisoned) return;
    Launch *L = B->L; const u32 *named = REG(in->e), value = tainted(B, W, w, in->a) & mask; u32 on = 0;
    EACH(on |= (u32)((value & named[l]) != 0) << l)
    if (on && in->op == OP_vote && in->sub < 2) {  // one clean lane may decide
        const u32 *a = REG(in->a);
        EACH(for (u32 r = mask & named[l] & ~value; r; r &= r - 1) {
            const u32 p = (a[__builtin_ctz(r)] & 1) ^ (in->flags & OTHER_NEGATED ? 1u : 0u);
            if (p == (u32)in->sub) on &= ~(1u << l); })
    }
    settle_results(&B->poison[w], in, mask, on, on ? B->poison[w].origin[in->a] : 0);
}

// Whether any byte of a shared-memory range was never written.
static int is_unwritten(const Block *T, u64 offset, int size) {
    const int shift = __builtin_ctz((u32)T->L->shared_grain);
    for (u64 at = offset >> shift; at <= (offset + (u64)size - 1) >> shift; at++)
        if (!T->shadow[at].initialised) return 1;
    return 0;
}

// Poisons a register if a lane loaded unwritten bytes.
static void taint_unwritten(Block *B, const Block *T, Warp *W, int w, int l, const Ins *in, s32 slot, u64 offset,
    int size) {
    if (is_unwritten(T, offset, size))
        taint(B, W, w, slot, 1u << l, origin_of(B, in, w * 32 + l, H_UNINITIALISED, offset, size, 0, 0));
}

// Tracks poison in a lane's local memory: one byte per byte, its origin's index.
static void follow_local(Block *B, Warp *W, int w, int l, s32 slot, const u8 *p, int size, int kind) {
    const s64 bytes = (s64)B->n_warps * 32 * B->L->local_bytes;
    const u32 on = tainted(B, W, w, slot) >> l & 1;
    if (!B->local_origin) {
        if (kind == KIND_LOAD || !on) return;
        if (!(B->local_origin = calloc((size_t)bytes, 1))) { B->stop = NO_MEMORY; return; }
    }
    u8 *at = B->local_origin + (p - B->local);
    if (kind == KIND_STORE) { memset(at, on ? B->poison[w].origin[slot] : 0, (size_t)size); return; }
    for (int k = 0; k < size; k++) if (at[k]) { taint(B, W, w, slot, 1u << l, at[k]); return; }
}

static void end_poison(Block *B) {
    for (int w = 0; B->poison && w < B->n_warps; w++) { free(B->poison[w].lanes); free(B->poison[w].origin); }
    free(B->poison); free(B->origins); free(B->local_origin);
}
