// The simulator: runs a decoded program over a grid, block by block and warp by warp, counts its memory
// traffic and stops on hazards. In: a Launch, laid out as in shared.def. Out: written buffers, counts per
// source line, hazards, accesses. All it allocates is freed or returned through the Launch.
//
// A warp has one program counter per lane and always runs the lanes with the lowest one, so that diverged
// lanes reconverge. Registers are stored per warp: the 32 lanes of a register are contiguous.
#include "launch.h"
#include "together.h"
#include "counting.h"
#include "ordering.h"
#include "agents.h"
#include "lane_order.h"
#include "poison.h"
#include "memory.h"
#include "atomics.h"
#include "functions.h"
#include "copies.h"
#include "barrier_objects.h"
#include "async.h"
#include "tensor.h"
#include "print.h"
#include "matrix.h"
#include "rounding.h"
#include "wgmma.h"
#include "lanes.h"
#include "parting.h"
#include "warp.h"
#include "barriers.h"
#include "cluster.h"

// Finds the shared-memory words owned by a single variable, and the extent of each run.
static void find_spans(Block *B) {
    const u8 *owners = B->L->owners; const u32 words = (u32)B->L->shared_bytes / 4;
    for (u32 first = 0, end; first < words; first = end) {
        for (end = first; end < words && owners[4 * end] == owners[4 * first]
            && owners[4 * end] == owners[4 * end + 3]; end++) {}
        for (u32 k = first; k < end && owners[4 * first]; k++) {
            B->spans[k].from = 4 * first; B->spans[k].to = 4 * end;
        }
        end += end == first;
    }
}

// Allocates a block; 0 if out of memory.
static int begin_room(Block *B, Cluster *C, int rank) {
    Launch *L = C->L;
    B->L = L; B->cluster = C; B->rank = rank;
    B->threads = L->block[0] * L->block[1] * L->block[2];
    B->n_warps = (B->threads + 31) / 32;
    B->agents = L->agents ? 2 * B->n_warps + groups_of(B) + MAX_OBJECTS : B->n_warps;
    B->first = rank * B->agents;
    B->clocks = L->agents ? 2 * C->size * B->agents : B->n_warps;
    B->quick = L->shared_grain == 4 && !L->agents;
    const size_t registers = (size_t)B->n_warps * (size_t)(L->units ? L->units : 1) * 128;
    B->files = aligned_alloc(64, (registers + 63) / 64 * 64);
    B->warps = calloc((size_t)B->n_warps, sizeof(Warp));
    B->stacks = calloc((size_t)B->n_warps * 32 * MAX_DEPTH, sizeof(s32));
    B->copies = calloc((size_t)B->n_warps, sizeof(Copies));
    B->clock_store = calloc((size_t)B->n_warps * (size_t)B->clocks, 4);
    B->came_vc = calloc(16 * (size_t)B->clocks, 4);
    B->shared = calloc((size_t)L->shared_bytes + 16, 1);
    B->n_shadow = L->shared_bytes / L->shared_grain + 16;
    B->spans = calloc((size_t)L->shared_bytes / 4 + 1, sizeof *B->spans);
    B->shadow = calloc((size_t)B->n_shadow, sizeof(Shadow));
    B->lanes = calloc((size_t)B->n_shadow, sizeof(Lanes));
    B->loads = calloc((size_t)B->n_warps, sizeof(LoadLog));
    B->local = L->local_bytes ? calloc((size_t)B->n_warps * 32, (size_t)L->local_bytes) : 0;
    if (!B->files || !B->warps || !B->stacks || !B->copies || !B->shared || !B->spans || !B->shadow
        || !B->lanes || !B->loads || (L->local_bytes && !B->local)) return 0;
    if (!B->clock_store || !B->came_vc || (L->agents && !begin_agents(B))) return 0;
    memset(B->files, 0xc5, registers);
    find_spans(B);
    return 1;
}

// The next cluster to run; `otherwise` unless other machines share the launch.
static s64 following(const Cluster *C, s64 otherwise) {
    return C->L->next ? __atomic_fetch_add(C->L->next, 1, __ATOMIC_RELAXED) : otherwise;
}

// Allocates the blocks of a cluster; null if out of memory.
static Cluster *begin(Launch *L) {
    Cluster *C = calloc(1, sizeof(Cluster));
    if (!C) return 0;
    L->state = C; C->L = L;
    const int size = L->cluster[0] * L->cluster[1] * L->cluster[2];
    C->blocks = calloc((size_t)size, sizeof(Block));
    if (!C->blocks) return 0;
    C->size = size; C->number = following(C, 0);
    for (int rank = 0; rank < size; rank++) if (!begin_room(&C->blocks[rank], C, rank)) return 0;
    const size_t words = (size_t)C->blocks[0].clocks;
    C->met = calloc(words, 4); C->meeting_clock = calloc(words, 4);
    return C->met && C->meeting_clock ? C : 0;
}

// Resets memory to uninitialised and warps to the kernel's entry.
static void begin_block(Block *B) {
    Launch *L = B->L;
    const s32 x = L->grid[0], y = L->grid[1];
    B->block_x = (s32)(B->block % x); B->block_y = (s32)(B->block / x % y);
    B->block_z = (s32)(B->block / ((s64)x * y));
    B->n_origins = 0; B->unwritten = 0;
    if (B->local_origin) memset(B->local_origin, 0, (size_t)B->n_warps * 32 * (size_t)L->local_bytes);
    B->interval = 0; B->fenced = 0; B->acquired = 0; B->finished = 0;
    memset(B->came, 0, sizeof B->came); memset(B->came_vc, 0, 16 * (size_t)B->clocks * 4);
    memset(B->clock_store, 0, (size_t)B->n_warps * (size_t)B->clocks * 4);
    memset(B->shared, 0xc5, (size_t)L->shared_bytes);
    if (L->shared_bytes) memset(B->shadow, 0, (size_t)B->n_shadow * sizeof(Shadow));
    if (L->shared_bytes) memset(B->lanes, 0, (size_t)B->n_shadow * sizeof(Lanes));
    if (B->local) memset(B->local, 0xc5, (size_t)B->n_warps * 32 * (size_t)L->local_bytes);
    if (L->agents) clear_agents(B);
    for (int w = 0; w < B->n_warps; w++) {
        Warp *W = &B->warps[w]; memset(W, 0, sizeof *W);
        W->file = B->files + (s64)w * L->units * 32;
        W->stack = B->stacks + (s64)w * 32 * MAX_DEPTH;
        W->clock = B->clock_store + (s64)w * B->clocks; W->vc = W->clock + B->first;
        int lanes = B->threads - w * 32; W->present = lanes >= 32 ? FULL : (1u << lanes) - 1;
        for (int l = 0; l < 32; l++) { W->pc[l] = L->entry; if (!(W->present >> l & 1)) W->state[l] =
            LANE_EXITED; }
        W->vc[w] = 1; W->epoch = 1;
        B->copies[w].count = 0; B->loads[w].count = 0; B->loads[w].epoch = 0;
    }
}

// Places the blocks in the cluster by rank.
static void begin_cluster(Cluster *C) {
    Launch *L = C->L; const s32 *size = L->cluster, *grid = L->grid;
    const s64 x = grid[0] / size[0], y = grid[1] / size[1];
    const s64 cx = C->number % x * size[0], cy = C->number / x % y * size[1],
        cz = C->number / (x * y) * size[2];
    for (int rank = 0; rank < C->size; rank++) {
        const s64 rx = rank % size[0], ry = rank / size[0] % size[1], rz = rank / (size[0] * size[1]);
        C->blocks[rank].block = cx + rx + grid[0] * (cy + ry + (s64)grid[1] * (cz + rz));
        begin_block(&C->blocks[rank]);
    }
    C->running = 1; C->n_flights = 0; C->meeting = 0; C->events = 0;
    memset(C->met, 0, (size_t)C->blocks[0].clocks * 4); memset(C->meeting_clock, 0,
        (size_t)C->blocks[0].clocks * 4);
}

// Runs a block's warps round-robin until all have exited or it stops.
static void run_block(Block *B) {
    while (!B->stop) {
        for (int w = 0; w < B->n_warps && !B->stop; w++) run_warp(B, w);
        if (B->stop || !parked(B)) return;
        if (!release(B) && !B->stop) stuck(B);
    }
}

// Runs a launch, or resumes it after PAUSED. Always call tw_end afterwards, whatever it returns.
int tw_run(Launch *L) {
    Cluster *C = L->state ? L->state : begin(L);
    if (!C) return NO_MEMORY;
    for (int rank = 0; rank < C->size; rank++) C->blocks[rank].stop = 0;
    L->limit = L->last = L->steps + L->slice < L->max_steps ? L->steps + L->slice : L->max_steps;
    for (const s64 clusters = (s64)L->grid[0] * L->grid[1] * L->grid[2] / C->size; C->number < clusters;
        C->number = following(C, C->number + 1)) {
        if (!C->running) begin_cluster(C);
        if (L->agents) { const int stop = run_cluster(C); if (stop) return stop; }
        else { run_block(C->blocks); if (C->blocks->stop) return C->blocks->stop; }
        C->running = 0;
    }
    return DONE;
}

static void end_block(Block *B) {
    for (int w = 0; B->copies && w < B->n_warps; w++) free(B->copies[w].list);
    if (B->L && B->L->agents) end_agents(B);
    end_poison(B);
    free(B->copies); free(B->files); free(B->warps); free(B->stacks); free(B->clock_store); free(B->came_vc);
    free(B->shared); free(B->spans); free(B->shadow); free(B->lanes); free(B->loads); free(B->local);
}

void tw_end(Launch *L) {
    Cluster *C = L->state;
    free(L->text); L->text = 0;
    if (!C) return;
    for (int rank = 0; C->blocks && rank < C->size; rank++) end_block(&C->blocks[rank]);
    end_flights(C);
    free(C->met); free(C->meeting_clock); free(C->blocks); free(C);
    L->state = 0;
}

void tw_free(void *p) { free(p); }
