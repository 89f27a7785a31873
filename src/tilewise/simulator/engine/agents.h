// Shared-memory ordering when agents other than one block's warps access it: warps of a cluster, bulk copies
// out of shared memory, warpgroups (through wgmma) and mbarriers (the data of a copy counts as written by the
// mbarrier that signals its completion).
//
// Each agent has a clock. A warp's vector clock holds, per agent, the time up to which it has synchronised
// with that agent; barriers of every kind propagate it. A conflict with an access later than that time is a
// hazard, whatever order the simulator ran them in. A second vector, stored after the first, holds what proxy
// fences cover: generic writes that the async proxy may read.
//
// Why two: loads and stores use the generic proxy, copies and wgmma the async proxy, and a barrier orders
// accesses of one proxy only. After a barrier a warp may load another warp's write, but a copy that it issues
// may still read the old data. Only fence.proxy.async extends the first vector's ordering to the second.

// Agents of a block: warps, their bulk copies, warpgroups, mbarriers.
static int groups_of(const Block *B) { return (B->n_warps + 3) / 4; }
static int bulk_agent(const Block *B, int w) { return B->first + B->n_warps + w; }
static int group_agent(const Block *B, int w) { return B->first + 2 * B->n_warps + w / 4; }
static int object_agent(const Block *B, int number) {
    return B->first + 2 * B->n_warps + groups_of(B) + number;
}
static int sort_of(const Block *B, int agent) {
    const int a = agent % B->agents, n = B->n_warps;
    return a < n ? BY_WARP : a < 2 * n ? BY_BULK : a < 2 * n + groups_of(B) ? BY_GROUP : BY_OBJECT;
}
static int warp_of(const Block *B, int agent) {
    const int a = agent % B->agents, n = B->n_warps;
    return a < n ? a : a < 2 * n ? a - n : a < 2 * n + groups_of(B) ? (a - 2 * n) * 4 : -1;
}

typedef struct {
    int agent, proxy, atomic;
    u32 clock;
    const u32 *known;
} Doer;

#define RANK_SHIFT                                                                                           \
    24 // shared addresses above this bit belong to the block of rank (address >> 24) - 1
#define WITHIN ((1ull << RANK_SHIFT) - 1)

// The block whose shared memory contains the address, which becomes an offset in that block. Null if no such
// rank exists.
static Block *owner_of(Block *B, u64 *address) {
    const u64 rank = *address >> RANK_SHIFT;
    if (!rank) return B;
    *address &= WITHIN;
    return rank <= (u64)B->cluster->size ? &B->cluster->blocks[rank - 1] : 0;
}

// Tag in the upper bits of a shared address: in a cluster the block's rank, as on a GPU, so that the address
// is valid in other blocks. Mask it off for a wgmma descriptor, which has only 18 address bits.
static u64 mark_of(const Block *B) {
    return B->L->agents && B->cluster->size > 1 ? (u64)(B->rank + 1) << RANK_SHIFT : 0;
}

// Removes that tag from an address in the block's own shared memory; leaves other blocks' addresses
// unchanged.
static u64 within_own(const Block *B, u64 address) {
    return B->L->agents && address >> RANK_SHIFT == (u64)B->rank + 1 ? address & WITHIN : address;
}

// Reports a conflict with another agent's access.
static void conflict(Block *B, const Ins *in, int w, int lane, int kind, u64 offset, int size, int write,
                     int agent, int line) {
    Hazard *h = hazard(B, in, w, lane, kind);
    if (!h) return;
    h->address = offset;
    h->size = size;
    h->write = write;
    h->index = (s64)offset;
    h->other_line = line;
    h->agent = sort_of(B, agent);
    h->other_warp = warp_of(B, agent);
    h->other_block = (s32)B->cluster->blocks[agent / B->agents].block;
}

static void add_reader(Readers *r, const Doer *by, int line) {
    int kept = 0, mine = -1;
    for (int i = 0; i < r->count; i++) {
        const Reader one = r->list[i];
        if (one.agent == by->agent) mine = kept;
        else if (one.clock <= by->known[one.agent] && !one.atomic)
            continue; // what follows this read follows that one too
        r->list[kept++] = one;
    }
    r->count = (u16)kept;
    if (mine < 0) {
        if (r->count == r->room) {
            const u16 room = r->room ? r->room * 2 : 2;
            Reader *grown = realloc(r->list, room * sizeof(Reader));
            if (!grown) return;
            r->list = grown;
            r->room = room;
        }
        mine = r->count++;
    }
    r->list[mine] = (Reader){line, (s16)by->agent, (u8)by->atomic, by->clock};
}

// Checks and records an agent's access to T's shared memory.
static void order_agents(Block *B, Block *T, const Ins *in, int w, int lane, u64 offset, int size, int kind,
                         const Doer *by) {
    const int shift = __builtin_ctz((u32)B->L->shared_grain), covered = B->clocks / 2,
              write = kind != KIND_LOAD;
    for (u64 at = offset >> shift; at <= (offset + (u64)size - 1) >> shift && !B->stop; at++) {
        Shadow *s = &T->shadow[at];
        Readers *r = &T->readers[at];
        const u64 here = at << shift > offset ? at << shift : offset;
        if (s->initialised == OBJECT) {
            conflict(B, in, w, lane, H_MBARRIER, here, size, write, s->write_warp, s->write_line);
            return;
        }
        const int told = !s->written || s->written <= by->known[s->write_warp];
        if ((s->initialised & PENDING) || (!told && sort_of(B, s->write_warp) == BY_OBJECT)) {
            conflict(B, in, w, lane, H_PENDING, here, size, write, s->write_warp, s->write_line);
            continue;
        }
        if (kind == KIND_LOAD && !by->proxy && !s->initialised) B->unwritten = 1;
        else if (kind != KIND_STORE && !s->initialised) {
            Hazard *h = hazard(B, in, w, lane, H_UNINITIALISED);
            if (h) {
                h->address = here;
                h->size = size;
                h->index = (s64)here;
            }
            s->initialised = WRITTEN;
        }
        if (!told && !(by->atomic && s->write_atomic))
            conflict(B, in, w, lane, H_RACE, here, size, write, s->write_warp, s->write_line);
        else if (by->proxy && !write && s->written && sort_of(B, s->write_warp) == BY_WARP &&
                 s->written > by->known[covered + s->write_warp])
            conflict(B, in, w, lane, H_PROXY, here, size, write, s->write_warp, s->write_line);
        if (write) {
            for (int i = 0; i < r->count && !B->stop; i++) {
                const Reader one = r->list[i];
                if (one.agent == by->agent || one.clock <= by->known[one.agent] || (by->atomic && one.atomic))
                    continue;
                const int still = sort_of(B, one.agent) != BY_WARP;
                conflict(B, in, w, lane, still ? H_OVERWRITE : H_RACE, here, size, 1, one.agent, one.line);
                break;
            }
            r->count = 0;
            s->written = by->clock;
            s->write_warp = (s16)by->agent;
            s->write_atomic = (u8)by->atomic;
            s->write_line = in->line;
            s->initialised = WRITTEN;
        }
        if (kind != KIND_STORE) add_reader(r, by, in->line);
    }
}

// Records an access to another block's shared memory: that block must have started, and may exit only after
// synchronising with it.
static void visit(Block *B, Block *T, const Ins *in, int w, int lane, u64 offset, int size, int write) {
    Warp *W = &B->warps[w];
    int begun = 0;
    if (T == B) return;
    for (int k = 0; k < T->agents; k++) begun |= W->clock[T->first + k] != 0;
    if (!begun || T->finished) {
        Hazard *h = hazard(B, in, w, lane, H_CLUSTER);
        if (h) {
            h->address = offset;
            h->size = size;
            h->write = write;
            h->index = T->finished;
            h->other_block = (s32)T->block;
        }
    }
    if (B->landing) return;
    T->remote[B->first + w] = W->vc[w];
    T->remote_at[B->first + w] = in;
}

// Pointer to shared memory at an address that may be in another block of the cluster; null after a hazard.
static u8 *reach(Block *B, const Ins *in, int w, int lane, u64 address, int size, int write) {
    Launch *L = B->L;
    u64 offset = address;
    Block *T = owner_of(B, &offset);
    if (!T) {
        Hazard *h = hazard(B, in, w, lane, H_CLUSTER);
        if (h) {
            h->address = offset;
            h->size = size;
            h->write = write;
            h->index = 2;
            h->other_block = (s32)(address >> RANK_SHIFT) - 1;
        }
        return 0;
    }
    if (offset + (u64)size > (u64)L->shared_bytes || !L->owners[offset] ||
        L->owners[offset] != L->owners[offset + (u64)size - 1]) {
        Hazard *h = hazard(B, in, w, lane, H_BOUNDS);
        if (h) {
            h->address = offset;
            h->size = size;
            h->write = write;
            h->buffer = -2;
            h->index = (s64)offset;
        }
        return 0;
    }
    visit(B, T, in, w, lane, offset, size, write);
    return B->stop ? 0 : T->shared + offset;
}

// A lane's ordinary access to its own or another block's shared memory.
static void order_lane(Block *B, const Ins *in, int w, int lane, u64 address, int size, int kind) {
    Warp *W = &B->warps[w];
    Block *T = owner_of(B, &address);
    const Doer by = {B->first + w, 0, kind == KIND_ATOMIC, W->vc[w], W->clock};
    if (T) order_agents(B, T, in, w, lane, address, size, kind, &by);
}

// Fence between the generic and async proxies: whatever is ordered before this warp now may be read by the
// async proxy. A fence after mbarrier.init is also all that a relaxed cluster arrival propagates.
static void fence_proxy(Block *B, int w, int initialised) {
    Warp *W = &B->warps[w];
    join(W->clock + B->clocks / 2, W->clock, B->clocks / 2);
    if (initialised && B->initialised)
        memcpy(B->initialised + (s64)w * B->clocks, W->clock, (size_t)B->clocks * 4);
    W->vc[w]++;
}
