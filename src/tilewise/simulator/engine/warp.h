// The interpreter: runs one warp until each lane has exited or waits at a barrier.

// The slice is over: restore the state before this instruction. Or the kernel has used up its steps.
static void out_of_steps(Block *B, int w, const Ins *in, u32 group, u32 mask, s32 pc) {
    Launch *L = B->L; Warp *W = &B->warps[w]; Count *c = &L->counts[in->line];
    if (L->steps > L->max_steps) { hazard(B, in, w, __builtin_ctz(group), H_STEPS);
        B->stop = TOO_MANY_STEPS; return; }
    L->steps--; W->issued--; c->issued--; c->active_lanes -= (u64)__builtin_popcount(mask);
    for (; group; group &= group - 1) W->pc[__builtin_ctz(group)] = pc;
    B->stop = PAUSED;
}

// Past the step limit: the slice is over, or this warp has wgmma results or poison to track. Returns whether
// to stop.
static int beyond(Block *B, int w, const Ins *in, u32 group, u32 mask, s32 pc) {
    Warp *W = &B->warps[w];
    if (W->wgmma || W->poisoned) {
        if (B->L->steps <= B->L->last && W->wgmma) watch_registers(B, w, in, mask);
        if (B->L->steps <= B->L->last && W->poisoned && !B->stop) follow_poison(B, W, w, in, group, mask);
        if (B->stop || B->L->steps <= B->L->last) return B->stop;
    }
    out_of_steps(B, w, in, group, mask, pc);
    return 1;
}

// Lanes sleep at an instruction, which is not issued yet, and re-execute it on waking. The others continue.
static void sleep_at(Block *B, int w, const Ins *in, u32 group, u32 asleep, u32 mask, s32 pc) {
    Warp *W = &B->warps[w]; Count *c = &B->L->counts[in->line];
    c->active_lanes -= (u64)__builtin_popcount(asleep);
    if (asleep == mask) { c->issued--; W->issued--; }
    for (u32 r = group; r; r &= r - 1) { const int l = __builtin_ctz(r); W->pc[l] = pc + !(asleep >> l & 1); }
}

// Pure computation is kept out of run_warp: compile time is quadratic in a function's length. The cases are
// spread over four files; shared.def has floats and halves before integers, and control last.
#define APART static __attribute__((noinline)) void

APART run_halves(const Launch *L, Warp *W, const Ins *in, u32 mask) {
    switch ((enum op)in->op) {
#include "half_cases.h"
    default: break;
    }
}

APART run_floats(const Launch *L, Warp *W, const Ins *in, u32 mask) {
    switch ((enum op)in->op) {
#include "float_cases.h"
    default: run_halves(L, W, in, mask);
    }
}

APART run_integers(Block *B, Warp *W, int w, const Ins *in, u32 mask) {
    Launch *L = B->L;
    switch ((enum op)in->op) {
#include "integer_cases.h"
    default: break;
    }
}

// Runs a warp until each lane has exited or waits at a barrier.
static void run_warp(Block *B, int w) {
    Launch *L = B->L; Warp *W = &B->warps[w]; const Ins *code = L->code;
    L->limit = W->wgmma || W->poisoned ? 0 : L->last;
    while (!B->stop) {
        s32 pc = INT32_MAX, next = INT32_MAX;
        u32 mask = lowest_lanes(W, lanes_in(W, LANE_RUNNING), &pc, &next);
        if (!mask) { if (release_waiting(B, w)) continue; return; }
        const u32 group = mask;
        for (;;) {  // straight-line while these lanes stay together and lowest
            const Ins *in = &code[pc];
            mask = group;
            if (in->pred != NO_SLOT) {
                const u32 on = lanes_true(REG(in->pred));
                mask &= in->flags & NEGATED ? ~on : on;
            }
            Count *c = &L->counts[in->line];
            c->issued++; c->active_lanes += (u64)__builtin_popcount(mask);
            W->issued++;
            if (++L->steps > L->limit && beyond(B, w, in, group, mask, pc)) return;
            int jumped = 0;
            switch ((enum op)in->op) {
            case OP_nop: break;
            case OP_ld: access_memory(B, W, w, in, mask, KIND_LOAD); break;
            case OP_st: access_memory(B, W, w, in, mask, KIND_STORE); break;
            case OP_atom: atomic_memory(B, W, w, in, mask); break;
            case OP_mma: case OP_ldmatrix: case OP_stmatrix: {
                GATHER if (!mask) break;
                if (mask != FULL) { not_whole(B, in, w, mask); if (B->stop) return; }
                if (in->op == OP_mma) multiply_matrices(B, W, w, in);
                else move_matrices(B, W, w, in, in->op == OP_ldmatrix ? KIND_LOAD : KIND_STORE);
                W->epoch++;
                break; }
            case OP_cp_async: begin_copies(B, W, w, in, mask); break;
            case OP_cp_commit: EACH(W->committed[l]++) break;
            case OP_cp_wait: finish_copies(B, W, w, in, mask); break;
            case OP_cvta_shared: { A64; D64; LANES(d[l] = a[l] + SHARED_BASE); break; }
            case OP_cvta_to_shared: { A64; D64; const u64 mark = mark_of(B);
                LANES(const u64 at = a[l] - SHARED_BASE; d[l] = at >> RANK_SHIFT ? at : at | mark); break; }
            case OP_cvta_local: { A64; D64; LANES(d[l] = a[l] + LOCAL_BASE); break; }
            case OP_cvta_to_local: { A64; D64; LANES(d[l] = a[l] - LOCAL_BASE); break; }
            case OP_isspacep: { A64; D32; LANES(int s = a[l] - SHARED_BASE < WINDOW ? SPACE_SHARED : a[l]
                - LOCAL_BASE < WINDOW ? SPACE_LOCAL : SPACE_GLOBAL; d[l] = (u32)(s == in->sub)); break; }
            case OP_warp_sync: GATHER break;
            case OP_shfl: GATHER shuffle(B, W, w, in, mask); break;
            case OP_vote: { GATHER A32; D32; const u32 *named = REG(in->e); u32 on = 0;
                EACH(on |= ((a[l] & 1) ^ (in->flags & OTHER_NEGATED ? 1 : 0)) << l)
                EACH({ const u32 all = mask & named[l], own = on & all;
                    d[l] = in->sub == 0 ? own == all : in->sub == 1 ? own != 0 : in->sub == 2 ? own == 0
                        || own == all : own; }) follow_together(B, W, w, in, mask); break; }
            case OP_activemask: { D32; u32 m = mask; EACH(d[l] = m) break; }
            case OP_match: { GATHER match(L, W, in, mask); follow_together(B, W, w, in, mask); break; }
            case OP_redux: { GATHER reduce_lanes(L, W, in, mask); follow_together(B, W, w, in, mask); break; }
            case OP_bar: {
                W->epoch++;
                L->counts[in->line].barriers++;
                EACH({ W->state[l] = LANE_PARKED; W->bar_id[l] = (s32)REG(in->a)[l];
                    W->bar_count[l] = in->b == NO_SLOT ? EVERYBODY : (s32)REG(in->b)[l]; W->bar_pc[l] = pc;
                    W->bar_line[l] = in->line; W->pc[l] = pc + 1; })
                u32 rest = group & ~mask;
                for (; rest; rest &= rest - 1) W->pc[__builtin_ctz(rest)] = pc + 1;
                W->skipped &= ~mask;
                if (mask && (lanes_in(W, LANE_PARKED) | lanes_in(W, LANE_EXITED)) != W->present)
                    look_for_skips(L, W, pc);
                jumped = 1; break; }
            case OP_bar_arrive: {
                W->epoch++;
                if (mask) { int id = (int)REG(in->a)[__builtin_ctz(mask)] & 15;
                    B->came[id] += __builtin_popcount(mask); L->counts[in->line].barriers++;
                    join(B->came_vc + (s64)id * B->clocks, W->clock, B->clocks);
                    W->vc[w]++; }
                break; }
            case OP_bra: {
                u32 rest = group & ~mask;
                if (!mask) break;
                // they stay together and lowest
                if (!rest && in->target < next) { pc = in->target; continue; }
                LANES(W->pc[l] = in->target);
                for (u32 r = rest; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc + 1;
                if (rest) L->counts[in->line].divergent++;
                jumped = 1; break; }
            case OP_brx: { A32; const s32 *table = (const s32 *)(uintptr_t)in->imm; s32 first = -1;
                int split = 0;
                EACH({ s32 t = table[a[l] < (u32)in->sub ? a[l] : 0]; if (first >= 0 && t != first) split = 1;
                    first = t; W->pc[l] = t; })
                for (u32 r = group & ~mask; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc + 1;
                if (split) L->counts[in->line].divergent++;
                jumped = 1; break; }
            case OP_call: {
                EACH({ if (W->depth[l] == MAX_DEPTH) { hazard(B, in, w, l, H_STEPS); B->stop = 1; return;
                    } W->stack[l * MAX_DEPTH + W->depth[l]++] = pc + 1; W->pc[l] = in->target; })
                for (u32 r = group & ~mask; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc + 1;
                jumped = 1; break; }
            case OP_ret: {
                EACH({ if (W->depth[l]) W->pc[l] = W->stack[l * MAX_DEPTH + --W->depth[l]];
                    else W->state[l] = LANE_EXITED; })
                if (W->skipped & lanes_in(W, LANE_EXITED)) parted_at_barrier(B, W, w);
                for (u32 r = group & ~mask; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc + 1;
                jumped = 1; break; }
            case OP_exit: {
                EACH(W->state[l] = LANE_EXITED)
                if (W->skipped & mask) parted_at_barrier(B, W, w);
                for (u32 r = group & ~mask; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc + 1;
                jumped = 1; break; }
            case OP_watch: {  // a traced variable: not part of the kernel, so not counted
                c->issued--; c->active_lanes -= (u64)__builtin_popcount(mask); W->issued--; L->steps--;
                const int size = (int)in->e;
                if (L->tracing) EACH(trace_access(B, in, w, l, SPACE_LOCAL, KIND_WATCH, size, in->sub, 0,
                    in->type2, size == 8 ? REG64(in->a)[l] : REG(in->a)[l]))
                break; }
            case OP_print: { A64; const u64 *b = REG64(in->b); D32;
                EACH({ d[l] = print(B, in, w, l, a[l], b[l]); if (B->stop) return; }) break; }
            case OP_assert: if (mask) { const int l = __builtin_ctz(mask);
                Hazard *h = hazard(B, in, w, l, H_ASSERT); if (h) h->address = REG64(in->a)[l]; B->stop = 1;
                return; } break;
            case OP_fence: if (mask) { B->fenced = 1; W->epoch++; } break;
            case OP_fence_proxy: if (mask) fence_proxy(B, w, in->sub); break;
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
            case OP_st_async: store_async(B, W, w, in, mask); break;
            case OP_tensor: copy_tensor(B, W, w, in, mask); break;
            case OP_bulk_commit: EACH(W->bulk_committed[l]++) break;
            case OP_bulk_wait: finish_bulk(B, W, w, in, mask); break;
            case OP_mapa_32: { A64; const u32 *b = REG(in->b); D32;
                LANES(d[l] = (u32)((a[l] & WITHIN) | (u64)(b[l] + 1) << RANK_SHIFT)); break; }
            case OP_mapa_64: { A64; const u32 *b = REG(in->b); D64;
                LANES(d[l] = (a[l] & ~(0xffull << RANK_SHIFT)) | (u64)(b[l] + 1) << RANK_SHIFT); break; }
            case OP_getctarank: { A64; D32; LANES(const u32 rank = (u32)(a[l] >> RANK_SHIFT & 0xff);
                d[l] = rank ? rank - 1 : (u32)B->rank); break; }
            case OP_elect: { GATHER if (!mask) break; const u32 named = REG(in->e)[__builtin_ctz(mask)];
                const int leader = __builtin_ctz(named ? named : mask);
                EACH({ if (in->d[0] != NO_SLOT) REG(in->d[0])[l] = (u32)leader;
                    if (in->d[1] != NO_SLOT) REG(in->d[1])[l] = l == leader; })
                break; }
            case OP_wgmma: case OP_wgmma_fence: case OP_wgmma_commit: case OP_wgmma_wait:
            case OP_setmaxnreg: {
                GATHER if (!mask) break;
                if (mask != FULL) { not_whole(B, in, w, mask); if (B->stop) return; }
                Wgmma *g = in->op == OP_setmaxnreg ? 0 : wgmma_of(B, W);
                if (B->stop) return;
                if (in->op == OP_setmaxnreg) set_registers(B, in, w);
                else if (in->op == OP_wgmma_fence) fence_group(B, W);
                else if (in->op == OP_wgmma_commit) g->committed++;
                else if (in->op == OP_wgmma_wait) wait_group(B, W, w, in->imm);
                else if (warpgroup_here(B, w, in, pc)) multiply_groups(B, w, in, pc);
                else if (!B->stop) { EACH({ W->state[l] = LANE_BLOCKED; W->blocked_on[l] = ON_GROUP;
                    W->pc[l] = pc; }) jumped = 1; }
                break; }
            case OP_trap: if (mask) { hazard(B, in, w, __builtin_ctz(mask), H_TRAP); B->stop = 1;
                return; } break;
            default: if (in->op < OP_mov_32) run_floats(L, W, in, mask);
                else run_integers(B, W, w, in, mask);
            }
            if (B->stop) return;
            if (jumped) break;
            pc++;
            if (pc == next) {  // others wait here: reconverge
                for (u32 r = group; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc;
                break;
            }
        }
    }
}
