// The simulated machine: runs a decoded program over a grid, block by block and warp by warp, counts its
// memory traffic and stops on hazards. In: a Launch, laid out as in machine.py. Out: buffers written, counts
// per source line, hazards, accesses. It allocates only what it frees or hands back through the Launch.
//
// A warp has one program counter a lane and always runs the lanes whose counter is lowest, so that lanes that
// parted meet again. Registers are kept by warp: 32 lanes of a register lie side by side.
#include "launch.h"
#include "counting.h"
#include "ordering.h"
#include "memory.h"
#include "copies.h"
#include "print.h"
#include "matrix.h"
#include "functions.h"
#include "rounding.h"
#include "lanes.h"
#include "warp.h"
#include "barriers.h"

// Makes room for a block; null where there is none.
static Block *begin(Launch *L) {
    Block *B = calloc(1, sizeof(Block));
    if (!B) return 0;
    L->state = B;
    B->L = L;
    B->threads = L->block[0] * L->block[1] * L->block[2];
    B->n_warps = (B->threads + 31) / 32;
    const size_t registers = (size_t)B->n_warps * (size_t)(L->units ? L->units : 1) * 128;
    B->files = aligned_alloc(64, (registers + 63) / 64 * 64);
    B->warps = calloc((size_t)B->n_warps, sizeof(Warp));
    B->stacks = calloc((size_t)B->n_warps * 32 * MAX_DEPTH, sizeof(s32));
    B->copies = calloc((size_t)B->n_warps, sizeof(Copies));
    B->shared = calloc((size_t)L->shared_bytes + 16, 1);
    B->n_shadow = L->shared_bytes / L->shared_grain + 16;
    B->shadow = calloc((size_t)B->n_shadow, sizeof(Shadow));
    B->local = L->local_bytes ? calloc((size_t)B->n_warps * 32, (size_t)L->local_bytes) : 0;
    if (!B->files || !B->warps || !B->stacks || !B->copies || !B->shared || !B->shadow || (L->local_bytes && !B->local)) return 0;
    memset(B->files, 0xc5, registers);
    return B;
}

// Memory that nobody has written and warps at the kernel's entry.
static void begin_block(Block *B) {
    Launch *L = B->L;
    const s32 x = L->grid[0], y = L->grid[1];
    B->block_x = (s32)(B->block % x); B->block_y = (s32)(B->block / x % y); B->block_z = (s32)(B->block / ((s64)x * y));
    B->interval = 0; B->running = 1; B->fenced = 0; B->acquired = 0;
    memset(B->came, 0, sizeof B->came); memset(B->came_vc, 0, sizeof B->came_vc);
    memset(B->shared, 0xc5, (size_t)L->shared_bytes);
    if (L->shared_bytes) memset(B->shadow, 0, (size_t)B->n_shadow * sizeof(Shadow));
    if (B->local) memset(B->local, 0xc5, (size_t)B->n_warps * 32 * (size_t)L->local_bytes);
    for (int w = 0; w < B->n_warps; w++) {
        Warp *W = &B->warps[w]; memset(W, 0, sizeof *W);
        W->file = B->files + (s64)w * L->units * 32;
        W->stack = B->stacks + (s64)w * 32 * MAX_DEPTH;
        int lanes = B->threads - w * 32; W->present = lanes >= 32 ? FULL : (1u << lanes) - 1;
        for (int l = 0; l < 32; l++) { W->pc[l] = L->entry; if (!(W->present >> l & 1)) W->state[l] = LANE_EXITED; }
        W->vc[w] = 1;
        B->copies[w].count = 0;
    }
}

// Runs a block's warps in turn until all have exited, or it stops.
static void run_block(Block *B) {
    while (!B->stop) {
        for (int w = 0; w < B->n_warps && !B->stop; w++) run_warp(B, w);
        if (B->stop) return;
        int parked = 0;
        for (int w = 0; w < B->n_warps; w++)
            for (int l = 0; l < 32; l++) parked |= (B->warps[w].present >> l & 1) && B->warps[w].state[l] == LANE_PARKED;
        if (!parked) return;
        if (!release(B) && !B->stop) stuck(B);
    }
}

// Runs a launch, or goes on with it after PAUSED. tw_end must follow, whatever comes back.
int tw_run(Launch *L) {
    Block *B = L->state ? L->state : begin(L);
    if (!B) return NO_MEMORY;
    B->stop = 0;
    L->limit = L->steps + L->slice < L->max_steps ? L->steps + L->slice : L->max_steps;
    for (const s64 blocks = (s64)L->grid[0] * L->grid[1] * L->grid[2]; B->block < blocks; B->block++) {
        if (!B->running) begin_block(B);
        run_block(B);
        if (B->stop) return B->stop;
        B->running = 0;
    }
    return DONE;
}

void tw_end(Launch *L) {
    Block *B = L->state;
    free(L->text); L->text = 0;
    if (!B) return;
    for (int w = 0; B->copies && w < B->n_warps; w++) free(B->copies[w].list);
    free(B->copies); free(B->files); free(B->warps); free(B->stacks);
    free(B->shared); free(B->shadow); free(B->local); free(B);
    L->state = 0;
}

void tw_free(void *p) { free(p); }
int tw_layout(int which) {
    const size_t sizes[] = {sizeof(Ins), sizeof(Launch), sizeof(Hazard), sizeof(Access), sizeof(Count), sizeof(Buffer), sizeof(Word)};
    return (int)sizes[which];
}
