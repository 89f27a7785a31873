/* Hazards: what is written down when a kernel does something that a GPU would not forgive. */
static void report(Warp *w, int32_t kind, uint32_t lane, int32_t space, int32_t buffer, int64_t offset,
                   int32_t size, int32_t other_warp, int32_t other_pc, uint32_t mask) {
    Machine *m = w->machine;
    if (m->hazard_count < m->hazard_capacity) {
        Hazard *h = &m->hazards[m->hazard_count];
        *h = (Hazard){kind, w->pc, other_pc, w->block, w->number, (int32_t)lane, other_warp, space, buffer, size,
                      offset, mask};
    }
    m->hazard_count++;
    if (!m->collect || kind == HAZARD_STEP_LIMIT || kind == HAZARD_CLOCK) m->stopped = 1;
}

/* Whether warp `w` knows that everything `other` did up to `epoch` is done. */
static inline int ordered(const Warp *w, uint32_t other, uint32_t epoch) { return epoch <= w->clock[other]; }

/* Shared memory, one granule: check an access against the last ones, then write it down.
   Returns 0 where a load reads what nobody wrote. */
static inline int shadow_access(Warp *w, Shadow *s, int kind, int same, uint32_t lane, int32_t var,
                                int64_t offset, int32_t size) {
    Machine *m = w->machine;
    uint32_t me = (uint32_t)w->number, now = w->clock[me];
    int known = s->write_epoch > m->epoch, race = 0;
    if (known && s->write_warp != me && !ordered(w, s->write_warp, s->write_epoch) &&
        !(kind == KIND_ATOMIC && s->write_atomic) && !(kind == KIND_STORE && same)) {
        report(w, HAZARD_RACE, lane, SPACE_SHARED, var, offset, size, s->write_warp, s->write_pc, 0);
        race = 1;
    }
    if (kind == KIND_LOAD) {
        if (s->read_warp != me) {
            s->earlier_epoch = s->read_epoch;
            s->earlier_warp = s->read_warp;
        }
        s->read_epoch = now;
        s->read_warp = (uint8_t)me;
        s->read_pc = w->pc;
        return known || race;
    }
    if (!race && !same) {
        int last = s->read_epoch > m->epoch && s->read_warp != me && !ordered(w, s->read_warp, s->read_epoch);
        int earlier =
            s->earlier_epoch > m->epoch && s->earlier_warp != me && !ordered(w, s->earlier_warp, s->earlier_epoch);
        if (last || earlier)
            report(w, HAZARD_RACE, lane, SPACE_SHARED, var, offset, size, last ? s->read_warp : s->earlier_warp,
                   s->read_pc, 0);
    }
    s->write_epoch = now;
    s->write_warp = (uint8_t)me;
    s->write_pc = w->pc;
    s->write_atomic = kind == KIND_ATOMIC;
    return known || kind == KIND_STORE;
}
