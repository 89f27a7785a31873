// mbarriers: objects in shared memory that count arrivals and bytes of asynchronous copies, phase by phase.
//
// A phase completes when no arrivals and no bytes are pending. Waiters synchronise with the threads that
// arrived (unless either side is .relaxed). A thread that waits for an incomplete phase sleeps; copies land
// when a thread first has to wait for them.

enum {
    MB_PLAIN = -1,
    MB_NONE,
    MB_TWICE,
    MB_ARRIVALS,
    MB_COUNT,
    MB_BYTES,
    MB_UNORDERED
}; // Hazard.buffer: what is wrong

static void land_all(Cluster *C, const Object *o);

static Hazard *object_hazard(Block *B, const Ins *in, int w, int l, int wrong, u64 address, s64 index,
                             int other_line) {
    Hazard *h = hazard(B, in, w, l, H_MBARRIER);
    if (h) {
        h->buffer = wrong;
        h->address = address & WITHIN;
        h->size = 8;
        h->index = index;
        h->other_line = other_line;
    }
    return h;
}

static Object *find_object(Block *T, u64 address) {
    for (int i = 0; i < T->n_objects; i++)
        if (T->objects[i].live && T->objects[i].address == address) return &T->objects[i];
    return 0;
}

// Whether an address can hold an mbarrier: 8-byte aligned and in shared memory; else reports a hazard.
static int reach_object(Block *B, const Ins *in, int w, int l, u64 address) {
    if (!(address & 7)) return reach(B, in, w, l, address, 8, 1) != 0;
    Hazard *h = hazard(B, in, w, l, H_MISALIGNED);
    if (h) {
        h->address = address;
        h->size = 8;
        h->write = 1;
    }
    return 0;
}

// The mbarrier at an address, possibly in another block (*T); null after a hazard.
static Object *object_at(Block *B, const Ins *in, int w, int l, u64 address, Block **T) {
    if (!reach_object(B, in, w, l, address)) return 0;
    u64 offset = address;
    *T = owner_of(B, &offset);
    Object *o = find_object(*T, offset);
    if (!o) {
        object_hazard(B, in, w, l, MB_NONE, address, 0, in->line);
        return 0;
    }
    if (B->warps[w].clock[o->agent] < o->started) {
        object_hazard(B, in, w, l, MB_UNORDERED, address, 0, o->line);
        if (B->stop) return 0;
    }
    return o;
}

static void settle(Block *T, Object *o) {
    Cluster *C = T->cluster;
    if (o->pending || o->transactions || !o->expected) return;
    join(o->done, o->coming, T->clocks);
    memset(o->coming, 0, (size_t)T->clocks * 4);
    o->phase++;
    o->pending = o->expected;
    C->events++;
    o->done[object_agent(T, (int)(o - T->objects))] = o->phase;
}

static void init_object(Block *B, const Ins *in, int w, int l, u64 address, u32 count) {
    Warp *W = &B->warps[w];
    Object *o = 0;
    if (!reach_object(B, in, w, l, address)) return;
    if ((o = find_object(B, address))) {
        object_hazard(B, in, w, l, MB_TWICE, address, 0, o->line);
        if (B->stop) return;
    }
    if (!count || count >= 1u << 20) {
        object_hazard(B, in, w, l, MB_COUNT, address, count, in->line);
        return;
    }
    order_shared(B, in, w, l, address, 8, KIND_STORE, 0);
    for (int i = 0; !o && i < B->n_objects; i++)
        if (!B->objects[i].live) o = &B->objects[i];
    if (!o && B->n_objects < MAX_OBJECTS) o = &B->objects[B->n_objects++];
    if (!o) {
        object_hazard(B, in, w, l, MB_COUNT, address, -1, in->line);
        B->stop = 1;
        return;
    }
    if (!o->done) {
        o->done = calloc((size_t)B->clocks, 4);
        o->coming = calloc((size_t)B->clocks, 4);
        if (!o->done || !o->coming) {
            B->stop = NO_MEMORY;
            return;
        }
    }
    memset(o->coming, 0, (size_t)B->clocks * 4);
    o->address = address;
    o->transactions = 0;
    o->expected = o->pending = (s32)count;
    o->line = in->line;
    o->agent = B->first + w;
    o->started = W->vc[w];
    o->live = 1;
    o->phase =
        (o->phase + 1) & ~1u; // continues from the slot's last mbarrier, so that old times stay old
    o->done[object_agent(B, (int)(o - B->objects))] = o->phase;
    const int shift = __builtin_ctz((u32)B->L->shared_grain);
    for (u64 at = address >> shift; at <= (address + 7) >> shift; at++) B->shadow[at].initialised = OBJECT;
}

static void end_object(Block *B, Object *o) {
    const int shift = __builtin_ctz((u32)B->L->shared_grain);
    for (u64 at = o->address >> shift; at <= (o->address + 7) >> shift; at++) B->shadow[at] = (Shadow){0};
    o->live = 0;
}

// Merges a warp's clock into the current phase.
static void pass_on(Block *B, int w, Object *o) { join(o->coming, B->warps[w].clock, B->clocks); }

static void arrive(Block *B, Block *T, const Ins *in, int w, int l, Object *o, s64 count) {
    if (count < 1 || count > o->pending) {
        object_hazard(B, in, w, l, MB_ARRIVALS, o->address, o->pending, o->line);
        if (B->stop) return;
        count = o->pending;
    }
    if (!(in->flags & RELAXED)) pass_on(B, w, o);
    o->pending -= (s32)count;
    B->cluster->events++;
    settle(T, o);
}

static void transact(Block *B, Block *T, const Ins *in, int w, int l, Object *o, s64 bytes) {
    o->transactions += bytes;
    B->cluster->events++;
    if (o->transactions >= 1 << 20 || o->transactions <= -(1 << 20))
        object_hazard(B, in, w, l, MB_BYTES, o->address, o->transactions, o->line);
    else settle(T, o);
}

static void arrive_after_copies(Block *B, const Ins *in, int w, int l, Object *o);

// in->sub: operation; in->a, in->imm: address; in->b: count; in->d[0]: state, the phase with the count in the
// upper bits.
static void use_objects(Block *B, Warp *W, int w, const Ins *in, u32 mask) {
    Launch *L = B->L;
    const u64 *base = REG64(in->a);
    int released = 0;
    L->counts[in->line].mbarriers += mask != 0;
    EACH({
        const u64 address = base[l] + (u64)in->imm;
        Block *T = B;
        const s64 count = in->b == NO_SLOT ? 1 : (s64)REG(in->b)[l];
        if (in->sub == B_init) {
            init_object(B, in, w, l, within_own(B, address), (u32)count);
            if (B->stop) return;
            continue;
        }
        if (in->sub == B_pending) {
            REG(in->d[0])[l] = (u32)(base[l] >> 32);
            continue;
        }
        Object *o = object_at(B, in, w, l, address, &T);
        if (B->stop) return;
        if (!o) continue;
        if (in->d[0] != NO_SLOT) REG64(in->d[0])[l] = (u64)o->phase | (u64)(u32)o->pending << 32;
        switch ((enum mbarrier)in->sub) {
        case B_init:
        case B_pending: break;
        case B_inval: end_object(T, o); break;
        case B_expect: transact(B, T, in, w, l, o, count); break;
        case B_complete: transact(B, T, in, w, l, o, -count); break;
        case B_arrive_expect:
            o->transactions += count;
            arrive(B, T, in, w, l, o, 1);
            released = 1;
            break;
        case B_drop_expect:
            o->transactions += count;
            o->expected--;
            arrive(B, T, in, w, l, o, 1);
            released = 1;
            break;
        case B_drop:
            o->expected -= (s32)count;
            arrive(B, T, in, w, l, o, count);
            released = 1;
            break;
        case B_arrive:
            arrive(B, T, in, w, l, o, count);
            released = 1;
            break;
        case B_copies:
            o->pending++;
            arrive_after_copies(B, in, w, l, o);
            arrive(B, T, in, w, l, o, 1);
            released = 1;
            break;
        case B_copies_noinc:
            arrive_after_copies(B, in, w, l, o);
            arrive(B, T, in, w, l, o, 1);
            released = 1;
            break;
        }
        if (B->stop) return;
    })
    W->vc[w] += (u32)released;
}

// Whether a phase has completed.
static int phase_over(const Object *o, const Ins *in, u64 asked) {
    return in->sub & 1 ? (o->phase & 1) != (asked & 1) : o->phase != (u32)asked;
}

// test_wait or, with in->sub & 2, try_wait; in->sub & 1: by parity. Returns the lanes that must wait.
static u32 wait_objects(Block *B, Warp *W, int w, const Ins *in, u32 mask) {
    Launch *L = B->L;
    const u64 *base = REG64(in->a);
    u32 blocked = 0;
    EACH({
        const u64 address = base[l] + (u64)in->imm;
        Block *T = B;
        const u64 asked = in->sub & 1 ? REG(in->b)[l] : REG64(in->b)[l];
        Object *o = object_at(B, in, w, l, address, &T);
        if (B->stop) return 0;
        if (!o) {
            REG(in->d[0])[l] = 1;
            continue;
        }
        if (!phase_over(o, in, asked)) land_all(B->cluster, o);
        if (B->stop) return 0;
        const int over = phase_over(o, in, asked);
        if (!over && W->poll[l] != 2) {
            W->state[l] = LANE_BLOCKED;
            W->blocked_on[l] = ON_OBJECT;
            W->poll[l] = !(in->sub & 2);
            W->object[l] = (s32)(o - T->objects);
            W->awaited[l] = o->phase;
            blocked |= 1u << l;
            continue;
        }
        W->poll[l] = 0;
        if (over && !(in->flags & RELAXED)) join(W->clock, o->done, B->clocks);
        REG(in->d[0])[l] = (u32)over;
    })
    if (mask & ~blocked) L->counts[in->line].mbarriers++;
    return blocked;
}

// cp.async.mbarrier.arrive: this mbarrier's phase signals completion of the lane's cp.async copies.
static void arrive_after_copies(Block *B, const Ins *in, int w, int l, Object *o) {
    Copies *kept = &B->copies[w];
    s32 left = 0;
    const Doer by = {object_agent(B, (int)(o - B->objects)), 0, 0, o->phase + 1, B->warps[w].clock};
    for (s32 i = 0; i < kept->count && !B->stop; i++) {
        const Copy *copy = &kept->list[i];
        if (copy->thread != l) {
            kept->list[left++] = *copy;
            continue;
        }
        mark_pending(B, copy->target, copy->size, 0);
        memcpy(B->shared + copy->target, copy->data, (size_t)copy->size);
        Ins where = *in;
        where.line = copy->line;
        order_agents(B, B, &where, w, l, copy->target, copy->size, KIND_STORE, &by);
    }
    kept->count = left;
}
