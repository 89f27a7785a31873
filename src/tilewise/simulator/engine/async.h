// Bulk copies: cp.async.bulk between global memory, shared memory and the shared memory of another block of
// the cluster.
//
// A copy into shared memory reads its source when issued and lands when a thread first has to wait for its
// mbarrier. Until the mbarrier's phase completes, and afterwards for threads that did not wait for it, an
// access to its destination is a hazard. A copy out of shared memory executes when issued; its source must
// not be overwritten until its thread has waited for the bulk group.

typedef struct Flight {
    Block *to, *from;
    int object, w, lane, swizzle, step;
    u64 target;
    s64 size;
    u8 *data;
    u32 *knew; // what the sender of an st.async knew, propagated by its mbarrier; null for a copy
    Ins where;
} Flight;
typedef struct Bulk {
    int w, lane, group;
    u32 number;
    const Ins *where;
} Bulk;

#define BOXED 1 // OR-ed with the swizzle bits (0 for none): written by a tensor copy

static u64 swizzled(u64 address, int span) {
    return address ^ (address >> 3 & (u64)span);
} // span: address bits that change

static void count_bulk(Launch *L, const Ins *in, int out, s64 useful, s64 sectors, s64 moved) {
    Count *c = &L->counts[in->line];
    if (out) {
        c->bs_requests++;
        c->bs_useful += (u64)useful;
        c->bs_sectors += (u64)sectors;
        c->bs_delivered += (u64)moved;
    } else {
        c->bl_requests++;
        c->bl_useful += (u64)useful;
        c->bl_sectors += (u64)sectors;
        c->bl_delivered += (u64)moved;
    }
}

static s64 sectors_of(u64 address, s64 size) {
    return size ? (s64)((address + (u64)size - 1) / 32 - address / 32) + 1 : 0;
}

static int unaligned(Block *B, const Ins *in, int w, int l, u64 address, int unit, int write) {
    if (!(address & (u64)(unit - 1))) return 0;
    Hazard *h = hazard(B, in, w, l, H_MISALIGNED);
    if (h) {
        h->address = address;
        h->size = unit;
        h->write = write;
    }
    return 1;
}

// A contiguous range of global memory, checked for bounds and races; null after a hazard.
static u8 *global_run(Block *B, const Ins *in, int w, int l, u64 address, s64 size, int kind) {
    int space, buffer, last;
    s64 index, end;
    u8 *p = resolve(B, in, w, l, address, 1, SPACE_GLOBAL, kind, &space, &buffer, &index);
    if (!p || size < 1) return 0;
    if (!resolve(B, in, w, l, address + (u64)size - 1, 1, SPACE_GLOBAL, kind, &space, &last, &end)) return 0;
    if (B->L->buffers[buffer].words) order_global(B, in, w, l, buffer, index, (int)size, kind, 0);
    return B->stop ? 0 : p;
}

static void trace_bytes(Block *B, const Ins *in, int w, int l, int space, int kind, u64 address, const u8 *p,
                        s64 size, int unit) {
    if (!B->L->tracing) return;
    for (s64 i = 0; i + unit <= size; i += unit) {
        int buffer = -1, found;
        s64 index = (s64)address + i;
        if (space == SPACE_GLOBAL)
            resolve(B, in, w, l, address + (u64)i, 1, SPACE_GLOBAL, KIND_LOAD, &found, &buffer, &index);
        trace_access(B, in, w, l, space, kind, unit, buffer, address + (u64)i, index, fetch(p + i, unit));
    }
}

// Starts a copy into T's shared memory and takes ownership of `data`. The mbarrier is in T as well.
static void take_off(Block *B, Block *T, const Ins *in, int w, int l, u64 target, u8 *data, s64 size,
                     int swizzle, Object *o) {
    Cluster *C = B->cluster;
    const Warp *W = &B->warps[w];
    const int number = (int)(o - T->objects), shift = __builtin_ctz((u32)B->L->shared_grain);
    const Doer by = {object_agent(T, number), 1, 0, o->phase + 1, W->clock};
    const u32 covered = W->clock[B->clocks / 2 + o->agent];
    if (covered < o->started) { // the async proxy may not see the mbarrier
        Hazard *h = hazard(B, in, w, l, H_PROXY);
        if (h) {
            h->address = o->address;
            h->size = 8;
            h->write = 1;
            h->index = (s64)o->address;
            h->other_line = o->line;
            h->agent = BY_OBJECT;
            h->other_warp = warp_of(B, o->agent);
            h->other_block = (s32)C->blocks[o->agent / B->agents].block;
        }
    }
    if (!B->stop) order_agents(B, T, in, w, l, target, (int)size, KIND_STORE, &by);
    for (u64 at = target >> shift; !B->stop && at <= (target + (u64)size - 1) >> shift; at++)
        T->shadow[at].initialised = PENDING;
    if (C->n_flights == C->flight_room) {
        const s32 room = C->flight_room ? C->flight_room * 2 : 16;
        Flight *grown = realloc(C->flights, (size_t)room * sizeof(Flight));
        if (!grown) {
            free(data);
            B->stop = NO_MEMORY;
            return;
        }
        C->flights = grown;
        C->flight_room = room;
    }
    C->flights[C->n_flights++] = (Flight){T, B, number, w, l, swizzle, 0, target, size, data, 0, *in};
    if (T != B) visit(B, T, in, w, l, target, (int)size, 1);
}

static void land(Flight *f) {
    Block *T = f->to;
    Object *o = &T->objects[f->object];
    const int shift = __builtin_ctz((u32)T->L->shared_grain);
    const size_t part = f->size < 16 ? (size_t)f->size : 16;
    for (s64 i = 0; i < f->size; i += 16)
        memcpy(T->shared + swizzled(f->target + (u64)i, f->swizzle & ~BOXED), f->data + i, part);
    for (u64 at = f->target >> shift; at <= (f->target + (u64)f->size - 1) >> shift; at++) {
        T->readers[at].span = (u8)f->swizzle;
        T->shadow[at].initialised = WRITTEN;
        T->shadow[at].written = o->phase + 1;
    }
    trace_bytes(f->from, &f->where, f->w, f->lane, SPACE_SHARED, KIND_STORE, f->target, T->shared + f->target,
                f->size, 4);
    free(f->data);
    f->data = 0;
    if (f->knew) join(o->coming, f->knew, T->clocks);
    free(f->knew);
    f->knew = 0;
    if (!o->live) {
        object_hazard(f->from, &f->where, f->w, f->lane, MB_NONE, o->address, 0, o->line);
        return;
    }
    transact(f->from, T, &f->where, f->w, f->lane, o, -f->size);
}

// Lands the copies in flight on an mbarrier (null: on any), in issue order.
static void land_all(Cluster *C, const Object *o) {
    const s32 flying = C->n_flights;
    s32 left = 0;
    for (s32 i = 0; i < flying; i++) {
        Flight *f = &C->flights[i];
        if (o && &f->to->objects[f->object] != o) C->flights[left++] = *f;
        else land(f);
    }
    C->n_flights = left;
}

static void end_flights(Cluster *C) {
    for (s32 i = 0; i < C->n_flights; i++) {
        free(C->flights[i].data);
        free(C->flights[i].knew);
    }
    free(C->flights);
}

// Records a copy out of shared memory; its source counts as read until its thread has waited for it.
static void begin_bulk(Block *B, const Ins *in, int w, int l, u64 address, s64 size) {
    Warp *W = &B->warps[w];
    const Doer by = {bulk_agent(B, w), 1, 0, ++W->bulk_begun, W->clock};
    owner_of(B, &address);
    order_agents(B, B, in, w, l, address, (int)size, KIND_LOAD, &by);
    if (B->n_bulk == B->bulk_room) {
        const s32 room = B->bulk_room ? B->bulk_room * 2 : 16;
        Bulk *grown = realloc(B->bulk, (size_t)room * sizeof(Bulk));
        if (!grown) {
            B->stop = NO_MEMORY;
            return;
        }
        B->bulk = grown;
        B->bulk_room = room;
    }
    B->bulk[B->n_bulk++] = (Bulk){w, l, W->bulk_committed[l], W->bulk_begun, in};
}

// Lanes wait for all but the newest in->imm groups of their copies out of shared memory.
static void finish_bulk(Block *B, Warp *W, int w, const Ins *in, u32 mask) {
    s32 left = 0;
    u32 least = W->bulk_begun + 1;
    for (s32 i = 0; i < B->n_bulk; i++) {
        const Bulk one = B->bulk[i];
        if (one.w == w && (mask >> one.lane & 1) && one.group < W->bulk_committed[one.lane] - in->imm)
            continue;
        if (one.w == w && one.number < least) least = one.number;
        B->bulk[left++] = one;
    }
    B->n_bulk = left;
    W->clock[bulk_agent(B, w)] = least - 1;
}

// The mbarrier and destination blocks of a copy: with a multicast mask, several of the cluster. Returns a bit
// mask of blocks, 0 after a hazard.
static u32 destinations(Block *B, const Ins *in, const Warp *W, int l, u64 *target, u64 *barrier) {
    const Launch *L = B->L;
    Cluster *C = B->cluster;
    *barrier = REG64(in->d[0])[l] + (u64)(s64)in->target;
    if (in->d[1] == NO_SLOT) {
        const Block *T = owner_of(B, target);
        return T ? 1u << T->rank : 0;
    }
    owner_of(B, target);
    *barrier &= WITHIN;
    return REG(in->d[1])[l] & 0xffff & ((1u << C->size) - 1);
}

// Checks a copy into shared memory and sends `data` (takes ownership) to each destination.
static void deliver(Block *B, Warp *W, int w, const Ins *in, int l, u64 target, u8 *data, s64 size,
                    int swizzle) {
    u64 barrier, to = target;
    const u32 blocks = destinations(B, in, W, l, &to, &barrier);
    if (!blocks) {
        Hazard *h = hazard(B, in, w, l, H_CLUSTER);
        if (h) {
            h->address = to;
            h->size = (s32)size;
            h->write = 1;
            h->index = 2;
            h->other_block = (s32)(target >> RANK_SHIFT) - 1;
        }
    }
    B->landing = 1;
    for (u32 rest = blocks; rest && !B->stop; rest &= rest - 1) {
        const int rank = __builtin_ctz(rest);
        Block *T = &B->cluster->blocks[rank], *beside = 0;
        const u64 there = (u64)(rank + 1) << RANK_SHIFT | to;
        const u64 signal = in->d[1] == NO_SLOT ? barrier : (u64)(rank + 1) << RANK_SHIFT | barrier;
        Object *o = reach(B, in, w, l, there, 1, 1) && reach(B, in, w, l, there + (u64)size - 1, 1, 1)
                        ? object_at(B, in, w, l, signal, &beside)
                        : 0;
        if (!o || B->stop) continue;
        if (beside != T) {
            object_hazard(B, in, w, l, MB_NONE, signal, 1, o->line);
            continue;
        }
        u8 *copy = malloc((size_t)size);
        if (!copy) {
            B->stop = NO_MEMORY;
            break;
        }
        memcpy(copy, data, (size_t)size);
        take_off(B, T, in, w, l, to, copy, size, swizzle, o);
    }
    B->landing = 0;
    free(data);
}

// Reduces shared-memory elements into global memory (add, min and so on).
static void reduce_run(const Ins *in, u8 *to, const u8 *from, s64 size) {
    const Ins as = {.sub = in->d[2], .type2 = in->d[3]};
    const int unit = width(in->d[3]) / 8;
    for (s64 i = 0; i < size; i += unit)
        put(to + i, combine(&as, fetch(to + i, unit), fetch(from + i, unit), 0, unit), unit);
}

enum { BULK_IN, BULK_OUT, BULK_ACROSS };

// The source of a copy to another block counts as read by that block's mbarrier, whose phase signals
// completion.
static void read_across(Block *B, const Warp *W, int w, const Ins *in, int l, u64 source, s64 size) {
    const Launch *L = B->L;
    Block *T = B;
    u64 at = source;
    B->landing = 1;
    Object *o = object_at(B, in, w, l, REG64(in->d[0])[l] + (u64)(s64)in->target, &T);
    B->landing = 0;
    Block *S = owner_of(B, &at);
    if (!o || !S || B->stop) return;
    const Doer by = {object_agent(T, (int)(o - T->objects)), 1, 0, o->phase + 1, W->clock};
    order_agents(B, S, in, w, l, at, (int)size, KIND_LOAD, &by);
}

static void copy_bulk(Block *B, Warp *W, int w, const Ins *in, u32 mask) {
    Launch *L = B->L;
    const u64 *to = REG64(in->a), *from = REG64(in->b);
    const u32 *bytes = REG(in->c);
    EACH({
        const u64 target = to[l] + (u64)(s64)in->e, source = from[l] + (u64)in->imm;
        const s64 size = bytes[l];
        if (unaligned(B, in, w, l, target, 16, 1) || unaligned(B, in, w, l, source, 16, 0) ||
            unaligned(B, in, w, l, (u64)size, 16, 0)) {
            if (B->stop) return;
            continue;
        }
        if (!size) continue;
        u8 *p;
        if (in->sub == BULK_IN) p = global_run(B, in, w, l, source, size, KIND_LOAD);
        else {
            p = reach(B, in, w, l, source, 1, 0);
            if (p && !reach(B, in, w, l, source + (u64)size - 1, 1, 0)) p = 0;
        }
        if (B->stop) return;
        if (!p) continue;
        if (in->sub == BULK_OUT) {
            u8 *q = global_run(B, in, w, l, target, size, in->d[2] == NO_SLOT ? KIND_STORE : KIND_ATOMIC);
            if (B->stop) return;
            if (!q) continue;
            begin_bulk(B, in, w, l, source, size);
            if (in->d[2] == NO_SLOT) memcpy(q, p, (size_t)size);
            else reduce_run(in, q, p, size);
            trace_bytes(B, in, w, l, SPACE_SHARED, KIND_LOAD, source, p, size, 4);
            trace_bytes(B, in, w, l, SPACE_GLOBAL, KIND_STORE, target, q, size, 4);
            count_bulk(L, in, 1, size, sectors_of(target, size), size);
        } else {
            u8 *data = malloc((size_t)size);
            if (!data) {
                B->stop = NO_MEMORY;
                return;
            }
            memcpy(data, p, (size_t)size);
            if (in->sub == BULK_IN) trace_bytes(B, in, w, l, SPACE_GLOBAL, KIND_LOAD, source, p, size, 4);
            else read_across(B, W, w, in, l, source, size);
            if (B->stop) {
                free(data);
                return;
            }
            const int blocks = in->d[1] == NO_SLOT ? 1 : __builtin_popcount(REG(in->d[1])[l] & 0xffff);
            deliver(B, W, w, in, l, target, data, size, 0);
            count_bulk(L, in, 0, in->sub == BULK_IN ? size : 0,
                       in->sub == BULK_IN ? sectors_of(source, size) : 0, size * blocks);
        }
        if (B->stop) return;
    })
}

// st.async: stores a 4- or 8-byte register to the cluster's shared memory. It signals the mbarrier in the
// same block with release semantics: waiters synchronise with the sender's state at the store.
static void store_async(Block *B, Warp *W, int w, const Ins *in, u32 mask) {
    Launch *L = B->L;
    Cluster *C = B->cluster;
    const s64 size = in->imm;
    EACH({
        const u64 target = REG64(in->a)[l] + (u64)(s64)in->e;
        const u64 value = size == 8 ? REG64(in->b)[l] : REG(in->b)[l];
        if (unaligned(B, in, w, l, target, (int)size, 1)) {
            if (B->stop) return;
            continue;
        }
        u8 *data = malloc((size_t)size);
        u32 *knew = malloc((size_t)B->clocks * 4);
        if (!data || !knew) {
            free(data);
            free(knew);
            B->stop = NO_MEMORY;
            return;
        }
        memcpy(data, &value, (size_t)size);
        memcpy(knew, W->clock, (size_t)B->clocks * 4);
        const s32 flying = C->n_flights;
        deliver(B, W, w, in, l, target, data, size, 0);
        if (C->n_flights > flying) C->flights[flying].knew = knew;
        else free(knew);
        count_bulk(L, in, 0, 0, 0, size);
        if (B->stop) return;
    })
    W->vc[w]++;
}
