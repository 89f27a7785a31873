// Scheduling of clusters and sleeping threads: which may continue, what a cluster barrier propagates, and
// deadlock diagnosis. A block whose threads have all exited gets a final check: no copy may still be in
// flight to or from its shared memory.

static int begin_agents(Block *B) {
    B->objects = calloc(MAX_OBJECTS, sizeof(Object));
    B->readers = calloc((size_t)B->n_shadow, sizeof(Readers));
    B->remote = calloc((size_t)(B->cluster->size * B->agents), 4);
    B->remote_at = calloc((size_t)(B->cluster->size * B->agents), sizeof(Ins *));
    B->scratch = calloc((size_t)B->clocks, 4);
    B->initialised = calloc((size_t)(B->n_warps * B->clocks), 4);
    return B->objects && B->readers && B->remote && B->remote_at && B->scratch && B->initialised;
}

static void clear_agents(Block *B) {
    for (int i = 0; i < MAX_OBJECTS; i++) {
        B->objects[i].live = 0;
        B->objects[i].phase = 0;
        if (B->objects[i].done) memset(B->objects[i].done, 0, (size_t)B->clocks * 4);
    }
    for (s64 at = 0; at < B->n_shadow; at++) B->readers[at].count = 0;
    memset(B->remote, 0, (size_t)(B->cluster->size * B->agents) * 4);
    memset(B->initialised, 0, (size_t)(B->n_warps * B->clocks) * 4);
    for (int w = 0; w < B->n_warps; w++) end_wgmma(&B->warps[w]);
    B->n_objects = 0;
    B->n_bulk = 0;
    B->set_registers = 0;
}

static void end_agents(Block *B) {
    for (int i = 0; B->objects && i < MAX_OBJECTS; i++) {
        free(B->objects[i].done);
        free(B->objects[i].coming);
    }
    for (s64 at = 0; B->readers && at < B->n_shadow; at++) free(B->readers[at].list);
    for (int w = 0; B->warps && w < B->n_warps; w++) end_wgmma(&B->warps[w]);
    free(B->objects);
    free(B->readers);
    free(B->remote);
    free(B->remote_at);
    free(B->scratch);
    free(B->initialised);
    free(B->bulk);
}

// Wakes the lanes of a warp whose wait is over.
static void wake(Block *B, int w) {
    Warp *W = &B->warps[w];
    for (int l = 0; l < 32; l++)
        if (W->state[l] == LANE_BLOCKED && (W->present >> l & 1)) {
            int ready = 0;
            if (W->blocked_on[l] == ON_OBJECT) {
                const Object *o = &B->objects[W->object[l]];
                ready = !o->live || o->phase != W->awaited[l];
            } else if (W->blocked_on[l] == ON_CLUSTER) ready = B->cluster->meeting != W->awaited[l];
            if (ready) W->state[l] = LANE_RUNNING;
        }
}

// The cluster barrier completes when every live thread has arrived.
static int meet(Cluster *C) {
    int all = 1, any = 0;
    for (int rank = 0; rank < C->size; rank++)
        for (int w = 0; w < C->blocks[rank].n_warps; w++) {
            const Warp *W = &C->blocks[rank].warps[w];
            for (int l = 0; l < 32; l++)
                if ((W->present >> l & 1) && W->state[l] != LANE_EXITED) {
                    const int here = W->met[l] && W->meeting[l] == C->meeting;
                    any |= here;
                    all &= here;
                }
        }
    if (!any || !all) return 0;
    const size_t words = (size_t)C->blocks[0].clocks;
    join(C->met, C->meeting_clock, (s32)words);
    memset(C->meeting_clock, 0, words * 4);
    C->meeting++;
    C->events++;
    for (int rank = 0; rank < C->size; rank++) C->blocks[rank].interval++;
    Launch *L = C->L;  // if it spans the grid, nothing before races with anything after
    if (C->size == (s64)L->grid[0] * L->grid[1] * L->grid[2])
        for (s64 i = 0; i < L->n_buffers; i++) {
            const Buffer *one = &L->buffers[i]; const u64 grain = (u64)L->global_grain;
            if (one->words) memset(one->words, 0, (size_t)((one->size + grain - 1) / grain) * sizeof(Word));
        }
    return 1;
}

// When nothing else can run, resumes lanes that only polled an mbarrier (test_wait) with "not yet". Returns 0
// if there are none or polling has long made no progress.
static int let_poll(Cluster *C) {
    int any = 0;
    if (C->events != C->polled) {
        C->polled = C->events;
        C->polls = 0;
    }
    if (C->polls++ > 100000) return 0;
    for (int rank = 0; rank < C->size; rank++)
        for (int w = 0; w < C->blocks[rank].n_warps; w++) {
            Warp *W = &C->blocks[rank].warps[w];
            for (int l = 0; l < 32; l++)
                if (W->state[l] == LANE_BLOCKED && W->blocked_on[l] == ON_OBJECT && W->poll[l] == 1) {
                    W->poll[l] = 2;
                    W->state[l] = LANE_RUNNING;
                    any = 1;
                }
        }
    return any;
}

// Names a thread that the cluster barrier is waiting for.
static void name_missing(Cluster *C, Hazard *h) {
    for (int rank = 0; rank < C->size; rank++)
        for (int w = 0; w < C->blocks[rank].n_warps; w++) {
            const Warp *W = &C->blocks[rank].warps[w];
            for (int l = 0; l < 32; l++)
                if ((W->present >> l & 1) && W->state[l] != LANE_EXITED &&
                    !(W->met[l] && W->meeting[l] == C->meeting)) {
                    h->other_block = (s32)C->blocks[rank].block;
                    h->index = w * 32 + l;
                    return;
                }
        }
}

// Describes what a sleeping lane waits for.
static void describe_sleeper(Block *B, int w, int l, Hazard *h) {
    const Warp *W = &B->warps[w];
    h->buffer = W->blocked_on[l];
    h->size = 8;
    if (W->blocked_on[l] == ON_OBJECT) {
        const Object *o = &B->objects[W->object[l]];
        h->address = o->address;
        h->other_warp = o->pending;
        h->index = o->transactions;
        h->other_line = o->line;
        h->other_block = (s32)o->phase;
    } else if (W->blocked_on[l] == ON_CLUSTER) name_missing(B->cluster, h);
    else
        for (int k = w & ~3; k < (w & ~3) + 4; k++) {
            const Warp *other = &B->warps[k];
            if (other->state[0] != LANE_BLOCKED || other->blocked_on[0] != ON_GROUP ||
                other->pc[0] != W->pc[l])
                h->other_warp = k;
        }
}

// Reports the first lane that sleeps for a reason; with `bytes`, at an mbarrier that only lacks bytes.
static int name_sleeper(Cluster *C, int what, int bytes) {
    for (int rank = 0; rank < C->size; rank++)
        for (int w = 0; w < C->blocks[rank].n_warps; w++) {
            Block *B = &C->blocks[rank];
            Warp *W = &B->warps[w];
            for (int l = 0; l < 32; l++) {
                if (W->state[l] != LANE_BLOCKED || W->blocked_on[l] != what) continue;
                if (bytes && (B->objects[W->object[l]].pending || !B->objects[W->object[l]].transactions))
                    continue;
                Hazard *h = hazard(B, &C->L->code[W->pc[l]], w, l, H_DEADLOCK);
                if (h) describe_sleeper(B, w, l, h);
                return 1;
            }
        }
    return 0;
}

// Deadlock: reports a sleeping thread. Missing bytes come first, being the cause; other waits are for their
// readers.
static int deadlock(Cluster *C) {
    if (name_sleeper(C, ON_OBJECT, 1) || name_sleeper(C, ON_OBJECT, 0)) return STOPPED;
    if (name_sleeper(C, ON_CLUSTER, 0) || name_sleeper(C, ON_GROUP, 0)) return STOPPED;
    for (int rank = 0; rank < C->size; rank++)
        if (parked(&C->blocks[rank])) {
            stuck(&C->blocks[rank]);
            return C->blocks[rank].stop;
        }
    return STOPPED;
}

static void left_over(Block *B, int w, int l, int kind, const Ins *where, u64 address, int warp, int block) {
    Hazard *h = hazard(B, where, w, l, kind);
    if (h) {
        h->address = address;
        h->size = 0;
        h->other_warp = warp;
        h->other_block = block;
        h->index = 3;
        h->other_line = where->line;
    }
}

// Final check of a block whose threads have all exited: is a copy still in flight to or from its shared
// memory?
static void finish_block(Block *B) {
    Cluster *C = B->cluster;
    B->finished = 1;
    for (s32 i = 0; i < C->n_flights && !B->stop; i++) {
        const Flight *f = &C->flights[i];
        if (f->to == B)
            left_over(f->from, f->w, f->lane, H_PENDING, &f->where, f->target, f->w, (s32)B->block);
    }
    if (B->set_registers && !B->stop) count_registers(B, 0, 1);
    if (B->n_bulk && !B->stop)
        left_over(B, B->bulk->w, B->bulk->lane, H_OVERWRITE, B->bulk->where, 0, B->bulk->w, (s32)B->block);
    for (int agent = 0; agent < C->size * B->agents && !B->stop; agent++) {
        u32 known = 0;
        if (!B->remote[agent]) continue;
        for (int w = 0; w < B->n_warps; w++)
            if (B->warps[w].clock[agent] > known) known = B->warps[w].clock[agent];
        if (known >= B->remote[agent]) continue;
        Block *other = &C->blocks[agent / B->agents];
        left_over(other, warp_of(B, agent), 0, H_CLUSTER, B->remote_at[agent], 0, warp_of(B, agent),
                  (s32)B->block);
        if (other->stop) B->stop = other->stop;
    }
}

static int stopped(const Cluster *C) {
    for (int rank = 0; rank < C->size; rank++)
        if (C->blocks[rank].stop) return C->blocks[rank].stop;
    return 0;
}

static int all_exited(const Block *B) {
    for (int w = 0; w < B->n_warps; w++)
        for (int l = 0; l < 32; l++)
            if (B->warps[w].state[l] != LANE_EXITED) return 0;
    return 1;
}

// Runs the cluster's blocks until all have exited or one stops; returns the reason.
static int run_cluster(Cluster *C) {
    for (;;) {
        int stop, live = 0, moved = 0;
        const s64 steps = C->L->steps;
        for (int rank = 0; rank < C->size; rank++) {
            Block *B = &C->blocks[rank];
            for (int w = 0; w < B->n_warps && !B->finished; w++) {
                wake(B, w);
                run_warp(B, w);
                if ((stop = stopped(C))) return stop;
            }
        }
        for (int rank = 0; rank < C->size; rank++) {
            Block *B = &C->blocks[rank];
            if (B->finished) continue;
            if (all_exited(B)) {
                finish_block(B);
                moved = 1;
            } else {
                live = 1;
                if (parked(B)) moved += release(B);
            }
            if ((stop = stopped(C))) return stop;
        }
        if (!live) return 0;
        moved += meet(C);
        if (moved || C->L->steps != steps) continue;
        if (C->n_flights) land_all(C, 0);
        else if (!let_poll(C)) return deadlock(C);
        if ((stop = stopped(C))) return stop;
    }
}
