// Warps that diverge at a barrier: some lanes wait there, others run past it and exit. The barrier would not
// wait for exited threads, but CUDA leaves its behaviour undefined if some lanes of a warp skip it. An early
// return is legal. The two differ in where the other lanes go: after an early return they reach only an exit;
// lanes that skip the barrier also run code that follows it.

static int ends_here(const Ins *in) { return (in->op == OP_exit || in->op == OP_ret) && in->pred == NO_SLOT; }

// Marks the code reachable from `from` without executing `without`; returns whether it includes an exit.
static int reach_from(const Launch *L, s32 from, s32 without, u8 *seen, s32 *stack) {
    s32 n = 0; int exits = 0;
    memset(seen, 0, (size_t)L->n_code);
#define VISIT(to) do { const s32 at = (to); \
    if (at >= 0 && at < L->n_code && at != without && !seen[at]) { seen[at] = 1; stack[n++] = at; } } while (0)
    VISIT(from);
    while (n) {
        const s32 pc = stack[--n]; const Ins *in = &L->code[pc];
        if (in->op == OP_exit || in->op == OP_ret) exits = 1;
        if (ends_here(in) || in->op == OP_trap) continue;
        if (in->op == OP_bra) VISIT(in->target);
        if (in->op == OP_brx)
            for (s32 k = 0; k <= (s32)in->sub; k++) VISIT(((const s32 *)(uintptr_t)in->imm)[k]);
        if ((in->op != OP_bra && in->op != OP_brx) || in->pred != NO_SLOT) VISIT(pc + 1);
    }
#undef VISIT
    return exits;
}

// The last instruction before the exit on every path from a barrier; -1 if there is none.
static s32 last_after(const Launch *L, s32 bar, u8 *seen, s32 *stack) {
    for (s32 at = (s32)L->n_code - 1; at > bar; at--) {
        const Ins *in = &L->code[at];
        const int moves_on = in->op == OP_bra && in->pred == NO_SLOT;
        if (ends_here(in) || (moves_on && ends_here(&L->code[in->target]))) continue;
        if (!reach_from(L, bar + 1, at, seen, stack)) return at;
    }
    return -1;
}

// Some lanes of a warp wait at a barrier: marks the others that can run past it.
static void look_for_skips(const Launch *L, Warp *W, s32 bar) {
    const u32 others = live_lanes(L, W) & ~lanes_in(W, LANE_PARKED) & ~W->skipped;
    if (!others) return;
    u8 *seen = malloc((size_t)L->n_code); s32 *stack = malloc((size_t)L->n_code * sizeof(s32));
    const s32 last = seen && stack ? last_after(L, bar, seen, stack) : -1;
    if (last >= 0)
        for (u32 r = others; r; r &= r - 1) {
            const int l = __builtin_ctz(r);
            if (W->depth[l]) continue;
            reach_from(L, W->pc[l], bar, seen, stack);
            if (seen[last]) W->skipped |= 1u << l;
        }
    free(seen); free(stack);
}

// A lane that skipped a barrier where others of its warp wait has exited.
static void parted_at_barrier(Block *B, Warp *W, int w) {
    const u32 waiting = lanes_in(W, LANE_PARKED), exited = W->skipped & lanes_in(W, LANE_EXITED);
    W->skipped &= ~exited;
    if (!waiting) return;
    const int l = __builtin_ctz(waiting);
    Ins where = {0}; where.line = W->bar_line[l];
    Hazard *h = hazard(B, &where, w, l, H_BARRIER);
    if (h) { h->index = w * 32 + __builtin_ctz(exited); h->size = -2; }
}
