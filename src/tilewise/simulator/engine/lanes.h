// Special registers, and instructions that need the other lanes of their warp.

static u32 special(Block *B, int w, int l, int which) {
    Launch *L = B->L; int t = w * 32 + l, bx = L->block[0], by = L->block[1];
    switch ((enum special)which) {
    case S_tid_x: return (u32)(t % bx); case S_tid_y: return (u32)(t / bx % by);
    case S_tid_z: return (u32)(t / (bx * by));
    case S_ntid_x: return (u32)bx; case S_ntid_y: return (u32)by; case S_ntid_z: return (u32)L->block[2];
    case S_ctaid_x: return (u32)B->block_x; case S_ctaid_y: return (u32)B->block_y;
    case S_ctaid_z: return (u32)B->block_z;
    case S_nctaid_x: return (u32)L->grid[0]; case S_nctaid_y: return (u32)L->grid[1];
    case S_nctaid_z: return (u32)L->grid[2];
    case S_laneid: return (u32)l; case S_warpid: return (u32)w; case S_nwarpid: return 64;
    case S_smid: return (u32)(B->block % L->sm_count); case S_nsmid: return (u32)L->sm_count;
    case S_lanemask_eq: return 1u << l; case S_lanemask_lt: return (1u << l) - 1;
    case S_lanemask_le: return l == 31 ? FULL : (2u << l) - 1;
    case S_lanemask_gt: return l == 31 ? 0 : ~((2u << l) - 1); case S_lanemask_ge: return ~((1u << l) - 1);
    case S_clock: return 0;
    case S_cluster_ctaid_x: return (u32)(B->rank % L->cluster[0]);
    case S_cluster_ctaid_y: return (u32)(B->rank / L->cluster[0] % L->cluster[1]);
    case S_cluster_ctaid_z: return (u32)(B->rank / (L->cluster[0] * L->cluster[1]));
    case S_cluster_nctaid_x: return (u32)L->cluster[0]; case S_cluster_nctaid_y: return (u32)L->cluster[1];
    case S_cluster_nctaid_z: return (u32)L->cluster[2];
    case S_cluster_ctarank: return (u32)B->rank;
    case S_cluster_nctarank: return (u32)(L->cluster[0] * L->cluster[1] * L->cluster[2]);
    case S_clusterid_x: return (u32)(B->block_x / L->cluster[0]);
    case S_clusterid_y: return (u32)(B->block_y / L->cluster[1]);
    case S_clusterid_z: return (u32)(B->block_z / L->cluster[2]);
    case S_nclusterid_x: return (u32)(L->grid[0] / L->cluster[0]);
    case S_nclusterid_y: return (u32)(L->grid[1] / L->cluster[1]);
    case S_nclusterid_z: return (u32)(L->grid[2] / L->cluster[2]);
    case S_is_explicit_cluster: return L->cluster[0] * L->cluster[1] * L->cluster[2] > 1;
    }
    return 0;
}

// Live lanes that are not about to exit: an early return counts as an exit even if its lanes run last.
static u32 live_lanes(const Launch *L, const Warp *W) {
    u32 live = 0;
    for (int l = 0; l < 32; l++) {
        if (!(W->present >> l & 1) || W->state[l] == LANE_EXITED) continue;
        const Ins *in = &L->code[W->pc[l]];
        if (in->op == OP_bra && in->pred == NO_SLOT) in = &L->code[in->target];
        live |= (u32)!(W->state[l] == LANE_RUNNING && in->op == OP_exit && in->pred == NO_SLOT) << l;
    }
    return live;
}

// Whether all lanes named by an instruction have arrived. If some are still to come, these lanes wait and
// re-execute the instruction; if they can never arrive, that is a hazard. Exited lanes are not required.
static int gathered(Block *B, Warp *W, int w, const Ins *in, s32 pc, u32 mask) {
    Launch *L = B->L; u32 named = 0, waiting = 0, live = live_lanes(L, W), expected = 0;
    EACH(named |= REG(in->e)[l])
    for (int l = 0; l < 32; l++) waiting |= (u32)(W->state[l] == LANE_WAITING && W->pc[l] == pc) << l;
    for (u32 r = mask | waiting; r; r &= r - 1) expected |= W->expected[__builtin_ctz(r)];
    u32 absent = named & (live | expected) & ~(mask | waiting);
    if (waiting || (absent && !W->forced)) {
        u32 all = mask | waiting;
        for (; all; all &= all - 1) { int l = __builtin_ctz(all); W->pc[l] = pc;
            W->state[l] = absent && !W->forced ? LANE_WAITING : LANE_RUNNING; W->expected[l] = absent; }
        return 0;
    }
    W->forced = 0;
    EACH(W->expected[l] = 0)
    if (absent || (mask & ~named)) {
        const int here = __builtin_ctz(absent ? mask : mask & ~named);
        Hazard *h = hazard(B, in, w, here, H_SHUFFLE);
        if (h) { h->index = absent ? __builtin_ctz(absent) : -1; h->address = named; }
    }
    return 1;
}

// Only some lanes execute an instruction that needs the whole warp.
static void not_whole(Block *B, const Ins *in, int w, u32 mask) {
    Hazard *h = hazard(B, in, w, __builtin_ctz(mask), H_SHUFFLE);
    if (h) { h->index = -2; h->size = __builtin_popcount(mask); }
}

// Lanes that had yet to reach an instruction when the lanes of `mask` started waiting there.
static u32 named_late(const Warp *W, u32 mask) {
    u32 late = 0;
    EACH(late |= W->expected[l])
    return late;
}

// No lane of the warp can run: releases waiting lanes. Lanes at several __syncwarps have synchronised if
// together they are all the lanes named. Returns whether any lane can run.
static int release_waiting(Block *B, int w) {
    Launch *L = B->L; Warp *W = &B->warps[w]; u32 at_sync = 0, named = 0, waiting = 0; s32 lowest = INT32_MAX;
    for (int l = 0; l < 32; l++) if ((W->present >> l & 1) && W->state[l] == LANE_WAITING) {
        const Ins *in = &L->code[W->pc[l]];
        waiting |= 1u << l;
        if (in->op == OP_warp_sync) { at_sync |= 1u << l; named |= REG(in->e)[l]; }
        if (W->pc[l] < lowest) lowest = W->pc[l];
    }
    if (!waiting) return 0;
    int asleep = 0;
    for (int l = 0; l < 32; l++) asleep |= W->state[l] == LANE_BLOCKED;
    if (at_sync && !(named & W->present & ~at_sync & (live_lanes(L, W) | named_late(W, at_sync)))) {
        for (; at_sync; at_sync &= at_sync - 1) { int l = __builtin_ctz(at_sync); W->expected[l] = 0;
            W->state[l] = LANE_RUNNING; W->pc[l]++; }
        return 1;
    }
    if (asleep) return 0;  // they may still arrive
    for (int l = 0; l < 32; l++) if ((waiting >> l & 1) && W->pc[l] == lowest) W->state[l] = LANE_RUNNING;
    W->forced = 1;
    return 1;
}

static void shuffle(Block *B, Warp *W, int w, const Ins *in, u32 mask) {
    Launch *L = B->L;
    const u32 *a = REG(in->a), *b = REG(in->b), *c = REG(in->c);
    u32 value[32], ok[32], absent = 0; u8 source[32];
    EACH({
        int top = (int)(c[l] & 31), seg = (int)(c[l] >> 8 & 31), by = (int)(b[l] & 31), low = l & seg,
            high = (l & seg) | (top & ~seg), from = 0, inside = 0;
        switch ((enum shuffle)in->sub) {
        case X_up: from = l - by; inside = from >= high; break;
        case X_down: from = l + by; inside = from <= high; break;
        case X_bfly: from = l ^ by; inside = from <= high; break;
        case X_idx: from = low | (by & ~seg); inside = from <= high; break; }
        if (!inside) from = l;
        value[l] = a[from & 31]; ok[l] = (u32)inside;
        source[l] = (u8)(from & 31);
        if (inside && !(mask >> from & 1)) { absent |= 1u << l; value[l] = (u32)POISON; }
    })
    EACH({ REG(in->d[0])[l] = value[l]; if (in->d[1] != NO_SLOT) REG(in->d[1])[l] = ok[l]; })
    if (W->poisoned || absent) follow_shuffle(B, W, w, in, mask, source, absent,
        live_lanes(L, W));
}

// match.any and, with in->sub, match.all: masks of lanes with equal values.
static void match(const Launch *L, const Warp *W, const Ins *in, u32 mask) {
    u64 value[32]; u32 same[32]; const u32 *named = REG(in->e);  // subsets of a warp may be here at once
    EACH(value[l] = in->type == T_u64 ? REG64(in->a)[l] : REG(in->a)[l])
    EACH({ same[l] = 0; for (int k = 0; k < 32; k++) if ((mask & named[l]) >> k & 1
        && value[k] == value[l]) same[l] |= 1u << k; })
    EACH({ const int all = same[l] == (mask & named[l]);
           if (in->d[0] != NO_SLOT) REG(in->d[0])[l] = in->sub && !all ? 0 : same[l];
           if (in->d[1] != NO_SLOT) REG(in->d[1])[l] = (u32)all; })
}

// redux.sync: each lane gets the reduction over the lanes it names.
static void reduce_lanes(const Launch *L, const Warp *W, const Ins *in, u32 mask) {
    const u32 *a = REG(in->a), *named = REG(in->e); u32 result[32], done = 0;
    const int is_signed = in->type == T_s32;
    EACH({
        if (done >> l & 1) continue;
        const u32 members = mask & named[l];
        u32 r = a[l];
        for (u32 rest = members & ~(1u << l); rest; rest &= rest - 1) {
            const u32 v = a[__builtin_ctz(rest)];
            switch ((enum atomic)in->sub) {
            case A_add: r += v; break; case A_and: r &= v; break; case A_or: r |= v; break;
            case A_xor: r ^= v; break;
            case A_min: r = (is_signed ? (s32)v < (s32)r : v < r) ? v : r; break;
            case A_max: r = (is_signed ? (s32)v > (s32)r : v > r) ? v : r; break;
            default: break;
            }
        }
        for (u32 rest = members | 1u << l; rest; rest &= rest - 1) {
            const int k = __builtin_ctz(rest);
            if (named[k] == named[l]) { result[k] = r; done |= 1u << k; }
        }
    })
    EACH(REG(in->d[0])[l] = result[l])
}

// Cluster barrier: lanes arrive or, with OP_cluster_wait, wait. Returns the lanes that must sleep.
static u32 meet_cluster(Block *B, Warp *W, int w, const Ins *in, u32 mask) {
    Cluster *C = B->cluster; u32 asleep = 0; const int arriving = in->op == OP_cluster_arrive;
    EACH({
        if (arriving ? W->met[l] : !W->met[l]) {  // two arrivals without a wait, or a wait without an arrival
            Hazard *h = hazard(B, in, w, l, H_CLUSTER);
            if (h) { h->index = arriving ? 4 : 5; h->other_block = (s32)B->block; }
            if (B->stop) return 0;
            continue;
        }
        if (arriving) {
            W->met[l] = 1; W->meeting[l] = C->meeting;
            join(C->meeting_clock, in->flags & RELAXED ? B->initialised + (s64)w * B->clocks : W->clock,
                B->clocks);
        } else if (W->meeting[l] == C->meeting) {
            W->state[l] = LANE_BLOCKED; W->blocked_on[l] = ON_CLUSTER; W->awaited[l] = C->meeting;
            asleep |= 1u << l;
        } else { W->met[l] = 0; join(W->clock, C->met, B->clocks); }
    })
    if (arriving) { B->L->counts[in->line].barriers += mask != 0; W->vc[w]++; }
    return asleep;
}

#define GATHER if (mask && !gathered(B, W, w, in, pc, mask)) { \
    for (u32 r = group & ~mask; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc + 1; jumped = 1; break; \
    } W->epoch++;
