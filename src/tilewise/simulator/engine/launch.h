// Data structures of a launch, and recording of hazards and traced accesses.

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef uint32_t u32; typedef uint64_t u64; typedef int32_t s32; typedef int64_t s64;
typedef uint16_t u16; typedef int16_t s16; typedef uint8_t u8; typedef int8_t s8;
typedef float f32; typedef double f64;

#define FULL 0xffffffffu
#define SHARED_BASE 0x010000000000ull
#define LOCAL_BASE  0x020000000000ull
#define WINDOW      0x010000000000ull

// Constants and structures shared with Python.
#define CONSTANT(name, value) name = value,
enum {
#include "shared.def"
};
#define FLAG(name, value) name = value,
enum {
#include "shared.def"
};
#define WGMMA_FLAG(name, value) name = value,
enum {
#include "shared.def"
};
#define AGENT(name) BY_##name,
enum {
#include "shared.def"
};
#define SPACE(name) SPACE_##name,
enum {
#include "shared.def"
};
#define KIND(name) KIND_##name,
enum {
#include "shared.def"
};
#define STATUS(name) name,
enum {
#include "shared.def"
};
#define HAZARD(name, words) H_##name,
enum {
    H_NONE,
#include "shared.def"
};
#define OP(name) OP_##name,
enum op {
#include "shared.def"
};
#define TYPE(name) T_##name,
enum type {
#include "shared.def"
};
#define ROUNDING(name) R_##name,
enum rounding {
#include "shared.def"
};
#define MATH(name) M_##name,
enum math {
#include "shared.def"
};
#define ATOMIC(name) A_##name,
enum atomic {
#include "shared.def"
};
#define COMPARE(name) C_##name,
enum compare {
#include "shared.def"
};
#define SPECIAL(name) S_##name,
enum special {
#include "shared.def"
};
#define SHUFFLE(name) X_##name,
enum shuffle {
#include "shared.def"
};
#define MBARRIER(name) B_##name,
enum mbarrier {
#include "shared.def"
};

#define INS_FIELD(type, name) type name;
typedef struct {
#include "shared.def"
} Ins;
#define WORD_FIELD(type, name) type name;
typedef struct {
#include "shared.def"
} Word;
#define BUFFER_FIELD(type, name) type name;
typedef struct {
#include "shared.def"
} Buffer;
#define COUNTER(name) u64 name;
typedef struct {
#include "shared.def"
} Count;
#define HAZARD_FIELD(type, name) type name;
typedef struct {
#include "shared.def"
} Hazard;
#define ACCESS_FIELD(type, name) type name;
typedef struct {
#include "shared.def"
} Access;
#define LAUNCH_FIELD(type, name) type name;
typedef struct {
#include "shared.def"
} Launch;

typedef struct { u32 written, read; s16 write_warp; u8 initialised, write_atomic; s32 write_line, read_line;
    u32 read_warps; u32 read_atomic, same_warps; } Shadow;

// Shadow.initialised. PENDING: target of an asynchronous copy not yet waited for; OBJECT: part of an
// mbarrier; MIXED: lanes of one store wrote different values. Shadow.same_warps: other warps that stored the
// value already there.
enum { WRITTEN = 1, PENDING = 2, OBJECT = 4, MIXED = 8 };

// If agents other than warps access shared memory, each word keeps all its unordered reads: see agents.h.
typedef struct { s32 line; s16 agent; u8 atomic; u32 clock; } Reader;
typedef struct { Reader *list; u16 count, room; u8 span; } Readers; // span: BOXED and a tensor copy's swizzle

// A cp.async copy in flight; each warp's list is in issue order.
typedef struct { s32 thread, group, line, size; u64 target; u8 data[16]; } Copy;
typedef struct { Copy *list; s32 count, room; } Copies;

// PARKED: at a barrier; WAITING: for lanes of its warp; BLOCKED: at an mbarrier, a cluster barrier or a
// wgmma.
enum { LANE_RUNNING, LANE_PARKED, LANE_WAITING, LANE_EXITED, LANE_BLOCKED };
enum { ON_OBJECT, ON_CLUSTER, ON_GROUP };  // what a blocked lane waits for

// An mbarrier in shared memory, with the clocks of completed phases (done) and the current one (coming).
typedef struct {
    u64 address; s64 transactions; s32 expected, pending, line, agent; u32 phase, started; u8 live;
    u32 *done, *coming;
} Object;
#define MAX_OBJECTS 64

typedef struct {
    u32 *file;
    s32 pc[32];
    u8 state[32];
    s32 depth[32];
    s32 *stack;          // 32 lanes * MAX_DEPTH
    u32 present;         // lanes that exist
    s32 bar_id[32], bar_count[32], bar_pc[32], bar_line[32];
    u32 *vc;             // vector clock: what this warp knows of each warp of its block
    // the full clock, B->clocks words: agents of the cluster, then what proxy fences cover
    u32 *clock;
    u32 expected[32];    // lanes that a waiting lane waits for
    s32 committed[32];   // committed cp.async groups per lane
    u64 issued;
    s32 done, forced;    // forced: the next instruction that waits for lanes continues without them
    u8 blocked_on[32]; s32 object[32]; u32 awaited[32];
    u8 met[32]; u32 meeting[32];     // cluster barrier: whether a lane has arrived, and its phase
    s32 bulk_committed[32]; u32 bulk_begun;  // bulk copies out of shared memory
    // a lane at test_wait: waits for others to run, or may resume with "not yet"
    u8 poll[32];
    s32 registers;       // set by setmaxnreg, 0 before
    struct Wgmma *wgmma; // null before the first wgmma
    u32 skipped;         // lanes that skipped a barrier where others of the warp wait
    s32 poisoned;        // whether its registers hold poison: poison.h
    u32 epoch, stored;   // count of warp-level synchronisations; epoch of its last shared store
} Warp;
#define MAX_DEPTH 64
#define EVERYBODY 0      // barrier count: all live threads of the block

typedef struct Block {
    Launch *L;
    // agents per block; index of its first; words per clock
    struct Cluster *cluster; s32 rank, agents, first, clocks;
    // remote: when each agent of other blocks last accessed this block's shared memory
    u32 *clock_store, *scratch, *remote; const Ins **remote_at;
    u32 *initialised;    // per warp: its clock at its last fence.mbarrier_init
    Object *objects; s32 n_objects; Readers *readers;
    // bulk copies out of shared memory not yet waited for
    struct Bulk *bulk; s32 n_bulk, bulk_room;
    struct { u32 from, to; } *spans; // per shared-memory word: byte range of its variable, or empty
    // landing: delivering to another block, whose mbarrier signals completion; quick: shared memory is
    // tracked in 4-byte words, for warps only
    s32 quick, finished, landing;
    const Ins *set_registers; // the last setmaxnreg, or null
    Warp *warps; s32 n_warps; s32 threads;
    u8 *shared; Shadow *shadow; s64 n_shadow;
    struct Lanes *lanes; // per shared-memory word, n_shadow entries
    struct LoadLog *loads;  // one per warp
    u8 *local;
    Copies *copies;      // one per warp
    s64 block; s32 block_x, block_y, block_z;
    s32 interval;
    s32 fenced, acquired;
    s32 stop, running;   // running: this block has started
    u32 *files; s32 *stacks;
    s32 came[16];        // threads that arrived without waiting (bar.arrive)
    u32 *came_vc;        // their warps' merged clocks, 16
    // poison.h; unwritten: the last load read uninitialised shared memory
    struct Poison *poison; struct Origin *origins; u8 *local_origin; s32 n_origins, unwritten;
} Block;

// Co-scheduled blocks; one if the kernel has no clusters.
typedef struct Cluster {
    Launch *L; Block *blocks; s32 size, running; s64 number;
    struct Flight *flights; s32 n_flights, flight_room;   // copies into shared memory in flight
    u32 meeting, *met, *meeting_clock;                     // barrier: phase, merged clock, gathering clock
    // arrivals and landings so far; consecutive polls without one
    u64 events, polled; s64 polls;
} Cluster;

static inline void join(u32 *into, const u32 *from, s32 words) {
    for (s32 k = 0; k < words; k++) if (from[k] > into[k]) into[k] = from[k];
}

static inline f32 as_f32(u32 v) { f32 r; memcpy(&r, &v, 4); return r; }
static inline u32 of_f32(f32 v) { u32 r; memcpy(&r, &v, 4); return r; }
static inline f64 as_f64(u64 v) { f64 r; memcpy(&r, &v, 8); return r; }
static inline u64 of_f64(f64 v) { u64 r; memcpy(&r, &v, 8); return r; }
static inline u32 flush(u32 v) { return (v & 0x7f800000u) ? v : (v & 0x80000000u); }
static inline f32 flushf(f32 v, int ftz) { return ftz ? as_f32(flush(of_f32(v))) : v; }
static inline f32 sat(f32 v, int on) { return !on ? v : v != v ? 0.f : v < 0.f ? 0.f : v > 1.f ? 1.f : v; }

static f32 half_to_f32(u16 h) {
    const u32 sign = (u32)(h & 0x8000) << 16, rest = (u32)(h & 0x7fff) << 13;  // scaled by 2^112, exact
    const u32 finite = of_f32(as_f32(rest) * 0x1p112f), other = 0x7f800000u | (rest & 0x7fffffu);
    return as_f32(sign | (rest >= 0x7c00u << 13 ? other : finite));
}
// Rounds a double to a binary format with `frac` fraction bits and minimum normal exponent `emin`, ties to
// even.
static f64 round_to(f64 v, int frac, int emin) {
    if (v == 0 || v != v || isinf(v)) return v;
    int e; frexp(v, &e); e -= 1;
    if (e < emin) e = emin;
    f64 unit = ldexp(1.0, e - frac);
    return nearbyint(v / unit) * unit;
}
static u16 f64_to_half(f64 v) {
    u16 sign = (u16)(of_f64(v) >> 48) & 0x8000;
    if (v != v) return 0x7fff;
    f64 r = fabs(round_to(v, 10, -14));
    if (r > 65504.0) return sign | 0x7c00;
    if (r < 0x1p-14) return sign | (u16)(r * 0x1p24);
    int e; f64 m = frexp(r, &e);
    return sign | (u16)((e + 14) << 10) | (u16)((m * 2 - 1) * 1024);
}
static f32 bf16_to_f32(u16 h) { return as_f32((u32)h << 16); }
static u16 f32_to_bf16(f32 v) {
    u32 b = of_f32(v);
    if (v != v) return 0x7fff;
    return (u16)((b + 0x7fff + ((b >> 16) & 1)) >> 16);
}

static Hazard *hazard(Block *B, const Ins *in, int warp, int lane, int kind) {
    Launch *L = B->L;
    if (L->ignored >> kind & 1) return 0;
    for (s64 i = 0; i < L->n_hazards; i++)
        if (L->hazards[i].kind == kind && L->hazards[i].line == in->line) {
            L->hazards[i].count++;
            if (!L->collect) B->stop = 1;
            return 0;
        }
    if (!L->collect) B->stop = 1;
    if (L->n_hazards == L->max_hazards) return 0;
    Hazard *h = &L->hazards[L->n_hazards++];
    memset(h, 0, sizeof *h);
    h->kind = kind; h->line = in->line; h->block = (s32)B->block; h->warp = warp; h->lane = lane;
    h->thread = warp * 32 + lane; h->buffer = -1; h->other_warp = -1; h->other_block = -2; h->count = 1;
    h->caller = in->caller; h->header = in->header; h->near_line = (in->flags & NEAR_LINE) != 0;
    return h;
}

// Whether a warp's accesses are recorded at its current step.
static int is_traced(const Block *B, int warp) {
    const Launch *L = B->L;
    // per-warp step, so that warps doing the same work share steps
    return L->tracing && (s64)B->warps[warp].issued - 1 < L->max_trace_steps
        && (!L->trace_blocks || L->trace_blocks[B->block]) && (!L->trace_warps || L->trace_warps[warp]);
}

static void trace_access(Block *B, const Ins *in, int warp, int lane, int space, int kind,
    int size, int buffer,
                         u64 address, s64 index, u64 bits) {
    Launch *L = B->L;
    if (!is_traced(B, warp)) return;
    const s64 step = (s64)B->warps[warp].issued - 1;
    if (L->n_accesses == L->cap_accesses) {
        s64 cap = L->cap_accesses ? L->cap_accesses * 2 : 4096;
        Access *grown = realloc(L->accesses, (size_t)cap * sizeof(Access));
        if (!grown) return;
        L->accesses = grown; L->cap_accesses = cap;
    }
    L->accesses[L->n_accesses++] = (Access){(s32)step, (s32)B->block, warp, lane, in->line, space, kind,
        size, buffer,
                                            B->interval, address, index, bits};
}

#define REG(slot) ((slot) >= 0 ? W->file + (s64)(slot) * 32 : (u32 *)L->consts + (s64)(-(slot) - 1) * 32)
#define REG64(slot) ((u64 *)REG(slot))
// Applies statements to every lane. Registers are identical or disjoint, so lanes never alias each other's.
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#define LANES(...) do { if (mask == FULL) { INDEPENDENT for (int l = 0; l < 32; l++) { __VA_ARGS__; } } \
                        else { INDEPENDENT for (int l = 0; l < 32; l++) if (mask >> l & 1) { __VA_ARGS__; \
                            } } } while (0)
#define EACH(...) for (u32 left = mask; left; left &= left - 1) { int l = __builtin_ctz(left); __VA_ARGS__; }
