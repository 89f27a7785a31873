// Block barriers: which may complete, what each warp learns from them, and deadlock diagnosis.
//
// Exited threads are not waited for, as the PTX ISA says of exit: a barrier for the whole block completes
// when every live thread waits there, with a note if some had exited. An exit does not release a barrier with
// a thread count, but arrivals are per warp: once all live lanes of a warp wait, its exited lanes count too.

// Lanes waiting at barrier `id`.
static u32 waiting_at(const Warp *W, int id) {
    const u32 waiting = lanes_in(W, LANE_PARKED);
    return waiting ? waiting & MASK_OF(lanes_s32(W->bar_id) == id) : 0;
}

// Whether any thread of a block is waiting at a barrier.
static int parked(const Block *B) {
    for (int w = 0; w < B->n_warps; w++) if (lanes_in(&B->warps[w], LANE_PARKED)) return 1;
    return 0;
}

// Number of live threads in a block.
static int live_threads(const Block *B) {
    int live = 0;
    for (int w = 0; w < B->n_warps; w++)
        live += __builtin_popcount(B->warps[w].present & ~lanes_in(&B->warps[w], LANE_EXITED));
    return live;
}

// Threads of a warp that count as arrived at a barrier with a thread count.
static int counted_at(const Warp *W, int id) {
    const u32 here = waiting_at(W, id), exited = lanes_in(W, LANE_EXITED);
    return __builtin_popcount(here && (here | exited) == W->present ? W->present : here);
}

// Notes, once per line, that a barrier completed without threads that had exited.
static void note_exited(Block *B, int line, int exited) {
    Launch *L = B->L;
    for (s64 i = 0; i < L->n_notes; i++) if (L->notes[i].line == line) { L->notes[i].count++; return; }
    if (L->n_notes == L->max_notes) return;
    Hazard *note = &L->notes[L->n_notes++];
    memset(note, 0, sizeof *note);
    note->line = line; note->block = (s32)B->block; note->count = 1; note->size = exited;
    for (int w = 0; w < B->n_warps; w++) {
        const u32 gone = lanes_in(&B->warps[w], LANE_EXITED);
        if (gone) { note->thread = w * 32 + __builtin_ctz(gone); return; }
    }
}

// __syncthreads_count, _and, _or: reduces the predicates of all threads.
static void reduce_barrier(Block *B, int id) {
    Launch *L = B->L; u32 count = 0, and = 1, or = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int w = 0; w < B->n_warps; w++) for (u32 r = waiting_at(&B->warps[w], id); r; r &= r - 1) {
            Warp *W = &B->warps[w]; const int l = __builtin_ctz(r);
            const Ins *in = &L->code[W->bar_pc[l]];
            if (!in->sub) continue;
            u32 p = (REG(in->c)[l] & 1) ^ (in->flags & OTHER_NEGATED ? 1u : 0u);
            if (pass) REG(in->d[0])[l] = in->sub == 1 ? count : in->sub == 2 ? and : or;
            else { count += p; and &= p; or |= p; }
        }
}

// Completes every barrier that all its threads have reached. Returns how many.
static int release(Block *B) {
    int released = 0; u32 named = 0;
    const int live = live_threads(B);
    for (int w = 0; w < B->n_warps; w++)
        for (u32 r = lanes_in(&B->warps[w], LANE_PARKED); r; r &= r - 1) {
            const u32 id = (u32)B->warps[w].bar_id[__builtin_ctz(r)];
            if (id < 16) named |= 1u << id;
        }
    for (; named; named &= named - 1) {
        const int id = __builtin_ctz(named);
        int here = 0, counted = B->came[id], wanted = EVERYBODY, warp = -1, lane = 0, other = -1, parted = 0;
        for (int w = 0; w < B->n_warps; w++) {
            int first = -1;
            counted += counted_at(&B->warps[w], id);
            for (u32 r = waiting_at(&B->warps[w], id); r; r &= r - 1) {
                Warp *W = &B->warps[w]; const int l = __builtin_ctz(r);
                here++; wanted = W->bar_count[l];
                if (warp < 0) { warp = w; lane = l; }
                if (first < 0) first = l;
                else if (other < 0 && W->bar_line[l] != W->bar_line[first]) { other = w * 32 + l; parted = first; }
            }
        }
        if (warp < 0 || (wanted == EVERYBODY ? here < live && counted < B->threads : counted < wanted))
            continue;
        if (id == 0 && other >= 0) {  // lanes of one warp at two different __syncthreads; warps may differ
            const Warp *W = &B->warps[other / 32];
            Ins where = {0}; where.line = W->bar_line[parted];
            Hazard *h = hazard(B, &where, other / 32, parted, H_BARRIER);
            if (h) { h->index = other; h->size = -1; h->other_line = W->bar_line[other % 32]; }
            if (B->stop) return 0;
        }
        if (wanted == EVERYBODY && live < B->threads)
            note_exited(B, B->warps[warp].bar_line[lane], B->threads - live);
        reduce_barrier(B, id);
        u32 *known = B->came_vc + (s64)id * B->clocks; u32 in[32];
        for (int w = 0; w < B->n_warps; w++) {
            Warp *W = &B->warps[w];
            if ((in[w] = waiting_at(W, id))) join(known, W->clock, B->clocks);
        }
        for (int w = 0; w < B->n_warps; w++) if (in[w]) {
            Warp *W = &B->warps[w];
            for (u32 r = in[w]; r; r &= r - 1) W->state[__builtin_ctz(r)] = LANE_RUNNING;
            memcpy(W->clock, known, (size_t)B->clocks * 4); W->vc[w]++; W->done = 0;
            W->skipped = 0;
        }
        B->came[id] = 0; memset(known, 0, (size_t)B->clocks * 4);
        released++; B->interval++;
    }
    return released;
}

static void stuck(Block *B) {  // deadlock: threads wait for others that never arrive
    Launch *L = B->L;
    for (int w = 0; w < B->n_warps; w++) for (int l = 0; l < 32; l++) {
        Warp *W = &B->warps[w];
        if ((W->present >> l & 1) && W->state[l] == LANE_PARKED) {
            Ins where = {0}; where.line = W->bar_line[l];
            int missing_warp = -1, missing_lane = 0, arrived = 0;
            for (int v = 0; v < B->n_warps; v++) for (int k = 0; k < 32; k++)
                if (B->warps[v].present >> k & 1) {
                const int here = B->warps[v].state[k] == LANE_PARKED
                    && B->warps[v].bar_id[k] == W->bar_id[l];
                arrived += here;
                if (!here && missing_warp < 0 && B->warps[v].state[k] != LANE_EXITED) {
                    missing_warp = v; missing_lane = k; }
            }
            Hazard *h = hazard(B, &where, w, l, H_BARRIER);
            if (h) { h->other_warp = missing_warp; h->size = arrived;
                h->index = missing_warp < 0 ? -1 : missing_warp * 32 + missing_lane;
                h->address = (u64)(missing_warp < 0 ? W->bar_count[l] : live_threads(B)); }
            goto named;
        }
    }
named:
    if (!L->collect) { B->stop = 1; return; }
    for (int w = 0; w < B->n_warps; w++) for (int l = 0; l < 32; l++)
        if (B->warps[w].state[l] == LANE_PARKED) B->warps[w].state[l] = LANE_RUNNING;
    B->interval++;
}
