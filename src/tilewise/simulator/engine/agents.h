// Who touches shared memory where more than the warps of one block do: warps of a cluster, bulk copies out of
// shared memory, warpgroups (through wgmma) and mbarriers (what copies bring counts as written by the
// mbarrier that tells of it).
//
// Each of them is an agent with a clock. A warp's vector clock holds the time up to which it knows each
// agent; barriers of every kind pass that on. An access that meets an earlier one of an agent beyond the time
// known is a hazard, whatever the order in which this machine happened to run them. A second vector, behind
// the first, holds what proxy fences cover: generic writes that the asynchronous proxy may read.
//
// Why two: loads and stores reach shared memory by the generic proxy, copies and wgmma by the asynchronous
// one, and a barrier orders accesses of one proxy only. So a warp that knows of a write, by a barrier, may load
// it, and yet a copy that it begins may read what was there before: only fence.proxy.async says that what is
// known by the first vector holds for the second.

// A block's agents: its warps, their bulk copies, its warpgroups, its mbarriers.
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
    24 // an address of shared memory beyond this bit is that of the block of rank (address >> 24) - 1
#define WITHIN ((1ull << RANK_SHIFT) - 1)

// Whose shared memory an address is in; the address comes out as that block's own. Null for a rank that is
// not there.
static Block *owner_of(Block *B, u64 *address) {
    const u64 rank = *address >> RANK_SHIFT;
    if (!rank) return B;
    *address &= WITHIN;
    return rank <= (u64)B->cluster->size ? &B->cluster->blocks[rank - 1] : 0;
}

// What the address of a block's own shared memory says beside the place: in a cluster the block's rank, as on
// a GPU. So it can be handed to another block as it is, and an address has to be cut before it goes into a
// descriptor of wgmma, which has 18 bits for it.
static u64 mark_of(const Block *B) {
    return B->L->agents && B->cluster->size > 1 ? (u64)(B->rank + 1) << RANK_SHIFT : 0;
}

// An address of a block's own shared memory without that mark; another block's as it is.
static u64 within_own(const Block *B, u64 address) {
    return B->L->agents && address >> RANK_SHIFT == (u64)B->rank + 1 ? address & WITHIN : address;
}

// In conflict with another agent, or with what it does.
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

// An access to bytes of T's shared memory on behalf of an agent.
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

// Notes that a warp touched another block's shared memory: that block has to have begun, and may not end
// before it knows.
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

// The bytes of shared memory at an address that may be another block's of the cluster; null after a hazard.
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

// An ordinary access by a lane, to its own block's shared memory or to another's.
static void order_lane(Block *B, const Ins *in, int w, int lane, u64 address, int size, int kind) {
    Warp *W = &B->warps[w];
    Block *T = owner_of(B, &address);
    const Doer by = {B->first + w, 0, kind == KIND_ATOMIC, W->vc[w], W->clock};
    if (T) order_agents(B, T, in, w, lane, address, size, kind, &by);
}

// A fence between the generic and the asynchronous proxy: what this warp knows so far may be read
// asynchronously. One after initialising mbarriers is also what a relaxed arrival at the cluster's barrier
// passes on.
static void fence_proxy(Block *B, int w, int initialised) {
    Warp *W = &B->warps[w];
    join(W->clock + B->clocks / 2, W->clock, B->clocks / 2);
    if (initialised && B->initialised)
        memcpy(B->initialised + (s64)w * B->clocks, W->clock, (size_t)B->clocks * 4);
    W->vc[w]++;
}
