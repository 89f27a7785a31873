// The simulated machine: runs a decoded program over a grid, block by block and warp by warp, counts its
// memory traffic and stops on hazards. In: a Launch, laid out as in machine.py. Out: buffers written, counts
// per source line, hazards, accesses. It allocates only what it frees or hands back through the Launch.
//
// A warp has one program counter a lane and always runs the lanes whose counter is lowest, so that lanes that
// parted meet again. Registers are kept by warp: 32 lanes of a register lie side by side.
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "ops.h"  // generated from program.py: enum op, enum math, enum compare, ...

typedef uint32_t u32; typedef uint64_t u64; typedef int32_t s32; typedef int64_t s64;
typedef uint16_t u16; typedef int16_t s16; typedef uint8_t u8; typedef int8_t s8;
typedef float f32; typedef double f64;

#define FULL 0xffffffffu
#define GLOBAL_BASE 0x100000000000ull  // array k begins at GLOBAL_BASE + k * GLOBAL_STEP
#define GLOBAL_SHIFT 36
#define SHARED_BASE 0x010000000000ull
#define LOCAL_BASE  0x020000000000ull
#define WINDOW      0x010000000000ull

enum { NEGATED = 1, FTZ = 2, SATURATE = 4, UNIFORM = 8, SIGNED = 16, VOLATILE = 32 };
enum { SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_GENERIC, SPACE_CONST };
enum { KIND_LOAD, KIND_STORE, KIND_ATOMIC, KIND_WATCH };
enum { H_BOUNDS = 1, H_MISALIGNED, H_BARRIER, H_SHUFFLE, H_RACE, H_UNINITIALISED, H_STEPS, H_TRAP, H_READONLY };
enum { DONE = 0, STOPPED = 1, NO_MEMORY = 2, TOO_MANY_STEPS = 3 };

typedef struct {
    s32 op, sub, type, type2, flags, pred, line, d[4], a, b, c, e, target, pad;
    s64 imm;
} Ins;

typedef struct { u64 size; u8 *data; s32 writable, id; } Buffer;

// One row of counters a source line; the order is that of counts.py.
typedef struct {
    u64 gl_requests, gl_sectors, gl_lines, gl_useful, gl_lanes;
    u64 gs_requests, gs_sectors, gs_lines, gs_useful, gs_lanes;
    u64 ga_requests, ga_sectors, ga_lines, ga_useful, ga_lanes;
    u64 sl_requests, sl_wavefronts, sl_useful, sl_lanes;
    u64 ss_requests, ss_wavefronts, ss_useful, ss_lanes;
    u64 sa_requests, sa_wavefronts, sa_useful, sa_lanes;
    u64 issued, active_lanes, barriers, divergent;
    u64 local_requests, local_useful;
} Count;

typedef struct {
    s32 kind, line, block, warp, lane, thread, buffer, size, write, other_line, other_warp, count;
    u64 address; s64 index;
} Hazard;

typedef struct {
    s32 step, block, warp, lane, line, space, kind, size, buffer, interval;
    u64 address; s64 index; u64 bits;
} Access;

typedef struct {
    const Ins *code; s64 n_code;
    const u32 *consts;            // n * 32 words
    s64 units;                    // register file units (32 words each) a warp
    const u8 *params;
    const Buffer *buffers; s64 n_buffers;
    s32 grid[3], block[3];
    s64 shared_bytes; s64 local_bytes; s32 shared_grain; s32 entry;
    Count *counts; s64 n_lines;
    Hazard *hazards; s64 max_hazards, n_hazards;
    s32 collect, tracing;
    s64 max_steps, steps;
    const u8 *trace_blocks, *trace_warps;  // one byte a block (may be null), one a warp (may be null)
    Access *accesses; s64 n_accesses, cap_accesses, max_trace_steps;
    char *printed; s64 n_printed, cap_printed;
    s32 sm_count; s32 used_clock; s32 stop_line; s32 pad;
    const u8 *owners;             // of each byte of shared memory: its variable's number from 1, 0 between variables
} Launch;

typedef struct { u32 written, read; s16 write_warp; u8 initialised, write_atomic; s32 write_line, read_line; u32 read_warps; u32 read_atomic; } Shadow;

enum { LANE_RUNNING, LANE_PARKED, LANE_WAITING, LANE_EXITED };  // parked at a barrier, waiting for lanes of its warp

typedef struct {
    u32 *file;
    s32 pc[32];
    u8 state[32];
    s32 depth[32];
    s32 *stack;          // 32 lanes * MAX_DEPTH
    u32 present;         // lanes that exist
    s32 bar_id[32], bar_count[32], bar_pc[32], bar_line[32];
    u32 vc[32];          // vector clock: what this warp knows of every other
    u32 expected[32];    // lanes that a waiting lane waits for
    u64 issued;
    s32 done, forced;    // forced: the next instruction that waits for lanes goes on without them
} Warp;
#define MAX_DEPTH 64

typedef struct {
    Launch *L;
    Warp *warps; s32 n_warps; s32 threads;
    u8 *shared; Shadow *shadow; s64 n_shadow;
    u8 *local;
    s32 block, block_x, block_y, block_z;
    s32 interval;
    s32 stop;
    s32 came[16];        // threads that arrived at a barrier without waiting (bar.arrive)
    u32 came_vc[16][32]; // and what their warps knew
} Block;

static inline f32 as_f32(u32 v) { f32 r; memcpy(&r, &v, 4); return r; }
static inline u32 of_f32(f32 v) { u32 r; memcpy(&r, &v, 4); return r; }
static inline f64 as_f64(u64 v) { f64 r; memcpy(&r, &v, 8); return r; }
static inline u64 of_f64(f64 v) { u64 r; memcpy(&r, &v, 8); return r; }
static inline u32 flush(u32 v) { return (v & 0x7f800000u) ? v : (v & 0x80000000u); }
static inline f32 flushf(f32 v, int ftz) { return ftz ? as_f32(flush(of_f32(v))) : v; }
static inline f32 sat(f32 v, int on) { return !on ? v : v != v ? 0.f : v < 0.f ? 0.f : v > 1.f ? 1.f : v; }

static f32 half_to_f32(u16 h) {
    u32 sign = (u32)(h & 0x8000) << 16, e = (h >> 10) & 31, m = h & 1023;
    if (e == 31) return as_f32(sign | 0x7f800000u | (m << 13));
    if (e == 0) { f32 v = (f32)m * 0x1p-24f; return sign ? -v : v; }
    return as_f32(sign | ((e + 112) << 23) | (m << 13));
}
// Round a double to a binary format with `frac` fraction bits and least normal exponent `emin`, ties to even.
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
    h->kind = kind; h->line = in->line; h->block = B->block; h->warp = warp; h->lane = lane;
    h->thread = warp * 32 + lane; h->buffer = -1; h->other_warp = -1; h->count = 1;
    return h;
}

static void trace_access(Block *B, const Ins *in, int warp, int lane, int space, int kind, int size, int buffer,
                         u64 address, s64 index, u64 bits) {
    Launch *L = B->L;
    const s64 step = (s64)B->warps[warp].issued - 1;  // the warp's own, so that warps that do the same share a step
    if (step >= L->max_trace_steps) return;
    if (L->trace_blocks && !L->trace_blocks[B->block]) return;
    if (L->trace_warps && !L->trace_warps[warp]) return;
    if (L->n_accesses == L->cap_accesses) {
        s64 cap = L->cap_accesses ? L->cap_accesses * 2 : 4096;
        Access *grown = realloc(L->accesses, (size_t)cap * sizeof(Access));
        if (!grown) return;
        L->accesses = grown; L->cap_accesses = cap;
    }
    L->accesses[L->n_accesses++] = (Access){(s32)step, B->block, warp, lane, in->line, space, kind, size, buffer,
                                            B->interval, address, index, bits};
}

#define REG(slot) ((slot) >= 0 ? W->file + (s64)(slot) * 32 : (u32 *)L->consts + (s64)(-(slot) - 1) * 32)
#define REG64(slot) ((u64 *)REG(slot))
#define LANES(...) do { if (mask == FULL) { for (int l = 0; l < 32; l++) { __VA_ARGS__; } } \
                        else for (int l = 0; l < 32; l++) if (mask >> l & 1) { __VA_ARGS__; } } while (0)
#define EACH(...) for (u32 left = mask; left; left &= left - 1) { int l = __builtin_ctz(left); __VA_ARGS__; }

// ---- counting -------------------------------------------------------------------------------------------

static int distinct(const u64 *keys, int n) {  // how many different keys, n at most 64
    int sorted = 1, count = 1;
    for (int i = 1; i < n; i++) { if (keys[i] < keys[i - 1]) { sorted = 0; break; } count += keys[i] != keys[i - 1]; }
    if (sorted) return n ? count : 0;
    u64 seen[64]; count = 0;
    for (int i = 0; i < n; i++) {
        int j = 0;
        while (j < count && seen[j] != keys[i]) j++;
        if (j == count) seen[count++] = keys[i];
    }
    return count;
}

// Passes over the 32 banks that one request takes: lanes that want different words of a bank take turns; lanes that want the
// same word share. Accesses of 8 bytes go by half warps and of 16 by quarters.
static int wavefronts(const u64 *address, u32 mask, int size) {
    int lanes = size <= 4 ? 32 : size == 8 ? 16 : 8, total = 0;
    if (size <= 4) {  // the common case: no two words in one bank
        u64 word[32]; u32 taken = 0; int conflict = 0;
        EACH({ u64 x = address[l] >> 2; int bank = (int)(x & 31);
               if (taken >> bank & 1) conflict |= word[bank] != x; else { taken |= 1u << bank; word[bank] = x; } })
        if (!conflict) return 1;
    }
    for (int first = 0; first < 32; first += lanes) {
        u64 words[64]; int n = 0;
        for (int l = first; l < first + lanes; l++)
            if (mask >> l & 1) for (int w = 0; w < (size + 3) / 4; w++) words[n++] = address[l] / 4 + (u64)w;
        if (!n) continue;
        u64 kept[32][32]; u8 used[32] = {0}; int most = 0;
        for (int i = 0; i < n; i++) {
            int bank = (int)(words[i] & 31), j = 0;
            while (j < used[bank] && kept[bank][j] != words[i]) j++;
            if (j == used[bank] && j < 32) { kept[bank][j] = words[i]; used[bank]++; if (used[bank] > most) most = used[bank]; }
        }
        total += most;
    }
    return total;
}

static void count_global(Count *c, const u64 *address, u32 mask, int size, int kind) {
    u64 keys[32]; int n = 0;
    EACH(keys[n++] = address[l] >> 5)
    int sectors = distinct(keys, n);
    for (int i = 0; i < n; i++) keys[i] >>= 2;
    int lines = distinct(keys, n);
    u64 useful = (u64)n * (u64)size;
    if (kind == KIND_LOAD) { c->gl_requests++; c->gl_sectors += sectors; c->gl_lines += lines; c->gl_useful += useful; c->gl_lanes += n; }
    else if (kind == KIND_STORE) { c->gs_requests++; c->gs_sectors += sectors; c->gs_lines += lines; c->gs_useful += useful; c->gs_lanes += n; }
    else { c->ga_requests++; c->ga_sectors += sectors; c->ga_lines += lines; c->ga_useful += useful; c->ga_lanes += n; }
}

static void count_shared(Count *c, const u64 *address, u32 mask, int size, int kind) {
    int passes = wavefronts(address, mask, size), n = __builtin_popcount(mask);
    u64 useful = (u64)n * (u64)size;
    if (kind == KIND_LOAD) { c->sl_requests++; c->sl_wavefronts += passes; c->sl_useful += useful; c->sl_lanes += n; }
    else if (kind == KIND_STORE) { c->ss_requests++; c->ss_wavefronts += passes; c->ss_useful += useful; c->ss_lanes += n; }
    else { c->sa_requests++; c->sa_wavefronts += passes; c->sa_useful += useful; c->sa_lanes += n; }
}

// ---- memory ---------------------------------------------------------------------------------------------

// Order within a block: every warp has a clock, and a barrier tells each warp that reached it the clocks of the others. An access
// races with an earlier one of another warp whose clock it has not been told of.
static void order_shared(Block *B, const Ins *in, int w, int lane, u64 offset, int size, int kind) {
    Warp *W = &B->warps[w];
    int shift = __builtin_ctz((u32)B->L->shared_grain);
    for (u64 at = offset >> shift; at <= (offset + (u64)size - 1) >> shift; at++) {
        Shadow *s = &B->shadow[at];
        u32 now = W->vc[w];
        int atomic = kind == KIND_ATOMIC;
        if (kind != KIND_STORE && !s->initialised) {
            Hazard *h = hazard(B, in, w, lane, H_UNINITIALISED);
            if (h) { h->address = offset; h->size = size; h->index = (s64)offset; }
            s->initialised = 1;
        }
        if (s->written && s->write_warp != w && s->written > W->vc[s->write_warp] && !(atomic && s->write_atomic)) {
            Hazard *h = hazard(B, in, w, lane, H_RACE);
            if (h) { h->address = offset; h->size = size; h->write = kind != KIND_LOAD; h->other_line = s->write_line; h->other_warp = s->write_warp; h->index = (s64)offset; }
        }
        if (kind != KIND_LOAD) {
            u32 others = s->read_warps & ~(1u << w);
            for (; others; others &= others - 1) {
                int r = __builtin_ctz(others);
                if (s->read > W->vc[r] && !(atomic && (s->read_atomic >> r & 1))) {
                    Hazard *h = hazard(B, in, w, lane, H_RACE);
                    if (h) { h->address = offset; h->size = size; h->write = 1; h->other_line = s->read_line; h->other_warp = r; h->index = (s64)offset; }
                    break;
                }
            }
            s->written = now; s->write_warp = (s16)w; s->write_atomic = (u8)atomic; s->write_line = in->line; s->initialised = 1;
        }
        if (kind != KIND_STORE) {
            if (s->read != now) { s->read = now; s->read_warps = 0; s->read_atomic = 0; }
            s->read_warps |= 1u << w; s->read_line = in->line;
            if (atomic) s->read_atomic |= 1u << w; else s->read_atomic &= ~(1u << w);
        }
    }
}

// The same for a word of 4 bytes where nothing is wrong, which is nearly always; leaves the rest to order_shared.
static inline void order_word(Block *B, const Ins *in, Warp *W, int w, int lane, u64 offset, int kind) {
    if (B->L->shared_grain == 4) {
        Shadow *s = &B->shadow[offset >> 2]; const u32 now = W->vc[w], me = 1u << w;
        const int ordered = !s->written || s->write_warp == w || s->written <= W->vc[s->write_warp];
        if (kind == KIND_LOAD && s->initialised && ordered) {
            if (s->read == now) s->read_warps |= me; else { s->read = now; s->read_warps = me; s->read_atomic = 0; }
            s->read_atomic &= ~me; s->read_line = in->line;
            return;
        }
        if (kind == KIND_STORE && ordered && !(s->read_warps & ~me)) {
            s->written = now; s->write_warp = (s16)w; s->write_atomic = 0; s->write_line = in->line; s->initialised = 1;
            return;
        }
    }
    order_shared(B, in, w, lane, offset, 4, kind);
}

// Where a lane's access really goes; null after a hazard. Sets *space to what the address turns out to be.
static u8 *resolve(Block *B, const Ins *in, int w, int lane, u64 address, int size, int space, int kind, int *found, int *buffer, s64 *index) {
    Launch *L = B->L;
    *buffer = -1; *index = 0;
    if (space == SPACE_GENERIC) {
        if (address - SHARED_BASE < WINDOW) { space = SPACE_SHARED; address -= SHARED_BASE; }
        else if (address - LOCAL_BASE < WINDOW) { space = SPACE_LOCAL; address -= LOCAL_BASE; }
        else space = SPACE_GLOBAL;
    }
    *found = space;
    if (address & (u64)(size - 1)) {
        Hazard *h = hazard(B, in, w, lane, H_MISALIGNED);
        if (h) { h->address = address; h->size = size; h->write = kind != KIND_LOAD; }
        return 0;
    }
    if (space == SPACE_SHARED) {
        *index = (s64)address;
        if (address < (u64)L->shared_bytes && address + (u64)size <= (u64)L->shared_bytes && L->owners[address] &&
            L->owners[address] == L->owners[address + (u64)size - 1]) return B->shared + address;
    } else if (space == SPACE_LOCAL) {
        if (address + (u64)size <= (u64)L->local_bytes) return B->local + ((s64)(w * 32 + lane)) * L->local_bytes + address;
    } else {
        u64 k = (address - GLOBAL_BASE + (1ull << (GLOBAL_SHIFT - 1))) >> GLOBAL_SHIFT;
        if (address >= GLOBAL_BASE - (1ull << (GLOBAL_SHIFT - 1)) && k < (u64)L->n_buffers) {
            s64 offset = (s64)(address - GLOBAL_BASE - (k << GLOBAL_SHIFT));
            if (L->buffers[k].id < 0) *found = SPACE_CONST;  // the launch's parameters
            *buffer = L->buffers[k].id; *index = offset;
            if (offset >= 0 && (u64)offset + (u64)size <= L->buffers[k].size) {
                if (kind != KIND_LOAD && !L->buffers[k].writable) {
                    Hazard *h = hazard(B, in, w, lane, H_READONLY);
                    if (h) { h->address = address; h->size = size; h->write = 1; h->buffer = *buffer; h->index = *index; }
                    return 0;
                }
                return L->buffers[k].data + offset;
            }
        }
    }
    Hazard *h = hazard(B, in, w, lane, H_BOUNDS);
    if (h) { h->address = address; h->size = size; h->write = kind != KIND_LOAD; h->buffer = space == SPACE_GLOBAL ? *buffer : space == SPACE_SHARED ? -2 : -3; h->index = *index; }
    return 0;
}

static inline u64 fetch(const u8 *p, int size) {
    switch (size) { case 1: return *p; case 2: { u16 v; memcpy(&v, p, 2); return v; } case 4: { u32 v; memcpy(&v, p, 4); return v; } }
    u64 v; memcpy(&v, p, 8); return v;
}
static inline void put(u8 *p, u64 v, int size) { memcpy(p, &v, (size_t)size); }

#define POISON 0x7fc5c5c57fc5c5c5ull  // what a bad read returns: NaN in either width

// Moves one word of 4 bytes for each lane, if all addresses are in bounds and aligned; returns 0 and does nothing if not.
static int move_words(Block *B, Warp *W, int w, const Ins *in, u32 mask, int kind, const u64 *address) {
    Launch *L = B->L; u32 *data = REG(in->d[0]); u64 low = 0, bad = 0;
    u8 *at;
    if (in->type == SPACE_SHARED) {
        const u8 *owners = L->owners; u64 limit = (u64)L->shared_bytes;
        EACH({ u64 a = address[l]; if ((a & 3) || a + 4 > limit || a >= limit) return 0; bad |= !owners[a] | (owners[a] != owners[a + 3]); })
        if (bad) return 0;
        u64 last = ~0ull;
        EACH({ u64 a = address[l]; if (kind == KIND_LOAD && a == last) continue; last = a; order_word(B, in, W, w, l, a, kind); if (B->stop) return 1; })
        at = B->shared;
    } else {
        u64 first = address[__builtin_ctz(mask)], k = (first - GLOBAL_BASE + (1ull << (GLOBAL_SHIFT - 1))) >> GLOBAL_SHIFT;
        if (first < GLOBAL_BASE || k >= (u64)L->n_buffers || L->buffers[k].id < 0 || L->buffers[k].size < 4) return 0;
        if (kind != KIND_LOAD && !L->buffers[k].writable) return 0;
        u64 limit = L->buffers[k].size - 4;
        low = GLOBAL_BASE + (k << GLOBAL_SHIFT);
        EACH(bad |= (u64)(address[l] - low > limit) | (address[l] & 3))
        if (bad) return 0;
        at = L->buffers[k].data;
    }
    if (kind == KIND_LOAD) EACH(memcpy(&data[l], at + (address[l] - low), 4))
    else EACH(memcpy(at + (address[l] - low), &data[l], 4))
    return 1;
}

static void access_memory(Block *B, Warp *W, int w, const Ins *in, u32 mask, int kind) {
    Launch *L = B->L;
    int size = in->type2, vector = in->sub, whole = size * vector;
    const u64 *base = REG64(in->a);
    u64 address[32]; u32 global = 0, shared = 0, local = 0;
    Count *c = &L->counts[in->line];
    EACH(address[l] = base[l] + (u64)in->imm)
    if (whole == 4 && vector == 1 && in->c != 8 && mask && !L->tracing && in->type <= SPACE_SHARED && move_words(B, W, w, in, mask, kind, address)) {
        if (in->type == SPACE_SHARED) count_shared(c, address, mask, 4, kind); else count_global(c, address, mask, 4, kind);
        return;
    }
    EACH({
        int space, buffer; s64 index;
        u8 *p = resolve(B, in, w, l, address[l], whole, in->type, kind, &space, &buffer, &index);
        if (!p && B->stop) return;
        if (space == SPACE_SHARED) { shared |= 1u << l; if (in->type == SPACE_GENERIC) address[l] -= SHARED_BASE;
            if (p) { order_shared(B, in, w, l, address[l], whole, kind); if (B->stop) return; } }
        else if (space == SPACE_LOCAL) local |= 1u << l; else if (space == SPACE_GLOBAL) global |= 1u << l;
        for (int v = 0; v < vector; v++) {
            u64 bits = 0;
            if (kind == KIND_LOAD) {
                bits = p ? fetch(p + v * size, size) : POISON;
                if (in->flags & SIGNED) bits = size == 1 ? (u64)(s64)(s8)bits : size == 2 ? (u64)(s64)(s16)bits : size == 4 ? (u64)(s64)(s32)bits : bits;
                if (in->c == 8) REG64(in->d[v])[l] = bits; else REG(in->d[v])[l] = (u32)bits;
            } else {
                bits = in->c == 8 ? REG64(in->d[v])[l] : REG(in->d[v])[l];
                if (p) put(p + v * size, bits, size);
            }
            if (L->tracing) trace_access(B, in, w, l, space, kind, size, buffer, address[l] + (u64)(v * size), index + v * size, bits);
        }
    })
    if (global) count_global(c, address, global, whole, kind);
    if (shared) count_shared(c, address, shared, whole, kind);
    if (local) { c->local_requests++; c->local_useful += (u64)__builtin_popcount(local) * (u64)whole; }
}

static u64 combine(const Ins *in, u64 old, u64 x, u64 y, int size) {
    switch ((enum atomic)in->sub) {
    case A_add: return in->type2 == T_f32 ? of_f32(as_f32((u32)old) + as_f32((u32)x)) : in->type2 == T_f64 ? of_f64(as_f64(old) + as_f64(x)) : old + x;
    case A_min: return in->type2 == T_s32 ? (u32)((s32)old < (s32)x ? old : x) : in->type2 == T_s64 ? (u64)((s64)old < (s64)x ? old : x) : (old < x ? old : x);
    case A_max: return in->type2 == T_s32 ? (u32)((s32)old > (s32)x ? old : x) : in->type2 == T_s64 ? (u64)((s64)old > (s64)x ? old : x) : (old > x ? old : x);
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
    EACH(address[l] = base[l] + (u64)in->imm)
    EACH({
        int space, buffer; s64 index;
        u8 *p = resolve(B, in, w, l, address[l], size, in->type, KIND_ATOMIC, &space, &buffer, &index);
        if (!p && B->stop) return;
        if (space == SPACE_SHARED) { shared |= 1u << l; if (in->type == SPACE_GENERIC) address[l] -= SHARED_BASE;
            if (p) { order_shared(B, in, w, l, address[l], size, KIND_ATOMIC); if (B->stop) return; } }
        else if (space == SPACE_GLOBAL) global |= 1u << l;
        u64 x = size == 8 ? REG64(in->b)[l] : REG(in->b)[l], y = in->sub == A_cas ? (size == 8 ? REG64(in->c)[l] : REG(in->c)[l]) : 0;
        u64 old = p ? fetch(p, size) : POISON, now = combine(in, old, x, y, size);
        if (p) put(p, now, size);
        if (in->d[0] != NO_SLOT) { if (size == 8) REG64(in->d[0])[l] = old; else REG(in->d[0])[l] = (u32)old; }
        if (L->tracing) trace_access(B, in, w, l, space, KIND_ATOMIC, size, buffer, address[l], index, now);
    })
    Count *c = &L->counts[in->line];
    if (global) count_global(c, address, global, size, KIND_ATOMIC);
    if (shared) count_shared(c, address, shared, size, KIND_ATOMIC);
}

// ---- conversions, comparisons, functions ----------------------------------------------------------------

// `how` is the rounding of a conversion: R_rn, R_rz, R_rm, R_rp for floats and the same with an i for integers.
static f64 rounded(f64 v, int how) {
    switch (how) { case R_rzi: return trunc(v); case R_rmi: return floor(v); case R_rpi: return ceil(v); case R_rni: return nearbyint(v); }
    return v;
}
static int is_signed(int t) { return t == T_s8 || t == T_s16 || t == T_s32 || t == T_s64; }
static int is_float(int t) { return t == T_f16 || t == T_bf16 || t == T_f32 || t == T_f64; }
static int width(int t) {
    switch (t) { case T_u8: case T_s8: return 8; case T_u16: case T_s16: case T_f16: case T_bf16: return 16; case T_u64: case T_s64: case T_f64: return 64; }
    return 32;
}
static f32 f64_to_f32(f64 v, int how) {
    f32 r = (f32)v;
    if (how == R_rn || how == R_none || v != v || isinf(v) || (f64)r == v) return r;
    if (how == R_rz) return fabs((f64)r) > fabs(v) ? nextafterf(r, 0.f) : r;
    if (how == R_rm) return (f64)r > v ? nextafterf(r, -INFINITY) : r;
    if (how == R_rp) return (f64)r < v ? nextafterf(r, INFINITY) : r;
    return r;
}
static u64 convert(const Ins *in, u64 raw) {
    int from = in->type2, to = in->type, how = in->sub, ftz = in->flags & FTZ, clip = in->flags & SATURATE;
    if (is_float(from)) {
        f64 v = from == T_f32 ? (f64)flushf(as_f32((u32)raw), ftz) : from == T_f64 ? as_f64(raw) : from == T_f16 ? (f64)half_to_f32((u16)raw) : (f64)bf16_to_f32((u16)raw);
        v = rounded(v, how);
        if (is_float(to)) {
            if (clip) v = v != v ? 0 : v < 0 ? 0 : v > 1 ? 1 : v;
            if (to == T_f64) return of_f64(v);
            if (to == T_f32) return of_f32(flushf(f64_to_f32(v, how), ftz));
            if (to == T_f16) return f64_to_half(v);
            return f32_to_bf16((f32)v);
        }
        if (v != v) return to == T_s64 || to == T_u64 ? 0x8000000000000000ull : 0;  // NaN: 0 in 32 bits and below
        int bits = width(to);
        if (is_signed(to)) {
            f64 most = ldexp(1.0, bits - 1);
            s64 r = v >= most ? (bits == 64 ? INT64_MAX : (1ll << (bits - 1)) - 1) : v < -most ? (bits == 64 ? INT64_MIN : -(1ll << (bits - 1))) : (s64)v;
            return bits == 64 ? (u64)r : (u64)r & ((1ull << (bits < 32 ? 32 : bits)) - 1);
        }
        f64 most = ldexp(1.0, bits);
        return v >= most ? (bits == 64 ? ~0ull : (1ull << bits) - 1) : v < 0 ? 0 : (u64)v;
    }
    int bits = width(from);
    s64 v = is_signed(from) ? (bits == 64 ? (s64)raw : (s64)(raw << (64 - bits)) >> (64 - bits)) : (s64)(bits == 64 ? raw : raw & ((1ull << bits) - 1));
    if (!is_float(to)) {
        int tb = width(to);
        if (clip && tb < 64) {
            s64 high = is_signed(to) ? (1ll << (tb - 1)) - 1 : (s64)((1ull << tb) - 1), low = is_signed(to) ? -(1ll << (tb - 1)) : 0;
            v = v > high ? high : v < low ? low : v;
        }
        if (tb == 64) return (u64)v;
        return is_signed(to) ? (u64)(u32)(s32)((s64)((u64)v << (64 - tb)) >> (64 - tb)) : (u64)v & ((1ull << tb) - 1);
    }
    int wide = from == T_u64;
    if (to == T_f64) return of_f64(wide ? (f64)(u64)v : (f64)v);
    if (to == T_f32) {
        if (how == R_rn || how == R_none) return of_f32(wide ? (f32)(u64)v : (f32)v);
        return of_f32(f64_to_f32(wide ? (f64)(u64)v : (f64)v, how));
    }
    if (to == T_f16) return f64_to_half(wide ? (f64)(u64)v : (f64)v);
    return f32_to_bf16(wide ? (f32)(u64)v : (f32)v);
}

static f64 math_function(int id, f64 x, f64 y, f64 z) {
    switch ((enum math)id) {
    case M_exp: return exp(x); case M_exp2: return exp2(x); case M_exp10: return pow(10.0, x); case M_expm1: return expm1(x);
    case M_log: return log(x); case M_log2: return log2(x); case M_log10: return log10(x); case M_log1p: return log1p(x);
    case M_sin: return sin(x); case M_cos: return cos(x); case M_tan: return tan(x);
    case M_asin: return asin(x); case M_acos: return acos(x); case M_atan: return atan(x); case M_atan2: return atan2(x, y);
    case M_sinh: return sinh(x); case M_cosh: return cosh(x); case M_tanh: return tanh(x);
    case M_erf: return erf(x); case M_erfc: return erfc(x); case M_pow: return pow(x, y); case M_fmod: return fmod(x, y);
    case M_hypot: return hypot(x, y); case M_cbrt: return cbrt(x); case M_sqrt: return sqrt(x); case M_rsqrt: return 1.0 / sqrt(x);
    case M_floor: return floor(x); case M_ceil: return ceil(x); case M_trunc: return trunc(x); case M_rint: return nearbyint(x); case M_round: return round(x);
    case M_fma: return fma(x, y, z); case M_fmin: return fmin(x, y); case M_fmax: return fmax(x, y); case M_fabs: return fabs(x);
    case M_copysign: return copysign(x, y); case M_sigmoid: return 1.0 / (1.0 + exp(-x)); case M_lgamma: return lgamma(x); case M_tgamma: return tgamma(x);
    }
    return x;
}

#define COMPARE(T, GET) do { \
    const int bool_op = in->e; \
    EACH({ T x = GET(a, l), y = GET(b, l); int r = 0; \
        switch ((enum compare)in->sub) { \
        case C_eq: r = x == y; break; case C_ne: r = (x < y) || (x > y); break; case C_lt: case C_lo: r = x < y; break; \
        case C_le: case C_ls: r = x <= y; break; case C_gt: case C_hi: r = x > y; break; case C_ge: case C_hs: r = x >= y; break; \
        case C_equ: r = !(x < y) && !(x > y); break; case C_neu: r = !(x == y); break; case C_ltu: r = !(x >= y); break; \
        case C_leu: r = !(x > y); break; case C_gtu: r = !(x <= y); break; case C_geu: r = !(x < y); break; \
        case C_num: r = x == x && y == y; break; case C_nan: r = x != x || y != y; break; } \
        int q = !r; \
        if (bool_op) { int p = (int)(REG(in->c)[l] & 1) ^ (in->flags & VOLATILE ? 1 : 0); r = bool_op == 1 ? r && p : bool_op == 2 ? r || p : r ^ p; q = bool_op == 1 ? q && p : bool_op == 2 ? q || p : q ^ p; } \
        d[l] = (u32)r; if (in->d[1] != NO_SLOT) REG(in->d[1])[l] = (u32)q; }) } while (0)
#define GET_S32(p, l) ((s32)(p)[l])
#define GET_U32(p, l) ((p)[l])
#define GET_S16(p, l) ((s16)(p)[l])
#define GET_U16(p, l) ((u16)(p)[l])
#define GET_S64(p, l) (((s64 *)(p))[l])
#define GET_U64(p, l) (((u64 *)(p))[l])
#define GET_F32(p, l) flushf(as_f32((p)[l]), in->flags & FTZ)
#define GET_F64(p, l) as_f64(((u64 *)(p))[l])
#define GET_F16(p, l) half_to_f32((u16)(p)[l])
#define GET_BF16(p, l) bf16_to_f32((u16)(p)[l])

#define A32 const u32 *a = REG(in->a)
#define AB32 A32; const u32 *b = REG(in->b)
#define ABC32 AB32; const u32 *c = REG(in->c)
#define A64 const u64 *a = REG64(in->a)
#define AB64 A64; const u64 *b = REG64(in->b)
#define ABC64 AB64; const u64 *c = REG64(in->c)
#define D32 u32 *d = REG(in->d[0])
#define D64 u64 *d = REG64(in->d[0])
#define F1(...) { A32; D32; const int ftz = in->flags & FTZ, st = in->flags & SATURATE; if (ftz && !st) LANES(f32 x = as_f32(flush(a[l])); d[l] = flush(of_f32(__VA_ARGS__))); \
    else LANES(f32 x = flushf(as_f32(a[l]), ftz); d[l] = of_f32(sat(flushf(__VA_ARGS__, ftz), st))); break; }
#define F2(...) { AB32; D32; const int ftz = in->flags & FTZ, st = in->flags & SATURATE; if (ftz && !st) LANES(f32 x = as_f32(flush(a[l])); f32 y = as_f32(flush(b[l])); d[l] = flush(of_f32(__VA_ARGS__))); \
    else LANES(f32 x = flushf(as_f32(a[l]), ftz); f32 y = flushf(as_f32(b[l]), ftz); d[l] = of_f32(sat(flushf(__VA_ARGS__, ftz), st))); break; }
#define F3(...) { ABC32; D32; const int ftz = in->flags & FTZ, st = in->flags & SATURATE; if (ftz && !st) LANES(f32 x = as_f32(flush(a[l])); f32 y = as_f32(flush(b[l])); f32 z = as_f32(flush(c[l])); d[l] = flush(of_f32(__VA_ARGS__))); \
    else LANES(f32 x = flushf(as_f32(a[l]), ftz); f32 y = flushf(as_f32(b[l]), ftz); f32 z = flushf(as_f32(c[l]), ftz); d[l] = of_f32(sat(flushf(__VA_ARGS__, ftz), st))); break; }
#define G1(...) { A64; D64; LANES(f64 x = as_f64(a[l]); d[l] = of_f64(__VA_ARGS__)); break; }
#define G2(...) { AB64; D64; LANES(f64 x = as_f64(a[l]); f64 y = as_f64(b[l]); d[l] = of_f64(__VA_ARGS__)); break; }
#define G3(...) { ABC64; D64; LANES(f64 x = as_f64(a[l]); f64 y = as_f64(b[l]); f64 z = as_f64(c[l]); d[l] = of_f64(__VA_ARGS__)); break; }
#define I2(T, expr) { AB32; D32; LANES(T x = (T)a[l]; T y = (T)b[l]; d[l] = (u32)(expr)); break; }
#define J2(T, expr) { AB64; D64; LANES(T x = (T)a[l]; T y = (T)b[l]; d[l] = (u64)(expr)); break; }
#define HALF2(get, set, expr) { AB32; D32; LANES(f64 x = get((u16)a[l]); f64 y = get((u16)b[l]); d[l] = set(expr)); break; }

static u16 to_half(f64 v) { return f64_to_half(v); }
static u16 to_bf16(f64 v) { f32 r = (f32)v; return f32_to_bf16(r); }
static f32 fmin32(f32 x, f32 y) { return x != x ? y : y != y ? x : x < y ? x : y < x ? y : of_f32(x) >> 31 ? x : y; }
static f32 fmax32(f32 x, f32 y) { return x != x ? y : y != y ? x : x > y ? x : y > x ? y : of_f32(x) >> 31 ? y : x; }

static void print_line(Launch *L, const char *text, s64 n) {
    if (L->n_printed + n > L->cap_printed) {
        s64 cap = (L->n_printed + n) * 2;
        char *grown = realloc(L->printed, (size_t)cap);
        if (!grown) return;
        L->printed = grown; L->cap_printed = cap;
    }
    memcpy(L->printed + L->n_printed, text, (size_t)n);
    L->n_printed += n;
}

// ---- running a warp -------------------------------------------------------------------------------------

static u32 special(Block *B, int w, int l, int which) {
    Launch *L = B->L; int t = w * 32 + l, bx = L->block[0], by = L->block[1];
    switch ((enum special)which) {
    case S_tid_x: return (u32)(t % bx); case S_tid_y: return (u32)(t / bx % by); case S_tid_z: return (u32)(t / (bx * by));
    case S_ntid_x: return (u32)bx; case S_ntid_y: return (u32)by; case S_ntid_z: return (u32)L->block[2];
    case S_ctaid_x: return (u32)B->block_x; case S_ctaid_y: return (u32)B->block_y; case S_ctaid_z: return (u32)B->block_z;
    case S_nctaid_x: return (u32)L->grid[0]; case S_nctaid_y: return (u32)L->grid[1]; case S_nctaid_z: return (u32)L->grid[2];
    case S_laneid: return (u32)l; case S_warpid: return (u32)w; case S_nwarpid: return 64;
    case S_smid: return (u32)(B->block % L->sm_count); case S_nsmid: return (u32)L->sm_count;
    case S_lanemask_eq: return 1u << l; case S_lanemask_lt: return (1u << l) - 1; case S_lanemask_le: return l == 31 ? FULL : (2u << l) - 1;
    case S_lanemask_gt: return l == 31 ? 0 : ~((2u << l) - 1); case S_lanemask_ge: return ~((1u << l) - 1);
    case S_clock: return 0;
    }
    return 0;
}

// Lanes that have not exited and are not about to: an early return counts as gone even where its lanes run last.
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

// Whether the lanes that an instruction names are here. If some are still on their way, these lanes wait for them and the
// instruction is run again; if they can never come, that is a hazard. Lanes that have exited need not come.
static int gathered(Block *B, Warp *W, int w, const Ins *in, s32 pc, u32 mask) {
    Launch *L = B->L; u32 named = 0, waiting = 0, live = live_lanes(L, W), expected = 0;
    EACH(named |= REG(in->e)[l])
    for (int l = 0; l < 32; l++) waiting |= (u32)(W->state[l] == LANE_WAITING && W->pc[l] == pc) << l;
    for (u32 r = mask | waiting; r; r &= r - 1) expected |= W->expected[__builtin_ctz(r)];
    u32 absent = named & (live | expected) & ~(mask | waiting);
    if (waiting || (absent && !W->forced)) {
        u32 all = mask | waiting;
        for (; all; all &= all - 1) { int l = __builtin_ctz(all); W->pc[l] = pc; W->state[l] = absent && !W->forced ? LANE_WAITING : LANE_RUNNING; W->expected[l] = absent; }
        return 0;
    }
    W->forced = 0;
    EACH(W->expected[l] = 0)
    if (absent || (mask & ~named)) hazard(B, in, w, __builtin_ctz(absent ? absent : mask & ~named), H_SHUFFLE);
    return 1;
}

// Lanes that were on their way to an instruction when the lanes of `mask` began to wait there.
static u32 named_late(const Warp *W, u32 mask) {
    u32 late = 0;
    EACH(late |= W->expected[l])
    return late;
}

// No lane of the warp can run: let those go on that wait for others. Lanes at __syncwarp in several places have met if together
// they are all that it names. Returns whether any can.
static int release_waiting(Block *B, int w) {
    Launch *L = B->L; Warp *W = &B->warps[w]; u32 at_sync = 0, named = 0, waiting = 0; s32 lowest = INT32_MAX;
    for (int l = 0; l < 32; l++) if ((W->present >> l & 1) && W->state[l] == LANE_WAITING) {
        const Ins *in = &L->code[W->pc[l]];
        waiting |= 1u << l;
        if (in->op == OP_warp_sync) { at_sync |= 1u << l; named |= REG(in->e)[l]; }
        if (W->pc[l] < lowest) lowest = W->pc[l];
    }
    if (!waiting) return 0;
    if (at_sync && !(named & W->present & ~at_sync & (live_lanes(L, W) | named_late(W, at_sync)))) {
        for (; at_sync; at_sync &= at_sync - 1) { int l = __builtin_ctz(at_sync); W->expected[l] = 0; W->state[l] = LANE_RUNNING; W->pc[l]++; }
        return 1;
    }
    for (int l = 0; l < 32; l++) if ((waiting >> l & 1) && W->pc[l] == lowest) W->state[l] = LANE_RUNNING;
    W->forced = 1;
    return 1;
}

static void shuffle(Block *B, Warp *W, int w, const Ins *in, u32 mask) {
    Launch *L = B->L;
    const u32 *a = REG(in->a), *b = REG(in->b), *c = REG(in->c);
    u32 value[32], ok[32];
    EACH({
        int top = (int)(c[l] & 31), seg = (int)(c[l] >> 8 & 31), by = (int)(b[l] & 31), low = l & seg, high = (l & seg) | (top & ~seg), from = 0, inside = 0;
        switch ((enum shuffle)in->sub) {
        case X_up: from = l - by; inside = from >= high; break;
        case X_down: from = l + by; inside = from <= high; break;
        case X_bfly: from = l ^ by; inside = from <= high; break;
        case X_idx: from = low | (by & ~seg); inside = from <= high; break; }
        if (!inside) from = l;
        value[l] = a[from & 31]; ok[l] = (u32)inside;
        if (inside && !(mask >> from & 1)) { hazard(B, in, w, l, H_SHUFFLE); value[l] = (u32)POISON; }
    })
    EACH({ REG(in->d[0])[l] = value[l]; if (in->d[1] != NO_SLOT) REG(in->d[1])[l] = ok[l]; })
}

#define GATHER if (mask && !gathered(B, W, w, in, pc, mask)) { for (u32 r = group & ~mask; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc + 1; jumped = 1; break; }

// Runs a warp until each of its lanes has exited or waits at a barrier.
static void run_warp(Block *B, int w) {
    Launch *L = B->L; Warp *W = &B->warps[w]; const Ins *code = L->code;
    while (!B->stop) {
        s32 pc = INT32_MAX, next = INT32_MAX; u32 mask = 0;
        for (int l = 0; l < 32; l++) if (W->state[l] == LANE_RUNNING && (W->present >> l & 1)) {
            if (W->pc[l] < pc) { next = pc; pc = W->pc[l]; mask = 1u << l; }
            else if (W->pc[l] == pc) mask |= 1u << l;
            else if (W->pc[l] < next) next = W->pc[l];
        }
        if (!mask) { if (release_waiting(B, w)) continue; return; }
        const u32 group = mask;
        for (;;) {  // straight on while these lanes stay together and lowest
            const Ins *in = &code[pc];
            mask = group;
            if (in->pred != NO_SLOT) {
                const u32 *p = REG(in->pred); u32 on = 0;
                for (int l = 0; l < 32; l++) on |= (p[l] & 1u) << l;
                mask &= in->flags & NEGATED ? ~on : on;
            }
            Count *c = &L->counts[in->line];
            c->issued++; c->active_lanes += (u64)__builtin_popcount(mask);
            W->issued++;
            if (++L->steps > L->max_steps) { L->stop_line = in->line; hazard(B, in, w, __builtin_ctz(group), H_STEPS); B->stop = 2; return; }
            int jumped = 0;
            switch ((enum op)in->op) {
            case OP_nop: break;
            case OP_mov_32: { A32; D32; LANES(d[l] = a[l]); break; }
            case OP_mov_64: { A64; D64; LANES(d[l] = a[l]); break; }
            case OP_special: { D32; EACH(d[l] = special(B, w, l, in->sub)) break; }
            case OP_clock: { L->used_clock = 1; if (in->type == T_u64) { D64; LANES(d[l] = W->issued); } else { D32; LANES(d[l] = (u32)W->issued); } break; }
            case OP_param_32: { D32; u64 v = fetch(L->params + in->imm, in->type2); if (in->flags & SIGNED) v = in->type2 == 1 ? (u64)(s64)(s8)v : in->type2 == 2 ? (u64)(s64)(s16)v : v; LANES(d[l] = (u32)v); break; }
            case OP_param_64: { D64; u64 v = fetch(L->params + in->imm, in->type2); if (in->flags & SIGNED) v = in->type2 == 4 ? (u64)(s64)(s32)v : v; LANES(d[l] = v); break; }
            case OP_pack_64: { AB32; D64; LANES(d[l] = (u64)a[l] | (u64)b[l] << 32); break; }
            case OP_pack_32: { AB32; D32; LANES(d[l] = (a[l] & 0xffff) | b[l] << 16); break; }
            case OP_unpack_64: { A64; u32 *x = in->d[0] == NO_SLOT ? 0 : REG(in->d[0]), *y = in->d[1] == NO_SLOT ? 0 : REG(in->d[1]); EACH({ u64 v = a[l]; if (x) x[l] = (u32)v; if (y) y[l] = (u32)(v >> 32); }) break; }
            case OP_unpack_32: { A32; u32 *x = in->d[0] == NO_SLOT ? 0 : REG(in->d[0]), *y = in->d[1] == NO_SLOT ? 0 : REG(in->d[1]); EACH({ u32 v = a[l]; if (x) x[l] = v & 0xffff; if (y) y[l] = v >> 16; }) break; }
            case OP_add_32: I2(u32, x + y) case OP_sub_32: I2(u32, x - y) case OP_mul_32: I2(u32, x * y)
            case OP_add_16: I2(u32, (u16)(x + y)) case OP_sub_16: I2(u32, (u16)(x - y)) case OP_mul_16: I2(u32, (u16)(x * y))
            case OP_add_64: J2(u64, x + y) case OP_sub_64: J2(u64, x - y) case OP_mul_64: J2(u64, x * y)
            case OP_mad_32: { ABC32; D32; LANES(d[l] = a[l] * b[l] + c[l]); break; }
            case OP_mad_16: { ABC32; D32; LANES(d[l] = (u16)(a[l] * b[l] + c[l])); break; }
            case OP_mad_64: { ABC64; D64; LANES(d[l] = a[l] * b[l] + c[l]); break; }
            case OP_mulwide_s32: { AB32; D64; LANES(d[l] = (u64)((s64)(s32)a[l] * (s64)(s32)b[l])); break; }
            case OP_mulwide_u32: { AB32; D64; LANES(d[l] = (u64)a[l] * (u64)b[l]); break; }
            case OP_mulwide_s16: { AB32; D32; LANES(d[l] = (u32)((s32)(s16)a[l] * (s32)(s16)b[l])); break; }
            case OP_mulwide_u16: { AB32; D32; LANES(d[l] = (a[l] & 0xffff) * (b[l] & 0xffff)); break; }
            case OP_madwide_s32: { AB32; const u64 *c = REG64(in->c); D64; LANES(d[l] = (u64)((s64)(s32)a[l] * (s64)(s32)b[l]) + c[l]); break; }
            case OP_madwide_u32: { AB32; const u64 *c = REG64(in->c); D64; LANES(d[l] = (u64)a[l] * (u64)b[l] + c[l]); break; }
            case OP_mulhi_s16: I2(s16, (u16)(((s32)x * (s32)y) >> 16)) case OP_mulhi_u16: I2(u16, ((u32)x * (u32)y) >> 16)
            case OP_abs_16: { A32; D32; LANES(s16 x = (s16)a[l]; d[l] = (u16)(x < 0 ? -x : x)); break; }
            case OP_mulhi_s32: I2(s32, ((s64)x * (s64)y) >> 32) case OP_mulhi_u32: I2(u32, ((u64)x * (u64)y) >> 32)
            case OP_mulhi_s64: J2(s64, ((__int128)x * (__int128)y) >> 64) case OP_mulhi_u64: J2(u64, ((unsigned __int128)x * (unsigned __int128)y) >> 64)
            case OP_div_s32: I2(s32, y == 0 ? -1 : y == -1 ? (s32)(0u - (u32)x) : x / y) case OP_div_u32: I2(u32, y == 0 ? FULL : x / y)
            case OP_rem_s32: I2(s32, y == 0 ? x : y == -1 ? 0 : x % y) case OP_rem_u32: I2(u32, y == 0 ? x : x % y)
            case OP_div_s64: J2(s64, y == 0 ? -1 : y == -1 ? (s64)(0ull - (u64)x) : x / y) case OP_div_u64: J2(u64, y == 0 ? ~0ull : x / y)
            case OP_rem_s64: J2(s64, y == 0 ? x : y == -1 ? 0 : x % y) case OP_rem_u64: J2(u64, y == 0 ? x : x % y)
            case OP_div_s16: I2(s16, (u16)(y == 0 ? -1 : x / y)) case OP_div_u16: I2(u16, y == 0 ? 0xffff : x / y)
            case OP_rem_s16: I2(s16, (u16)(y == 0 ? x : x % y)) case OP_rem_u16: I2(u16, y == 0 ? x : x % y)
            case OP_min_s32: I2(s32, x < y ? x : y) case OP_min_u32: I2(u32, x < y ? x : y) case OP_max_s32: I2(s32, x > y ? x : y) case OP_max_u32: I2(u32, x > y ? x : y)
            case OP_min_s16: I2(s16, (u16)(x < y ? x : y)) case OP_min_u16: I2(u16, x < y ? x : y) case OP_max_s16: I2(s16, (u16)(x > y ? x : y)) case OP_max_u16: I2(u16, x > y ? x : y)
            case OP_min_s64: J2(s64, x < y ? x : y) case OP_min_u64: J2(u64, x < y ? x : y) case OP_max_s64: J2(s64, x > y ? x : y) case OP_max_u64: J2(u64, x > y ? x : y)
            case OP_abs_32: { A32; D32; LANES(d[l] = (s32)a[l] < 0 ? 0u - a[l] : a[l]); break; }
            case OP_abs_64: { A64; D64; LANES(d[l] = (s64)a[l] < 0 ? 0ull - a[l] : a[l]); break; }
            case OP_neg_32: { A32; D32; LANES(d[l] = 0u - a[l]); break; }
            case OP_neg_16: { A32; D32; LANES(d[l] = (u16)(0u - a[l])); break; }
            case OP_neg_64: { A64; D64; LANES(d[l] = 0ull - a[l]); break; }
            case OP_and_32: I2(u32, x & y) case OP_or_32: I2(u32, x | y) case OP_xor_32: I2(u32, x ^ y)
            case OP_and_64: J2(u64, x & y) case OP_or_64: J2(u64, x | y) case OP_xor_64: J2(u64, x ^ y)
            case OP_not_32: { A32; D32; LANES(d[l] = ~a[l]); break; }
            case OP_not_16: { A32; D32; LANES(d[l] = (u16)~a[l]); break; }
            case OP_not_1: { A32; D32; LANES(d[l] = (a[l] & 1) ^ 1); break; }
            case OP_not_64: { A64; D64; LANES(d[l] = ~a[l]); break; }
            case OP_shl_32: I2(u32, y > 31 ? 0 : x << y) case OP_shl_16: I2(u32, y > 15 ? 0 : (u16)(x << y))
            case OP_shr_u32: I2(u32, y > 31 ? 0 : x >> y) case OP_shr_s32: { AB32; D32; LANES(d[l] = (u32)((s32)a[l] >> (b[l] > 31 ? 31 : b[l]))); break; }
            case OP_shr_u16: I2(u32, y > 15 ? 0 : (x & 0xffff) >> y) case OP_shr_s16: { AB32; D32; LANES(d[l] = (u16)((s32)(s16)a[l] >> (b[l] > 15 ? 15 : b[l]))); break; }
            case OP_shl_64: { A64; const u32 *b = REG(in->b); D64; LANES(d[l] = b[l] > 63 ? 0 : a[l] << b[l]); break; }
            case OP_shr_u64: { A64; const u32 *b = REG(in->b); D64; LANES(d[l] = b[l] > 63 ? 0 : a[l] >> b[l]); break; }
            case OP_shr_s64: { A64; const u32 *b = REG(in->b); D64; LANES(d[l] = (u64)((s64)a[l] >> (b[l] > 63 ? 63 : b[l]))); break; }
            case OP_shf_l: { ABC32; D32; LANES(u32 n = in->sub ? c[l] & 31 : (c[l] > 32 ? 32 : c[l]); d[l] = n == 0 ? b[l] : n == 32 ? a[l] : b[l] << n | a[l] >> (32 - n)); break; }
            case OP_shf_r: { ABC32; D32; LANES(u32 n = in->sub ? c[l] & 31 : (c[l] > 32 ? 32 : c[l]); d[l] = n == 0 ? a[l] : n == 32 ? b[l] : b[l] << (32 - n) | a[l] >> n); break; }
            case OP_lop3: { ABC32; D32; const u32 t = (u32)in->imm; LANES(u32 r = 0; for (int k = 0; k < 8; k++) if (t >> k & 1) r |= (k & 4 ? a[l] : ~a[l]) & (k & 2 ? b[l] : ~b[l]) & (k & 1 ? c[l] : ~c[l]); d[l] = r); break; }
            case OP_prmt: { ABC32; D32; LANES(u64 both = (u64)a[l] | (u64)b[l] << 32; u32 r = 0; for (int k = 0; k < 4; k++) { u32 s = c[l] >> (4 * k) & 15; u32 byte = (u32)(both >> (8 * (s & 7))) & 255; if (s & 8) byte = byte & 128 ? 255 : 0; r |= byte << (8 * k); } d[l] = r); break; }
            case OP_popc_32: { A32; D32; LANES(d[l] = (u32)__builtin_popcount(a[l])); break; }
            case OP_popc_64: { A64; D32; LANES(d[l] = (u32)__builtin_popcountll(a[l])); break; }
            case OP_clz_32: { A32; D32; LANES(d[l] = a[l] ? (u32)__builtin_clz(a[l]) : 32); break; }
            case OP_clz_64: { A64; D32; LANES(d[l] = a[l] ? (u32)__builtin_clzll(a[l]) : 64); break; }
            case OP_brev_32: { A32; D32; LANES(d[l] = __builtin_bitreverse32(a[l])); break; }
            case OP_brev_64: { A64; D64; LANES(d[l] = __builtin_bitreverse64(a[l])); break; }
            case OP_bfind_u32: { A32; D32; LANES(d[l] = a[l] ? (u32)(31 - __builtin_clz(a[l])) : FULL); break; }
            case OP_bfe_u32: { ABC32; D32; LANES(u32 p = b[l] & 255; u32 n = c[l] & 255; u32 v = p > 31 ? 0 : a[l] >> p; d[l] = n > 31 ? v : v & ((1u << n) - 1)); break; }
            case OP_bfe_s32: { ABC32; D32; LANES(u32 p = b[l] & 255; u32 n = c[l] & 255; if (p > 31) p = 31; if (n > 32 - p) n = 32 - p; d[l] = n == 0 ? 0 : (u32)((s32)(a[l] << (32 - p - n)) >> (32 - n))); break; }
            case OP_bfi_32: { ABC32; const u32 *e = REG(in->e); D32; LANES(u32 p = c[l] & 255; u32 n = e[l] & 255; u32 m = n > 31 ? FULL : (1u << n) - 1; m = p > 31 ? 0 : m << p; d[l] = (b[l] & ~m) | (p > 31 ? 0 : a[l] << p & m)); break; }
            case OP_dp4a: { ABC32; D32; LANES(s32 r = (s32)c[l]; for (int k = 0; k < 4; k++) { s32 x = in->type == T_s32 ? (s8)(a[l] >> 8 * k) : (u8)(a[l] >> 8 * k); s32 y = in->type2 == T_s32 ? (s8)(b[l] >> 8 * k) : (u8)(b[l] >> 8 * k); r += x * y; } d[l] = (u32)r); break; }
            case OP_setp_s32: { AB32; D32; COMPARE(s32, GET_S32); break; } case OP_setp_u32: { AB32; D32; COMPARE(u32, GET_U32); break; }
            case OP_setp_s16: { AB32; D32; COMPARE(s16, GET_S16); break; } case OP_setp_u16: { AB32; D32; COMPARE(u16, GET_U16); break; }
            case OP_setp_s64: { AB64; D32; COMPARE(s64, GET_S64); break; } case OP_setp_u64: { AB64; D32; COMPARE(u64, GET_U64); break; }
            case OP_setp_f32: { AB32; D32; COMPARE(f32, GET_F32); break; } case OP_setp_f64: { AB64; D32; COMPARE(f64, GET_F64); break; }
            case OP_setp_f16: { AB32; D32; COMPARE(f32, GET_F16); break; } case OP_setp_bf16: { AB32; D32; COMPARE(f32, GET_BF16); break; }
            case OP_selp_32: { ABC32; D32; LANES(d[l] = c[l] & 1 ? a[l] : b[l]); break; }
            case OP_selp_64: { AB64; const u32 *c = REG(in->c); D64; LANES(d[l] = c[l] & 1 ? a[l] : b[l]); break; }
            case OP_cvt_u64_u32: { A32; D64; LANES(d[l] = a[l]); break; }
            case OP_cvt_s64_s32: { A32; D64; LANES(d[l] = (u64)(s64)(s32)a[l]); break; }
            case OP_cvt_u32_u64: { A64; D32; LANES(d[l] = (u32)a[l]); break; }
            case OP_cvt: {
                const int wide_in = width(in->type2) == 64, wide_out = width(in->type) == 64 || in->e;
                EACH({ u64 v = convert(in, wide_in ? REG64(in->a)[l] : REG(in->a)[l]);
                       if (wide_out) { if (in->e && width(in->type) < 64) v = is_signed(in->type) ? (u64)(s64)(s32)v : v; REG64(in->d[0])[l] = v; } else REG(in->d[0])[l] = (u32)v; })
                break; }
            case OP_cvt_pack_f16: { AB32; D32; LANES(d[l] = (u32)f64_to_half((f64)as_f32(a[l])) << 16 | f64_to_half((f64)as_f32(b[l]))); break; }
            case OP_cvt_pack_bf16: { AB32; D32; LANES(d[l] = (u32)f32_to_bf16(as_f32(a[l])) << 16 | f32_to_bf16(as_f32(b[l]))); break; }
            case OP_add_f32: F2(x + y) case OP_sub_f32: F2(x - y) case OP_mul_f32: F2(x * y) case OP_fma_f32: F3(fmaf(x, y, z))
            case OP_div_f32: F2(x / y) case OP_min_f32: F2(fmin32(x, y)) case OP_max_f32: F2(fmax32(x, y))
            case OP_abs_f32: F1(fabsf(x)) case OP_neg_f32: F1(-x) case OP_sqrt_f32: F1(sqrtf(x)) case OP_rcp_f32: F1(1.f / x)
            case OP_rsqrt_f32: F1((f32)(1.0 / sqrt((f64)x))) case OP_ex2_f32: F1((f32)exp2((f64)x)) case OP_lg2_f32: F1((f32)log2((f64)x))
            case OP_sin_f32: F1((f32)sin((f64)x)) case OP_cos_f32: F1((f32)cos((f64)x)) case OP_tanh_f32: F1((f32)tanh((f64)x))
            case OP_copysign_f32: { AB32; D32; LANES(d[l] = (a[l] & 0x80000000u) | (b[l] & 0x7fffffffu)); break; }
            case OP_add_rz_f32: F2(f64_to_f32((f64)x + (f64)y, in->sub)) case OP_mul_rz_f32: F2(f64_to_f32((f64)x * (f64)y, in->sub))
            case OP_add_f64: G2(x + y) case OP_sub_f64: G2(x - y) case OP_mul_f64: G2(x * y) case OP_fma_f64: G3(fma(x, y, z)) case OP_div_f64: G2(x / y)
            case OP_min_f64: G2(fmin(x, y)) case OP_max_f64: G2(fmax(x, y)) case OP_abs_f64: G1(fabs(x)) case OP_neg_f64: G1(-x) case OP_sqrt_f64: G1(sqrt(x)) case OP_rcp_f64: G1(1.0 / x) case OP_rsqrt_f64: G1(1.0 / sqrt(x))
            case OP_copysign_f64: { AB64; D64; LANES(d[l] = (a[l] & 0x8000000000000000ull) | (b[l] & 0x7fffffffffffffffull)); break; }
            case OP_add_f16: HALF2(half_to_f32, to_half, x + y) case OP_sub_f16: HALF2(half_to_f32, to_half, x - y) case OP_mul_f16: HALF2(half_to_f32, to_half, x * y)
            case OP_min_f16: HALF2(half_to_f32, to_half, fmin(x, y)) case OP_max_f16: HALF2(half_to_f32, to_half, fmax(x, y))
            case OP_neg_16f: { A32; D32; LANES(d[l] = a[l] ^ 0x8000); break; } case OP_neg_16fx2: { A32; D32; LANES(d[l] = a[l] ^ 0x80008000u); break; }
            case OP_abs_16f: { A32; D32; LANES(d[l] = a[l] & 0x7fff); break; } case OP_abs_16fx2: { A32; D32; LANES(d[l] = a[l] & 0x7fff7fffu); break; }
            case OP_fma_f16: { ABC32; D32; LANES(d[l] = f64_to_half(fma((f64)half_to_f32((u16)a[l]), (f64)half_to_f32((u16)b[l]), (f64)half_to_f32((u16)c[l])))); break; }
#define PAIR2(get, set, expr) { AB32; D32; LANES(u32 r = 0; for (int k = 0; k < 2; k++) { f64 x = get((u16)(a[l] >> 16 * k)); f64 y = get((u16)(b[l] >> 16 * k)); r |= (u32)set(expr) << 16 * k; } d[l] = r); break; }
#define PAIR3(get, set, expr) { ABC32; D32; LANES(u32 r = 0; for (int k = 0; k < 2; k++) { f64 x = get((u16)(a[l] >> 16 * k)); f64 y = get((u16)(b[l] >> 16 * k)); f64 z = get((u16)(c[l] >> 16 * k)); r |= (u32)set(expr) << 16 * k; } d[l] = r); break; }
            case OP_add_f16x2: PAIR2(half_to_f32, to_half, x + y) case OP_sub_f16x2: PAIR2(half_to_f32, to_half, x - y) case OP_mul_f16x2: PAIR2(half_to_f32, to_half, x * y)
            case OP_min_f16x2: PAIR2(half_to_f32, to_half, fmin(x, y)) case OP_max_f16x2: PAIR2(half_to_f32, to_half, fmax(x, y)) case OP_fma_f16x2: PAIR3(half_to_f32, to_half, fma(x, y, z))
            case OP_add_bf16: HALF2(bf16_to_f32, to_bf16, x + y) case OP_sub_bf16: HALF2(bf16_to_f32, to_bf16, x - y) case OP_mul_bf16: HALF2(bf16_to_f32, to_bf16, x * y)
            case OP_min_bf16: HALF2(bf16_to_f32, to_bf16, fmin(x, y)) case OP_max_bf16: HALF2(bf16_to_f32, to_bf16, fmax(x, y))
            case OP_fma_bf16: { ABC32; D32; LANES(d[l] = to_bf16((f64)bf16_to_f32((u16)a[l]) * (f64)bf16_to_f32((u16)b[l]) + (f64)bf16_to_f32((u16)c[l]))); break; }
            case OP_add_bf16x2: PAIR2(bf16_to_f32, to_bf16, x + y) case OP_sub_bf16x2: PAIR2(bf16_to_f32, to_bf16, x - y) case OP_mul_bf16x2: PAIR2(bf16_to_f32, to_bf16, x * y)
            case OP_min_bf16x2: PAIR2(bf16_to_f32, to_bf16, fmin(x, y)) case OP_max_bf16x2: PAIR2(bf16_to_f32, to_bf16, fmax(x, y)) case OP_fma_bf16x2: PAIR3(bf16_to_f32, to_bf16, x * y + z)
            case OP_testp: { A32; D32; LANES(f32 x = as_f32(a[l]); int k = in->sub; d[l] = (u32)(k == 0 ? x - x == 0 : k == 1 ? x == x && x - x != 0 : k == 2 ? x == x : k == 3 ? x != x : k == 4 ? (a[l] & 0x7f800000u) && x - x == 0 : !(a[l] & 0x7f800000u) && (a[l] & 0x7fffffu))); break; }
            case OP_math_f32: { const u32 *a = REG(in->a), *b = REG(in->b), *c = REG(in->c); D32; const int ftz = in->flags & FTZ;
                EACH(d[l] = of_f32(flushf((f32)math_function(in->sub, (f64)flushf(as_f32(a[l]), ftz), (f64)flushf(as_f32(b[l]), ftz), (f64)flushf(as_f32(c[l]), ftz)), ftz))) break; }
            case OP_math_f64: { ABC64; D64; EACH(d[l] = of_f64(math_function(in->sub, as_f64(a[l]), as_f64(b[l]), as_f64(c[l])))) break; }
            case OP_ld: access_memory(B, W, w, in, mask, KIND_LOAD); break;
            case OP_st: access_memory(B, W, w, in, mask, KIND_STORE); break;
            case OP_atom: atomic_memory(B, W, w, in, mask); break;
            case OP_cvta_shared: { A64; D64; LANES(d[l] = a[l] + SHARED_BASE); break; } case OP_cvta_to_shared: { A64; D64; LANES(d[l] = a[l] - SHARED_BASE); break; }
            case OP_cvta_local: { A64; D64; LANES(d[l] = a[l] + LOCAL_BASE); break; } case OP_cvta_to_local: { A64; D64; LANES(d[l] = a[l] - LOCAL_BASE); break; }
            case OP_isspacep: { A64; D32; LANES(int s = a[l] - SHARED_BASE < WINDOW ? SPACE_SHARED : a[l] - LOCAL_BASE < WINDOW ? SPACE_LOCAL : SPACE_GLOBAL; d[l] = (u32)(s == in->sub)); break; }
            case OP_warp_sync: GATHER break;
            case OP_shfl: GATHER shuffle(B, W, w, in, mask); break;
            case OP_vote: { GATHER A32; D32; u32 on = 0, all, named = mask; EACH(on |= ((a[l] & 1) ^ (in->flags & VOLATILE ? 1 : 0)) << l) on &= named; all = named & mask;
                u32 r = in->sub == 0 ? on == all : in->sub == 1 ? on != 0 : in->sub == 2 ? on == 0 || on == all : on; EACH(d[l] = r) break; }
            case OP_activemask: { D32; u32 m = mask; EACH(d[l] = m) break; }
            case OP_match_any: { GATHER A32; D32; u32 r[32]; EACH({ r[l] = 0; for (int k = 0; k < 32; k++) if (mask >> k & 1 && a[k] == a[l]) r[l] |= 1u << k; }) EACH(d[l] = r[l]) break; }
            case OP_redux: { GATHER A32; D32; u32 r = 0; int first = 1; EACH({ u32 v = a[l]; if (first) { r = v; first = 0; } else switch ((enum atomic)in->sub) { case A_add: r += v; break; case A_and: r &= v; break; case A_or: r |= v; break; case A_xor: r ^= v; break;
                case A_min: r = in->type == T_s32 ? ((s32)v < (s32)r ? v : r) : v < r ? v : r; break; case A_max: r = in->type == T_s32 ? ((s32)v > (s32)r ? v : r) : v > r ? v : r; break; default: break; } }) EACH(d[l] = r) break; }
            case OP_bar: {
                L->counts[in->line].barriers++;
                EACH({ W->state[l] = LANE_PARKED; W->bar_id[l] = (s32)REG(in->a)[l]; W->bar_count[l] = in->b == NO_SLOT ? B->threads : (s32)REG(in->b)[l]; W->bar_pc[l] = pc; W->bar_line[l] = in->line; W->pc[l] = pc + 1; })
                u32 rest = group & ~mask;
                for (; rest; rest &= rest - 1) W->pc[__builtin_ctz(rest)] = pc + 1;
                jumped = 1; break; }
            case OP_bar_arrive: {
                if (mask) { int id = (int)REG(in->a)[__builtin_ctz(mask)] & 15; B->came[id] += __builtin_popcount(mask); L->counts[in->line].barriers++;
                    for (int k = 0; k < B->n_warps; k++) if (W->vc[k] > B->came_vc[id][k]) B->came_vc[id][k] = W->vc[k];
                    W->vc[w]++; }
                break; }
            case OP_bra: {
                u32 rest = group & ~mask;
                EACH(W->pc[l] = in->target)
                for (u32 r = rest; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc + 1;
                if (rest && mask) L->counts[in->line].divergent++;
                jumped = 1; break; }
            case OP_brx: { A32; const s32 *table = (const s32 *)(uintptr_t)in->imm; s32 first = -1; int split = 0;
                EACH({ s32 t = table[a[l] < (u32)in->sub ? a[l] : 0]; if (first >= 0 && t != first) split = 1; first = t; W->pc[l] = t; })
                for (u32 r = group & ~mask; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc + 1;
                if (split) L->counts[in->line].divergent++;
                jumped = 1; break; }
            case OP_call: {
                EACH({ if (W->depth[l] == MAX_DEPTH) { hazard(B, in, w, l, H_STEPS); B->stop = 1; return; } W->stack[l * MAX_DEPTH + W->depth[l]++] = pc + 1; W->pc[l] = in->target; })
                for (u32 r = group & ~mask; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc + 1;
                jumped = 1; break; }
            case OP_ret: {
                EACH({ if (W->depth[l]) W->pc[l] = W->stack[l * MAX_DEPTH + --W->depth[l]]; else W->state[l] = LANE_EXITED; })
                for (u32 r = group & ~mask; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc + 1;
                jumped = 1; break; }
            case OP_exit: {
                EACH(W->state[l] = LANE_EXITED)
                for (u32 r = group & ~mask; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc + 1;
                jumped = 1; break; }
            case OP_watch: {  // a variable that a trace follows; not part of the kernel, so not counted
                c->issued--; c->active_lanes -= (u64)__builtin_popcount(mask); W->issued--; L->steps--;
                const int size = (int)in->e;
                if (L->tracing) EACH(trace_access(B, in, w, l, SPACE_LOCAL, KIND_WATCH, size, in->sub, 0, in->type2, size == 8 ? REG64(in->a)[l] : REG(in->a)[l]))
                break; }
            case OP_trap: if (mask) { hazard(B, in, w, __builtin_ctz(mask), H_TRAP); B->stop = 1; return; } break;
            }
            if (B->stop) return;
            if (jumped) break;
            pc++;
            if (pc == next) {  // others wait here: meet them
                for (u32 r = group; r; r &= r - 1) W->pc[__builtin_ctz(r)] = pc;
                break;
            }
        }
    }
}

// ---- running a block ------------------------------------------------------------------------------------

// Whether a lane waits at barrier `id`.
static int waits(const Warp *W, int l, int id) { return (W->present >> l & 1) && W->state[l] == LANE_PARKED && W->bar_id[l] == id; }

// __syncthreads_count, _and, _or: every thread gets what the predicates of all make.
static void reduce_barrier(Block *B, int id) {
    Launch *L = B->L; u32 count = 0, and = 1, or = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int w = 0; w < B->n_warps; w++) for (int l = 0; l < 32; l++) {
            Warp *W = &B->warps[w];
            if (!waits(W, l, id)) continue;
            const Ins *in = &L->code[W->bar_pc[l]];
            if (!in->sub) continue;
            u32 p = (REG(in->c)[l] & 1) ^ (in->flags & VOLATILE ? 1u : 0u);
            if (pass) REG(in->d[0])[l] = in->sub == 1 ? count : in->sub == 2 ? and : or;
            else { count += p; and &= p; or |= p; }
        }
}

// Lets the barriers pass that all their threads have reached. Returns how many did.
static int release(Block *B) {
    int released = 0;
    for (int id = 0; id < 16; id++) {
        int arrived = B->came[id], wanted = 0, warp = -1, lane = 0, other = -1;
        for (int w = 0; w < B->n_warps; w++) for (int l = 0; l < 32; l++) {
            Warp *W = &B->warps[w];
            if (!waits(W, l, id)) continue;
            arrived++; wanted = W->bar_count[l];
            if (warp < 0) { warp = w; lane = l; }
            else if (W->bar_line[l] != B->warps[warp].bar_line[lane]) other = w * 32 + l;
        }
        if (warp < 0 || arrived < wanted) continue;
        if (id == 0 && other >= 0) {  // __syncthreads in two places
            Ins where = {0}; where.line = B->warps[warp].bar_line[lane];
            Hazard *h = hazard(B, &where, warp, lane, H_BARRIER);
            if (h) { h->index = other; h->size = -1; h->other_line = B->warps[other / 32].bar_line[other % 32]; }
            if (B->stop) return 0;
        }
        reduce_barrier(B, id);
        u32 known[32]; int in[32] = {0};
        memcpy(known, B->came_vc[id], sizeof known);
        for (int w = 0; w < B->n_warps; w++) {
            Warp *W = &B->warps[w];
            for (int l = 0; l < 32; l++) in[w] |= waits(W, l, id);
            if (in[w]) for (int k = 0; k < B->n_warps; k++) if (W->vc[k] > known[k]) known[k] = W->vc[k];
        }
        for (int w = 0; w < B->n_warps; w++) if (in[w]) {
            Warp *W = &B->warps[w];
            for (int l = 0; l < 32; l++) if (waits(W, l, id)) W->state[l] = LANE_RUNNING;
            memcpy(W->vc, known, sizeof known); W->vc[w]++; W->done = 0;
        }
        B->came[id] = 0; memset(B->came_vc[id], 0, sizeof known);
        released++; B->interval++;
    }
    return released;
}

static void stuck(Block *B) {  // nobody can go on: some threads wait for others that never come
    Launch *L = B->L;
    for (int w = 0; w < B->n_warps; w++) for (int l = 0; l < 32; l++) {
        Warp *W = &B->warps[w];
        if ((W->present >> l & 1) && W->state[l] == LANE_PARKED) {
            Ins where = {0}; where.line = W->bar_line[l];
            int missing_warp = -1, missing_lane = 0, arrived = 0;
            for (int v = 0; v < B->n_warps; v++) for (int k = 0; k < 32; k++) if (B->warps[v].present >> k & 1) {
                int here = B->warps[v].state[k] == LANE_PARKED && B->warps[v].bar_id[k] == W->bar_id[l];
                arrived += here;
                if (!here && missing_warp < 0) { missing_warp = v; missing_lane = k; }
            }
            Hazard *h = hazard(B, &where, w, l, H_BARRIER);
            if (h) { h->other_warp = missing_warp; h->index = missing_warp * 32 + missing_lane; h->size = arrived; }
            goto named;
        }
    }
named:
    if (!L->collect) { B->stop = 1; return; }
    for (int w = 0; w < B->n_warps; w++) for (int l = 0; l < 32; l++) if (B->warps[w].state[l] == LANE_PARKED) B->warps[w].state[l] = LANE_RUNNING;
    B->interval++;
}

int tw_run(Launch *L) {
    Block B = {0};
    B.L = L;
    B.threads = L->block[0] * L->block[1] * L->block[2];
    B.n_warps = (B.threads + 31) / 32;
    u32 *files = aligned_alloc(64, (size_t)(B.n_warps * (L->units ? L->units : 1) * 128 + 63) / 64 * 64);
    B.warps = calloc((size_t)B.n_warps, sizeof(Warp));
    s32 *stacks = calloc((size_t)B.n_warps * 32 * MAX_DEPTH, sizeof(s32));
    B.shared = calloc((size_t)L->shared_bytes + 16, 1);
    B.n_shadow = L->shared_bytes / L->shared_grain + 16;
    B.shadow = calloc((size_t)B.n_shadow, sizeof(Shadow));
    B.local = L->local_bytes ? calloc((size_t)B.n_warps * 32, (size_t)L->local_bytes) : 0;
    int status = DONE;
    if (files) memset(files, 0xc5, (size_t)B.n_warps * (size_t)(L->units ? L->units : 1) * 128);
    if (!files || !B.warps || !stacks || !B.shared || !B.shadow || (L->local_bytes && !B.local)) { status = NO_MEMORY; goto end; }
    for (s64 block = 0; block < (s64)L->grid[0] * L->grid[1] * L->grid[2]; block++) {
        B.block = (s32)block;
        B.block_x = (s32)(block % L->grid[0]); B.block_y = (s32)(block / L->grid[0] % L->grid[1]); B.block_z = (s32)(block / ((s64)L->grid[0] * L->grid[1]));
        B.interval = 0;
        memset(B.came, 0, sizeof B.came); memset(B.came_vc, 0, sizeof B.came_vc);
        memset(B.shared, 0xc5, (size_t)L->shared_bytes);
        if (L->shared_bytes) memset(B.shadow, 0, (size_t)B.n_shadow * sizeof(Shadow));
        if (B.local) memset(B.local, 0xc5, (size_t)B.n_warps * 32 * (size_t)L->local_bytes);
        for (int w = 0; w < B.n_warps; w++) {
            Warp *W = &B.warps[w]; memset(W, 0, sizeof *W);
            W->file = files + (s64)w * L->units * 32;
            W->stack = stacks + (s64)w * 32 * MAX_DEPTH;
            int lanes = B.threads - w * 32; W->present = lanes >= 32 ? FULL : (1u << lanes) - 1;
            for (int l = 0; l < 32; l++) { W->pc[l] = L->entry; if (!(W->present >> l & 1)) W->state[l] = LANE_EXITED; }
            W->vc[w] = 1;
        }
        for (;;) {
            for (int w = 0; w < B.n_warps && !B.stop; w++) run_warp(&B, w);
            if (B.stop) break;
            int parked = 0;
            for (int w = 0; w < B.n_warps; w++) for (int l = 0; l < 32; l++) parked |= (B.warps[w].present >> l & 1) && B.warps[w].state[l] == LANE_PARKED;
            if (!parked) break;
            if (!release(&B)) { if (!B.stop) stuck(&B); if (B.stop) break; }
        }
        if (B.stop) { status = B.stop == 2 ? TOO_MANY_STEPS : STOPPED; break; }
    }
end:
    free(files); free(B.warps); free(stacks); free(B.shared); free(B.shadow); free(B.local);
    return status;
}

void tw_free(void *p) { free(p); }
int tw_layout(int which) { return which == 0 ? (int)sizeof(Ins) : which == 1 ? (int)sizeof(Launch) : which == 2 ? (int)sizeof(Hazard) : which == 3 ? (int)sizeof(Access) : which == 4 ? (int)sizeof(Count) : (int)sizeof(Buffer); }
