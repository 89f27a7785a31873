// Loads, stores and atomics of a warp: bounds, alignment, shared-memory history, and the data movement.

// Ordering within a block: every warp has a clock, and a barrier passes each warp the clocks of the others
// that reached it. An access races with another warp's earlier one that is newer than the clock it knows.
// Storing the value already there is no race, since any order gives the same result, unless the lanes that
// wrote it stored different values (MIXED); `target` is a plain store's destination, else null. For later
// stores, it counts as a read.
static int changes_nothing(const Launch *L, Warp *W, const Ins *in, int l, const u8 *p);
static void order_shared(Block *B, const Ins *in, int w, int lane, u64 offset, int size, int kind,
    const u8 *target) {
    Warp *W = &B->warps[w];
    int shift = __builtin_ctz((u32)B->L->shared_grain);
    if (B->L->agents) { order_lane(B, in, w, lane, offset, size, kind); return; }
    for (u64 at = offset >> shift; at <= (offset + (u64)size - 1) >> shift; at++) {
        Shadow *s = &B->shadow[at];
        u32 now = W->vc[w];
        int atomic = kind == KIND_ATOMIC;
        // otherwise a race, reported below
        const int told = s->write_warp == w || s->written <= W->vc[s->write_warp]
            || (kind == KIND_LOAD && s->same_warps >> w & 1);
        const int idle = target && s->initialised == WRITTEN && (!told || s->read_warps & ~(1u << w))
            && changes_nothing(B->L, W, in, lane, target);
        if ((s->initialised & PENDING) && told) {
            Hazard *h = hazard(B, in, w, lane, H_PENDING);
            if (h) { h->address = offset; h->size = size; h->write = kind != KIND_LOAD;
                h->index = (s64)offset; h->other_line = s->write_line; h->other_warp = s->write_warp; }
            continue;
        }
        if (kind == KIND_LOAD && !s->initialised) B->unwritten = 1;
        if (kind == KIND_ATOMIC && !s->initialised) {
            Hazard *h = hazard(B, in, w, lane, H_UNINITIALISED);
            if (h) { h->address = offset; h->size = size; h->index = (s64)offset; }
            s->initialised = WRITTEN;
        }
        if (s->written && !told && !idle && !(atomic && s->write_atomic)) {
            Hazard *h = hazard(B, in, w, lane, H_RACE);
            if (h) { h->address = offset; h->size = size; h->write = kind != KIND_LOAD;
                h->other_line = s->write_line; h->other_warp = s->write_warp; h->index = (s64)offset; }
        }
        if (idle) s->same_warps |= 1u << w;
        if (kind != KIND_LOAD && !idle) {
            u32 others = s->read_warps & ~(1u << w);
            for (; others; others &= others - 1) {
                int r = __builtin_ctz(others);
                if (s->read > W->vc[r] && !(atomic && (s->read_atomic >> r & 1))) {
                    Hazard *h = hazard(B, in, w, lane, H_RACE);
                    if (h) { h->address = offset; h->size = size; h->write = 1; h->other_line = s->read_line;
                        h->other_warp = r; h->index = (s64)offset; }
                    break;
                }
            }
            s->written = now; s->write_warp = (s16)w; s->write_atomic = (u8)atomic; s->write_line = in->line;
            s->initialised = WRITTEN; s->same_warps = 0;
        }
        if (kind != KIND_STORE || idle) {
            if (s->read != now) { s->read = now; s->read_warps = 0; s->read_atomic = 0; }
            s->read_warps |= 1u << w; s->read_line = in->line;
            if (atomic) s->read_atomic |= 1u << w; else s->read_atomic &= ~(1u << w);
        }
    }
}

static void mark_pending(Block *B, u64 offset, int size, int pending) {
    const int shift = __builtin_ctz((u32)B->L->shared_grain);
    for (u64 at = offset >> shift; at <= (offset + (u64)size - 1) >> shift; at++)
        B->shadow[at].initialised = pending ? PENDING : 0;
}

// The minimum clock this warp knows over all warps of its block: reads up to then precede all it does.
static inline u32 least_clock(const Block *B, const u32 *vc) {
    u32 least = vc[0];
    for (int k = 1; k < B->n_warps; k++) least = vc[k] < least ? vc[k] : least;
    return least;
}

// Fast path for 4-byte words. If nothing is wrong, as nearly always, a word takes a few comparisons. From the
// first lane for which they do not suffice, lanes go to order_shared.
static inline void order_words(Block *B, const Ins *in, Warp *W, int w, u32 mask, int kind,
    const u64 *address, const u32 *data) {
    const u32 *vc = W->vc, now = vc[w], me = 1u << w; const s32 line = in->line;
    Shadow *shadow = B->shadow; u32 left = B->quick ? kind == KIND_LOAD
        ? lanes_first(address, mask) : mask : 0;
    int l = B->quick ? 32 : 0; u8 mixed = 0;
    u32 value = 0; const Shadow *before = 0;  // the previous lane's value and target
    const u32 least = kind == KIND_STORE ? least_clock(B, vc) : 0;
    for (; left; left &= left - 1) {
        const int lane = __builtin_ctz(left);
        Shadow *s = &shadow[address[lane] >> 2];
        const int ordered = s->write_warp == w || s->written <= vc[s->write_warp];
        if (!ordered) break;
        if (kind == KIND_LOAD) {
            if (s->initialised != WRITTEN) break;
            if (s->read == now) s->read_warps |= me; else { s->read = now; s->read_warps = me;
                s->read_atomic = 0; }
            s->read_atomic &= ~me; s->read_line = line;
        } else {
            if (s->initialised == PENDING) break;
            if ((s->read_warps & ~me) && (s->read > least
                || !memcmp(B->shared + address[lane], &data[lane], 4))) break;
            if (s != before) mixed = 0; else if (value != data[lane]) mixed = MIXED;
            before = s; value = data[lane];
            s->written = now; s->write_warp = (s16)w; s->write_atomic = 0; s->write_line = line;
            s->initialised = WRITTEN | mixed; s->same_warps = 0;
        }
    }
    if (left) l = __builtin_ctz(left);
    u64 last = ~0ull;
    for (u32 slow = l < 32 ? mask & (FULL << l) : 0; slow && !B->stop; slow &= slow - 1) {
        const int lane = __builtin_ctz(slow);
        const u64 a = address[lane];
        if (kind == KIND_LOAD && a == last) continue;
        last = a;
        order_shared(B, in, w, lane, a, 4, kind, kind == KIND_STORE ? B->shared + a : 0);
        if (kind != KIND_STORE || B->L->agents) continue;
        Shadow *s = &shadow[a >> __builtin_ctz((u32)B->L->shared_grain)];
        if (s != before) mixed = 0; else if (value != data[lane]) mixed = MIXED;
        before = s; value = data[lane];
        if (s->write_warp == w) s->initialised |= mixed;
    }
}

// Translates a lane's address to host memory; null after a hazard. Sets *space to the actual state space.
static u8 *resolve(Block *B, const Ins *in, int w, int lane, u64 address, int size, int space, int kind,
    int *found, int *buffer, s64 *index) {
    Launch *L = B->L;
    *buffer = -1; *index = 0;
    if (space == SPACE_GENERIC) {
        if (address - SHARED_BASE < WINDOW) { space = SPACE_SHARED; address -= SHARED_BASE; }
        else if (address - LOCAL_BASE < WINDOW) { space = SPACE_LOCAL; address -= LOCAL_BASE; }
        else space = SPACE_GLOBAL;
    }
    if (space == SPACE_SHARED) address = within_own(B, address);
    *found = space;
    const int global = space != SPACE_SHARED && space != SPACE_LOCAL;
    const u64 near = 1ull << (GLOBAL_SHIFT - 1);  // an address this near an array, or null, is meant for it
    const u64 k = (address - GLOBAL_BASE + near) >> GLOBAL_SHIFT;
    const int in_buffer = global && address >= GLOBAL_BASE - near && k < (u64)L->n_buffers;
    if (global && address + near < 2 * near) {
        Hazard *h = hazard(B, in, w, lane, H_NULL_POINTER);
        if (h) { h->address = address; h->size = size; h->write = kind != KIND_LOAD; h->index = (s64)address; }
        return 0;
    }
    const u64 skew = in_buffer ? (u64)L->buffers[k].skew : 0;
    if ((address + skew) & (u64)(size - 1)) {
        Hazard *h = hazard(B, in, w, lane, H_MISALIGNED);
        if (h) { h->address = address; h->size = size; h->write = kind != KIND_LOAD;
            if (in_buffer) { h->buffer = L->buffers[k].id;
                h->index = (s64)(address - GLOBAL_BASE - (k << GLOBAL_SHIFT)); } }
        return 0;
    }
    if (space == SPACE_SHARED) {
        *index = (s64)address;
        if (address < (u64)L->shared_bytes && address + (u64)size <= (u64)L->shared_bytes
            && L->owners[address] &&
            L->owners[address] == L->owners[address + (u64)size - 1]) return B->shared + address;
        if (L->agents && address >> RANK_SHIFT && address >> RANK_SHIFT <= 255) return reach(B, in, w, lane,
            address, size, kind != KIND_LOAD);
    } else if (space == SPACE_LOCAL) {
        if (address < (u64)L->local_bytes && address + (u64)size <= (u64)L->local_bytes)
            return B->local + ((s64)(w * 32 + lane)) * L->local_bytes + address;
    } else {
        if (in_buffer) {
            s64 offset = (s64)(address - GLOBAL_BASE - (k << GLOBAL_SHIFT));
            if (L->buffers[k].id < 0) *found = SPACE_CONST;  // kernel parameters
            *buffer = L->buffers[k].id; *index = offset;
            if (offset >= 0 && (u64)offset + (u64)size <= L->buffers[k].size) {
                if (kind != KIND_LOAD && !L->buffers[k].writable) {
                    Hazard *h = hazard(B, in, w, lane, H_READONLY);
                    if (h) { h->address = address; h->size = size; h->write = 1; h->buffer = *buffer;
                        h->index = *index; }
                    return 0;
                }
                if (L->buffers[k].unset && kind != KIND_STORE) {
                    Hazard *h = hazard(B, in, w, lane, H_UNINITIALISED);
                    if (h) { h->address = address; h->size = size; h->buffer = *buffer; h->index = *index; }
                    if (B->stop) return 0;
                }
                if (kind != KIND_LOAD) L->buffers[k].unset = 0;
                return L->buffers[k].data + offset;
            }
        }
    }
    Hazard *h = hazard(B, in, w, lane, H_BOUNDS);
    if (h) { h->address = address; h->size = size; h->write = kind != KIND_LOAD;
        h->buffer = space == SPACE_GLOBAL ? *buffer : space == SPACE_SHARED ? -2 : -3; h->index = *index; }
    return 0;
}

static inline u64 fetch(const u8 *p, int size) {
    switch (size) { case 1: return *p; case 2: { u16 v; memcpy(&v, p, 2); return v; } case 4: { u32 v;
        memcpy(&v, p, 4); return v; } }
    u64 v; memcpy(&v, p, 8); return v;
}
static inline void put(u8 *p, u64 v, int size) { memcpy(p, &v, (size_t)size); }

#define POISON 0x7fc5c5c57fc5c5c5ull  // result of a bad read: NaN in either width

// The array that all lanes access with aligned, valid accesses of `whole` bytes; else -1.
static int array_of(const Launch *L, const u64 *address, u32 mask, int whole, int kind) {
    const u64 first = address[__builtin_ctz(mask)], near = 1ull << (GLOBAL_SHIFT - 1);
    const u64 k = (first - GLOBAL_BASE + near) >> GLOBAL_SHIFT;
    if (first < GLOBAL_BASE || k >= (u64)L->n_buffers) return -1;
    const Buffer *b = &L->buffers[k];
    if (b->id < 0 || b->unset || (b->skew & (whole - 1)) || (kind != KIND_LOAD && !b->writable)) return -1;
    return lanes_outside(address, GLOBAL_BASE + (k << GLOBAL_SHIFT), b->size, (u64)whole) & mask ? -1 : (int)k;
}

// Whether all lanes' shared accesses are in bounds, aligned, and within one variable each.
static inline int is_owned(const Block *B, const u64 *address, u32 mask, int whole) {
    const Launch *L = B->L; const u8 *owners = L->owners; u32 bad = 0;
    const u64 first = address[__builtin_ctz(mask)];
    if (first >= (u64)L->shared_bytes) return 0;
    const u64 from = B->spans[first >> 2].from, to = B->spans[first >> 2].to;
    if (!(lanes_outside(address, from, to - from, (u64)whole) & mask)) return 1;  // all in one variable
    if (lanes_outside(address, 0, (u64)L->shared_bytes, (u64)whole) & mask) return 0;
    EACH({ const u64 a = address[l]; bad |= !owners[a] | (owners[a] != owners[a + (u64)whole - 1]); })
    return !bad;
}

// Moves one 4-byte word per lane if all addresses are in bounds and aligned; otherwise does nothing and
// returns 0.
static int move_words(Block *B, Warp *W, int w, const Ins *in, u32 mask, int kind, const u64 *address) {
    Launch *L = B->L; u32 *data = REG(in->d[0]); u64 low = 0;
    u8 *at; int buffer = -1;
    if (in->type == SPACE_SHARED) {
        if (!is_owned(B, address, mask, 4)) return 0;
        order_words(B, in, W, w, mask, kind, address, data);
        if (B->stop) return 1;
        if (kind == KIND_LOAD) order_lane_loads(B, W, in, w, mask, address, 4);
        else order_lane_stores(B, in, w, mask, address, data);
        if (B->stop) return 1;
        if (B->unwritten) {
            B->unwritten = 0;
            EACH(taint_unwritten(B, B, W, w, l, in, in->d[0], address[l], 4))
        }
        at = B->shared;
    } else {
        const int k = array_of(L, address, mask, 4, kind);
        if (k < 0) return 0;
        low = GLOBAL_BASE + ((u64)k << GLOBAL_SHIFT);
        at = L->buffers[k].data;
        if (L->buffers[k].words) buffer = k;
    }
    if (buffer >= 0) {
        const Watch watched = watch(B, in, w, buffer);
        if (kind == KIND_LOAD) EACH({
            const u64 offset = address[l] - low;
            order_watched(B, in, w, l, &watched, (s64)offset, 4, KIND_LOAD, 0);
            if (B->stop) return 1;
            memcpy(&data[l], at + offset, 4);
        }) else EACH({
            const u64 offset = address[l] - low;
            order_watched(B, in, w, l, &watched, (s64)offset, 4, KIND_STORE,
                !memcmp(at + offset, &data[l], 4));
            if (B->stop) return 1;
            memcpy(at + offset, &data[l], 4);
        })
        return 1;
    }
    at = (u8 *)((uintptr_t)at - low);
    if (kind == KIND_STORE) EACH(memcpy(at + address[l], &data[l], 4))
    else if (mask == FULL) for (int l = 0; l < 32; l++) memcpy(&data[l], at + address[l], 4);
    else EACH(memcpy(&data[l], at + address[l], 4))
    return 1;
}

// Whether the history shows that a warp's shared store is safe. "No" if other warps have read the word and a
// plain store may leave it unchanged or write several values to it.
static inline int overwrites(const Block *B, const Ins *in, Warp *W, int w, u32 mask, const u64 *address,
    int words) {
    const u32 *vc = W->vc, me = 1u << w, least = least_clock(B, vc);
    int is_read = 0, again = 0;
    EACH({
        const Shadow *s = &B->shadow[address[l] >> 2];
        for (const Shadow *end = s + words; s < end; s++) {
            const int own = s->write_warp == w;
            if (s->initialised == PENDING || (!own && s->written > vc[s->write_warp])) return 0;
            again |= own && s->written == vc[w] && s->write_line == in->line;
            if (!(s->read_warps & ~me)) continue;
            if (s->read > least) return 0;
            is_read = 1;
        }
        if (is_read && in->op == OP_st && changes_nothing(B->L, W, in, l, B->shared + address[l])) return 0;
    })
    return !is_read || in->op != OP_st || (mask == FULL && !again && lanes_ascend(address));
}

// Whether the history shows that a warp's shared access is safe; if so, records it. Otherwise it may be
// partly recorded, and order_shared reports what is wrong.
static inline int order_vectors(Block *B, const Ins *in, Warp *W, int w, u32 mask, int kind, const u64 *address,
    int words) {
    const u32 *vc = W->vc, now = vc[w], me = 1u << w; const s32 line = in->line;
    if (kind == KIND_STORE && !overwrites(B, in, W, w, mask, address, words)) return 0;
    for (u32 left = kind == KIND_LOAD ? lanes_first(address, mask) : mask; left; left &= left - 1) {
        Shadow *s = &B->shadow[address[__builtin_ctz(left)] >> 2];
        for (const Shadow *end = s + words; s < end; s++) {
            if (kind == KIND_LOAD) {
                if (s->write_warp != w && s->written > vc[s->write_warp]) return 0;
                if (s->initialised != WRITTEN) return 0;
                if (s->read == now) s->read_warps |= me; else { s->read = now; s->read_warps = me;
                    s->read_atomic = 0; }
                s->read_atomic &= ~me; s->read_line = line;
            } else {
                s->written = now; s->write_warp = (s16)w; s->write_atomic = 0; s->write_line = line;
                s->initialised = WRITTEN; s->same_warps = 0;
            }
        }
    }
    return 1;
}

// Whether a lane's store leaves the value unchanged.
static int changes_nothing(const Launch *L, Warp *W, const Ins *in, int l, const u8 *p) {
    for (int v = 0; v < in->sub; v++) {
        const u64 bits = in->c == 8 ? REG64(in->d[v])[l] : REG(in->d[v])[l];
        if (memcmp(p + v * in->type2, &bits, (size_t)in->type2)) return 0;
    }
    return 1;
}

// Moves two or four words per lane, like move_words.
INLINED int move_vectors_of(Block *B, Warp *W, int w, const Ins *in, u32 mask, int kind, const u64 *address,
    const int words) {
    Launch *L = B->L; const int whole = 4 * words; u64 low = 0;
    u8 *at; int buffer = -1;
    if (in->type == SPACE_SHARED) {
        if (!B->quick || !is_owned(B, address, mask, whole)
            || !order_vectors(B, in, W, w, mask, kind, address, words)) return 0;
        if (kind == KIND_LOAD) order_lane_loads(B, W, in, w, mask, address, whole);
        if (B->stop) return 1;
        at = B->shared;
    } else {
        const int k = array_of(L, address, mask, whole, kind);
        if (k < 0) return 0;
        low = GLOBAL_BASE + ((u64)k << GLOBAL_SHIFT);
        at = L->buffers[k].data;
        if (L->buffers[k].words) buffer = k;
    }
    u32 *data[4];
    for (int v = 0; v < words; v++) data[v] = REG(in->d[v]);
    const Watch watched = buffer >= 0 ? watch(B, in, w, buffer) : (Watch){0};
    EACH({
        u8 *p = at + (address[l] - low); u32 moved[4];
        if (kind == KIND_LOAD) {
            if (buffer >= 0) order_watched(B, in, w, l, &watched, (s64)(address[l] - low), whole, kind, 0);
            if (B->stop) return 1;
            memcpy(moved, p, (size_t)whole);
            for (int v = 0; v < words; v++) data[v][l] = moved[v];
            continue;
        }
        for (int v = 0; v < words; v++) moved[v] = data[v][l];
        if (in->type == SPACE_SHARED) order_lanes(B, in, w, l, address[l], whole, kind,
            !memcmp(p, moved, (size_t)whole));
        for (int v = 0; v < words && buffer >= 0 && !B->stop; v++)
            order_watched(B, in, w, l, &watched, (s64)(address[l] - low) + 4 * v, 4, kind,
                !memcmp(p + 4 * v, &moved[v], 4));
        if (B->stop) return 1;
        memcpy(p, moved, (size_t)whole);
    })
    return 1;
}

static int move_vectors(Block *B, Warp *W, int w, const Ins *in, u32 mask, int kind, const u64 *address) {
    return in->sub == 4 ? move_vectors_of(B, W, w, in, mask, kind, address, 4)
        : in->sub == 2 && move_vectors_of(B, W, w, in, mask, kind, address, 2);
}

static inline u64 with_sign(u64 bits, int size) {
    return size == 1 ? (u64)(s64)(s8)bits : size == 2 ? (u64)(s64)(s16)bits
        : size == 4 ? (u64)(s64)(s32)bits : bits;
}

// Moves one element of any size per lane to or from an array, like move_words.
static int move_numbers(Block *B, Warp *W, int w, const Ins *in, u32 mask, int kind, const u64 *address) {
    Launch *L = B->L; const int size = in->type2, k = array_of(L, address, mask, size, kind);
    if (k < 0) return 0;
    const u64 low = GLOBAL_BASE + ((u64)k << GLOBAL_SHIFT);
    const int is_watched = L->buffers[k].words != 0;
    const Watch watched = watch(B, in, w, k);
    u8 *at = L->buffers[k].data; u32 *data = REG(in->d[0]); u64 *wide = REG64(in->d[0]);
    EACH({
        const u64 offset = address[l] - low; u64 bits = in->c == 8 ? wide[l] : data[l];
        if (is_watched) order_watched(B, in, w, l, &watched, (s64)offset, size, kind,
            kind == KIND_STORE && !memcmp(at + offset, &bits, (size_t)size));
        if (B->stop) return 1;
        if (kind == KIND_STORE) { put(at + offset, bits, size); continue; }
        bits = fetch(at + offset, size);
        if (in->flags & SIGNED) bits = with_sign(bits, size);
        if (in->c == 8) wide[l] = bits; else data[l] = (u32)bits;
    })
    return 1;
}

// Whether a load or store accesses shared memory.
static int is_shared(const Ins *in, u64 address) {
    return in->type == SPACE_SHARED || (in->type == SPACE_GENERIC && address - SHARED_BASE < WINDOW);
}

static void access_memory(Block *B, Warp *W, int w, const Ins *in, u32 mask, int kind) {
    Launch *L = B->L;
    int size = in->type2, vector = in->sub, whole = size * vector;
    const u64 *base = REG64(in->a);
    u64 address[32]; u32 global = 0, shared = 0, local = 0;
    Count *c = &L->counts[in->line];
    const int traced = is_traced(B, w);
    for (int l = 0; l < 32; l++) address[l] = base[l] + (u64)in->imm;
    if (in->flags & SYNC) {
        synchronise(B, in, kind);
        if (!(in->flags & VOLATILE) || !mask || !is_shared(in, address[__builtin_ctz(mask)])) W->epoch++;
    }
    if (size == 4 && vector <= 4 && in->c != 8 && mask && !traced && in->type <= SPACE_SHARED
        && (vector == 1 ? move_words : move_vectors)(B, W, w, in, mask, kind, address)) {
        if (in->type == SPACE_SHARED) count_shared(c, address, mask, whole, kind);
        else count_global(c, address, mask, whole, kind);
        return;
    }
    if (vector == 1 && in->type == SPACE_GLOBAL && mask && !traced
        && move_numbers(B, W, w, in, mask, kind, address)) {
        count_global(c, address, mask, size, kind);
        return;
    }
    EACH({
        int space, buffer; s64 index;
        u8 *p = resolve(B, in, w, l, address[l], whole, in->type, kind, &space, &buffer, &index);
        if (!p && B->stop) return;
        if (space == SPACE_SHARED) { shared |= 1u << l; if (in->type ==
            SPACE_GENERIC) address[l] -= SHARED_BASE;
            if (p && kind == KIND_STORE && !L->agents) {
                Shadow *s = &B->shadow[address[l] >> __builtin_ctz((u32)L->shared_grain)];
                const int again = s->write_warp == w && s->written == W->vc[w] && s->write_line == in->line;
                const int mixed = !again ? 0 : changes_nothing(L, W, in, l, p) ? s->initialised & MIXED : MIXED;
                order_shared(B, in, w, l, address[l], whole, kind, p);
                if (s->write_warp == w) s->initialised |= (u8)mixed;
            } else if (p) order_shared(B, in, w, l, address[l], whole, kind, 0);
            if (p && B->stop) return;
            if (B->unwritten) {
                u64 offset = address[l]; const Block *T = owner_of(B, &offset);
                B->unwritten = 0;
                for (int v = 0; v < vector && T; v++)
                    taint_unwritten(B, T, W, w, l, in, in->d[v], offset + (u64)(v * size), size);
            }
            if (p) { order_lanes(B, in, w, l, address[l], whole, kind,
                kind == KIND_STORE && changes_nothing(L, W, in, l, p)); if (B->stop) return; } }
        else if (space == SPACE_LOCAL) local |= 1u << l; else if (space == SPACE_GLOBAL) global |= 1u << l;
        const int watched = space == SPACE_GLOBAL && buffer >= 0 && L->buffers[buffer].words;
        if (p && watched && kind == KIND_LOAD) order_global(B, in, w, l, buffer, index, whole, kind, 0);
        if (B->stop) return;
        for (int v = 0; v < vector; v++) {
            u64 bits = 0;
            if (kind == KIND_LOAD) {
                bits = p ? fetch(p + v * size, size) : POISON;
                if (in->flags & SIGNED) bits = with_sign(bits, size);
                if (in->c == 8) REG64(in->d[v])[l] = bits; else REG(in->d[v])[l] = (u32)bits;
            } else {
                bits = in->c == 8 ? REG64(in->d[v])[l] : REG(in->d[v])[l];
                if (p && watched) order_global(B, in, w, l, buffer, index + v * size, size, kind,
                    !memcmp(p + v * size, &bits, (size_t)size));
                if (B->stop) return;
                if (p) put(p + v * size, bits, size);
            }
            if (p && space == SPACE_LOCAL && (W->poisoned || B->local_origin))
                follow_local(B, W, w, l, in->d[v], p + v * size, size, kind);
            if (traced) trace_access(B, in, w, l, space, kind, size, buffer, address[l] + (u64)(v * size),
                index + v * size, bits);
        }
    })
    if (global) count_global(c, address, global, whole, kind);
    if (shared) count_shared(c, address, shared, whole, kind);
    if (local) { c->local_requests++; c->local_useful += (u64)__builtin_popcount(local) * (u64)whole; }
}
