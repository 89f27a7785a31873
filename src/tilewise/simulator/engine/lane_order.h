// Races between lanes of one warp through shared memory. The simulator runs lanes in lockstep; a GPU need
// not: a lane may read another's write only after the lanes have synchronised. Each warp counts its
// synchronisations as epochs. Two accesses to a word in one epoch, by different lanes and instructions, at
// least one a store, are a race.
//
// To avoid false positives, more starts an epoch than CUDA guarantees: __syncwarp and barriers, but also
// shuffles, votes, matrix instructions, atomics and fences, whichever lanes take part. Volatile accesses do
// not: they sufficed before Volta, but no longer do. Not races: a store of the value already there, a lane
// reading back its own value that others stored too, and stores of one instruction. Copies, and kernels with
// mbarriers or clusters, are not checked.

typedef struct Lanes {
    // epoch and warp of the last store, its lanes; same for loads
    u32 wrote, writers, read, readers;
    u64 step;
    s32 write_line, read_line;
    u8 write_atomic, read_atomic;
} Lanes;

// Loads of a warp in an epoch without stores so far. They are deferred because nearly always no store follows
// before the epoch ends, and then they do not matter.
#define LOADS 512
typedef struct LoadLog {
    u32 epoch; s32 count;
    struct { const Ins *in; u32 mask, address[32]; s32 size; } list[LOADS];
} LoadLog;

static void lanes_race(Block *B, const Ins *in, int w, int lane, u64 offset, int size, int kind,
    int other, s32 line) {
    Hazard *h = hazard(B, in, w, lane, H_RACE);
    if (!h) return;
    h->address = offset; h->size = size; h->index = (s64)offset; h->write = kind != KIND_LOAD;
    h->other_line = line; h->other_warp = w; h->other_lane = other + 1;
}

static void settle_loads(Block *B, int w);

// One lane's shared-memory access; `idle`: a store that does not change the value.
static inline void order_lanes(Block *B, const Ins *in, int w, int lane, u64 offset, int size,
    int kind, int idle) {
    Warp *W = &B->warps[w];
    const int shift = __builtin_ctz((u32)B->L->shared_grain), atomic = kind == KIND_ATOMIC;
    const u32 now = W->epoch << 5 | (u32)w, me = 1u << lane;
    if (B->L->agents || (in->flags & (SYNC | VOLATILE)) == SYNC) return;
    if (kind != KIND_LOAD && !idle && W->stored != W->epoch) { W->stored = W->epoch; settle_loads(B, w); }
    for (u64 at = offset >> shift; at <= (offset + (u64)size - 1) >> shift; at++) {
        Lanes *s = &B->lanes[at];
        if (idle) { if (s->wrote == now) s->writers |= me; continue; }
        const int together = s->step == W->issued && kind == KIND_STORE;
        if (s->wrote == now && !(s->writers & me) && !together && !(atomic && s->write_atomic)) {
            lanes_race(B, in, w, lane, offset, size, kind, __builtin_ctz(s->writers), s->write_line);
            if (B->stop) return;
        }
        if (kind != KIND_LOAD) {
            const u32 others = s->read == now ? s->readers & ~me : 0;
            if (others && !(atomic && s->read_atomic)) {
                lanes_race(B, in, w, lane, offset, size, kind, __builtin_ctz(others), s->read_line);
                if (B->stop) return;
            }
            s->write_atomic = (u8)(atomic && (s->wrote != now || s->write_atomic));
            s->writers = s->wrote == now && together ? s->writers | me : me;
            s->wrote = now; s->step = W->issued; s->write_line = in->line;
        }
        if (kind != KIND_STORE) {
            if (s->read != now) { s->read = now; s->readers = 0; s->read_atomic = 1; }
            s->readers |= me; s->read_line = in->line; s->read_atomic &= (u8)atomic;
        }
    }
}

// Adds the deferred loads to the history, before the epoch's first store.
static void settle_loads(Block *B, int w) {
    LoadLog *log = &B->loads[w];
    if (log->epoch == B->warps[w].epoch)
        for (int k = 0; k < log->count; k++)
            for (u32 r = log->list[k].mask; r; r &= r - 1) {
                const int l = __builtin_ctz(r);
                order_lanes(B, log->list[k].in, w, l, log->list[k].address[l], log->list[k].size, KIND_LOAD, 0);
            }
    log->count = 0;
}

// A warp's loads of `size` bytes per lane.
static void order_lane_loads(Block *B, Warp *W, const Ins *in, int w, u32 mask, const u64 *address, int size) {
    LoadLog *log = &B->loads[w];
    if (W->stored == W->epoch) {
        for (u32 r = mask; r && !B->stop; r &= r - 1) {
            const int l = __builtin_ctz(r);
            order_lanes(B, in, w, l, address[l], size, KIND_LOAD, 0);
        }
        return;
    }
    if (log->epoch != W->epoch) { log->epoch = W->epoch; log->count = 0; }
    if (log->count == LOADS) settle_loads(B, w);
    log->list[log->count].in = in; log->list[log->count].mask = mask; log->list[log->count].size = size;
    for (int l = 0; l < 32; l++) log->list[log->count].address[l] = (u32)address[l];
    log->count++;
}

// A warp's stores of 4-byte words.
static void order_lane_stores(Block *B, const Ins *in, int w, u32 mask, const u64 *address, const u32 *data) {
    for (u32 r = mask; r && !B->stop; r &= r - 1) {
        const int l = __builtin_ctz(r);
        order_lanes(B, in, w, l, address[l], 4, KIND_STORE, !memcmp(B->shared + address[l], &data[l], 4));
    }
}
