// Global-memory races within a launch. Two accesses are ordered, within a block, by a barrier; between blocks
// or within one, by a fence after the first access, an atomic after that fence, and an atomic in the second's
// block before the second (the "last block" pattern, a lock). Which word the atomics use is not checked, so a
// wrong flag may pass; a correct one always does.
//
// Not races: two atomics, or an atomic and a read; volatile, relaxed, acquire and release accesses count as
// atomics; a store of the value already there, since any order gives the same result. Lanes of one
// instruction that store different values to one word do race.

#define MANY 0xffffffffu  // several blocks read the word

// A Watch stays in registers if its address is never taken, so its readers must be inlined.
#define INLINED static inline __attribute__((always_inline))

// Records accesses to a watched buffer when several machines share a launch: see simulator/engine/cores.py.
INLINED void claim(u8 *claims, s64 from, s64 to, int changed) {
    for (s64 at = from; claims && at <= to; at++) claims[at] |= changed ? CHANGED : TOUCHED;
}

static int released_since(const Block *B, u32 block, u16 release) {  // block: number + 1
    return B->acquired && B->L->releases && (block == MANY || B->L->releases[block - 1] > release);
}

static void race_on(Block *B, const Ins *in, int w, int lane, int buffer, s64 at, int size, int kind,
                    u32 block, int warp, int line) {
    Hazard *h = hazard(B, in, w, lane, H_RACE);
    if (!h) return;
    h->buffer = buffer; h->index = at; h->size = size; h->write = kind != KIND_LOAD;
    h->other_block = block == MANY ? -1 : (s32)(block - 1); h->other_warp = warp; h->other_line = line;
}

// One lane's access to a watched buffer; `idle`: a store that does not change the value.
static void order_global(Block *B, const Ins *in, int w, int lane, int buffer, s64 offset, int size, int kind,
                         int idle) {
    Launch *L = B->L; Warp *W = &B->warps[w];
    const int shift = __builtin_ctz((u32)L->global_grain), atomic = kind == KIND_ATOMIC || (in->flags & SYNC);
    const u32 me = (u32)B->block + 1, stamp = (u32)L->steps;
    const s64 first = offset >> shift, last = (offset + size - 1) >> shift;
    claim(L->buffers[buffer].claims, first, last, kind != KIND_LOAD && !idle);
    if (idle) return;
    for (s64 at = first; at <= last; at++) {
        Word *s = &L->buffers[buffer].words[at];
        if (kind == KIND_LOAD && atomic) continue;
        if (s->write_block && !(s->atomic && (atomic || kind == KIND_LOAD))) {
            const int other = s->write_block != me;
            const int lanes = s->stamp == stamp && !other && s->write_warp == w && kind == KIND_STORE;
            const int unordered = other || (s->write_warp != w && s->written > W->vc[s->write_warp]);
            const int ordered = s->atomic ? B->acquired : released_since(B, s->write_block, s->release);
            if (lanes || (unordered && !ordered)) {
                const int warp = lanes ? -1 : s->write_warp;
                race_on(B, in, w, lane, buffer, offset, size, kind, s->write_block, warp, s->write_line);
                if (B->stop) return;
            }
        }
        if (kind == KIND_LOAD) {
            if (s->read_block != me) { s->read_block = s->read_block ? MANY : me; s->read_warps = 0; }
            if (s->read != W->vc[w]) { s->read = W->vc[w]; s->read_warps = 0; }
            s->read_warps |= 1u << w; s->read_line = (u16)in->line;
            s->read_release = L->releases ? L->releases[B->block] : 0;
            continue;
        }
        if (s->read_block && !atomic) {
            const int other = s->read_block != me; int warp = -1;
            for (u32 r = s->read_warps & ~(1u << w); r && !other; r &= r - 1)
                if (s->read > W->vc[__builtin_ctz(r)]) warp = __builtin_ctz(r);
            if ((other || warp >= 0) && !released_since(B, s->read_block, s->read_release)) {
                race_on(B, in, w, lane, buffer, offset, size, kind, s->read_block, warp, s->read_line);
                if (B->stop) return;
            }
        }
        s->write_block = me; s->write_warp = (u8)w; s->written = W->vc[w]; s->write_line = (u16)in->line;
        s->stamp = stamp; s->atomic = (u8)atomic; s->release = L->releases ? L->releases[B->block] : 0;
    }
}

// State shared by one instruction's accesses to a watched buffer.
typedef struct {
    Word *words; u8 *claims; const u32 *vc; u32 me, now, bit, stamp; s32 shift, buffer; u16 line, release;
    u8 warp, plain;
} Watch;

INLINED Watch watch(const Block *B, const Ins *in, int w, int buffer) {
    const Launch *L = B->L; const u32 *vc = B->warps[w].vc;
    return (Watch){L->buffers[buffer].words, L->buffers[buffer].claims, vc, (u32)B->block + 1, vc[w],
        1u << w, (u32)L->steps, __builtin_ctz((u32)L->global_grain), buffer, (u16)in->line,
        L->releases ? L->releases[B->block] : 0, (u8)w, !(in->flags & SYNC)};
}

// Whether a load or store of a word is clearly race-free; if so, records it.
INLINED int is_plain(const Watch *t, Word *s, int kind) {
    const int own = s->write_block == t->me
        && (s->write_warp == t->warp || s->written <= t->vc[s->write_warp]);
    if (kind == KIND_LOAD) {
        if (s->write_block && !own && !s->atomic) return 0;
        if (s->read_block != t->me) { s->read_block = s->read_block ? MANY : t->me; s->read_warps = 0; }
        if (s->read != t->now) { s->read = t->now; s->read_warps = 0; }
        s->read_warps |= t->bit; s->read_line = t->line; s->read_release = t->release;
        return 1;
    }
    if (s->write_block && (!own || s->stamp == t->stamp)) return 0;
    if (s->read_block && (s->read_block != t->me || s->read_warps & ~t->bit)) return 0;
    s->write_block = t->me; s->write_warp = t->warp; s->written = t->now; s->write_line = t->line;
    s->stamp = t->stamp; s->atomic = 0; s->release = t->release;
    return 1;
}

// order_global for loads and stores: nearly all take a few comparisons.
INLINED void order_watched(Block *B, const Ins *in, int w, int lane, const Watch *t, s64 offset, int size,
    int kind, int idle) {
    s64 at = offset >> t->shift; const s64 last = (offset + size - 1) >> t->shift;
    claim(t->claims, at, last, kind != KIND_LOAD && !idle);
    if (idle) return;
    if (t->plain && (kind == KIND_LOAD || at == last)) {  // a load may be recorded twice, a store may not
        while (at <= last && is_plain(t, &t->words[at], kind)) at++;
        if (at > last) return;
    }
    order_global(B, in, w, lane, t->buffer, offset, size, kind, 0);
}

// An atomic or equivalent: releases what its block wrote before a fence, and acquires what others released.
static void synchronise(Block *B, const Ins *in, int kind) {
    if (kind != KIND_ATOMIC && !(in->flags & SYNC)) return;
    if (kind != KIND_STORE) B->acquired = 1;
    if (kind != KIND_LOAD && B->fenced && B->L->releases) {
        if (B->L->releases[B->block] < 0xffff) B->L->releases[B->block]++;
        B->fenced = 0;
    }
}
