/* Memory: loads, stores and atomics of a warp, checked, counted and, where asked for, traced. */

static void trace(Warp *w, int kind, int space, int32_t buffer, uint32_t lane, uint64_t address, int64_t offset,
                  uint32_t bytes, uint32_t element, uint64_t value, uint16_t which) {
    Machine *m = w->machine;
    if (m->access_count == m->access_capacity) {
        int64_t capacity = m->access_capacity ? 2 * m->access_capacity : 4096;
        Access *more = realloc(m->accesses, (size_t)capacity * sizeof(Access));
        if (!more) {
            m->out_of_memory = m->stopped = 1;
            return;
        }
        m->accesses = more;
        m->access_capacity = capacity;
    }
    Access *a = &m->accesses[m->access_count++];
    memset(a, 0, sizeof *a);
    a->step = m->step;
    a->address = address;
    a->value = value;
    a->offset = offset;
    a->block = w->block;
    a->pc = w->pc;
    a->buffer = buffer;
    a->interval = (int32_t)(w->clock[w->number] - m->epoch - 1);
    a->warp = (uint8_t)w->number;
    a->lane = (uint8_t)lane;
    a->space = (uint8_t)space;
    a->kind = (uint8_t)kind;
    a->size = (uint8_t)bytes;
    a->element = (uint8_t)element;
    a->which = (uint8_t)which;
}

/* Where each lane's bytes lie, for the lanes whose access is in bounds and aligned; the others are reported. */
typedef struct {
    uint32_t good;
    uint8_t *at[LANES_PER_WARP];
    int32_t buffer[LANES_PER_WARP];
    int64_t offset[LANES_PER_WARP];
} Places;

static void find_global(Warp *w, uint32_t mask, const uint64_t *address, uint32_t bytes, int stores, Places *p) {
    Machine *m = w->machine;
    EACH_LANE(mask, l) {
        uint64_t number = (address[l] >> BUFFER_SHIFT) - 1;
        int64_t offset = (int64_t)(address[l] & ((1ull << BUFFER_SHIFT) - 1)) - (int64_t)BUFFER_MIDDLE;
        Buffer *b = number < (uint64_t)m->buffer_count ? &m->buffers[number] : 0;
        p->buffer[l] = b ? (int32_t)number : -1;
        p->offset[l] = b ? offset : (int64_t)address[l];
        if (!b || offset < 0 || (uint64_t)offset + bytes > b->size) {
            report(w, HAZARD_OUT_OF_BOUNDS, l, SPACE_GLOBAL, p->buffer[l], p->offset[l], (int32_t)bytes, -1, -1, 0);
        } else if (offset & (bytes - 1)) {
            report(w, HAZARD_MISALIGNED, l, SPACE_GLOBAL, p->buffer[l], offset, (int32_t)bytes, -1, -1, 0);
        } else if (stores && !b->writable) {
            report(w, HAZARD_READ_ONLY, l, SPACE_GLOBAL, p->buffer[l], offset, (int32_t)bytes, -1, -1, 0);
        } else {
            p->good |= 1u << l;
            p->at[l] = b->data + offset;
            if (stores) b->written = 1;
        }
    }
}

static void find_shared(Warp *w, uint32_t mask, const uint64_t *address, uint32_t bytes, Places *p) {
    Machine *m = w->machine;
    EACH_LANE(mask, l) {
        uint32_t a = (uint32_t)address[l], number = a >> SHARED_SHIFT;
        int64_t offset = (int64_t)(a & ((1u << SHARED_SHIFT) - 1)) - SHARED_MIDDLE;
        SharedVariable *v = number < (uint64_t)m->shared_count ? &m->shared_variables[number] : 0;
        p->buffer[l] = v ? (int32_t)number : -1;
        p->offset[l] = v ? offset : (int64_t)a;
        if (!v || offset < 0 || (uint64_t)offset + bytes > v->size) {
            report(w, HAZARD_OUT_OF_BOUNDS, l, SPACE_SHARED, p->buffer[l], p->offset[l], (int32_t)bytes, -1, -1, 0);
        } else if ((v->first + offset) & (bytes - 1)) {
            report(w, HAZARD_MISALIGNED, l, SPACE_SHARED, p->buffer[l], offset, (int32_t)bytes, -1, -1, 0);
        } else {
            p->good |= 1u << l;
            p->at[l] = m->shared + v->first + offset;
        }
    }
}

/* Local memory, and parameters, whose every thread sees the same. */
static void find_private(Warp *w, uint32_t mask, const uint64_t *address, uint32_t bytes, int space, Places *p) {
    Machine *m = w->machine;
    int64_t size = space == SPACE_LOCAL ? m->local_bytes : m->param_bytes;
    EACH_LANE(mask, l) {
        int64_t offset = (int64_t)(address[l] & ((1ull << WINDOW_SHIFT) - 1));
        p->buffer[l] = 0;
        p->offset[l] = offset;
        if (offset + (int64_t)bytes > size) {
            report(w, HAZARD_OUT_OF_BOUNDS, l, space, 0, offset, (int32_t)bytes, -1, -1, 0);
        } else if (offset & (bytes - 1)) {
            report(w, HAZARD_MISALIGNED, l, space, 0, offset, (int32_t)bytes, -1, -1, 0);
        } else {
            int64_t thread = (int64_t)w->number * LANES_PER_WARP + l;
            p->good |= 1u << l;
            p->at[l] = space == SPACE_LOCAL ? m->local + thread * m->local_bytes + offset : m->param + offset;
        }
    }
}

static inline uint64_t read_bytes(const uint8_t *at, uint32_t size) {
    uint64_t x = 0;
    switch (size) {
    case 1: return *at;
    case 2: { uint16_t y; memcpy(&y, at, 2); return y; }
    case 4: { uint32_t y; memcpy(&y, at, 4); return y; }
    default: memcpy(&x, at, 8); return x;
    }
}

static inline void write_bytes(uint8_t *at, uint32_t size, uint64_t x) {
    switch (size) {
    case 1: *at = (uint8_t)x; break;
    case 2: { uint16_t y = (uint16_t)x; memcpy(at, &y, 2); break; }
    case 4: { uint32_t y = (uint32_t)x; memcpy(at, &y, 4); break; }
    default: memcpy(at, &x, 8);
    }
}

static inline uint64_t get(const uint8_t *slot, uint32_t l, int wide) {
    return wide ? ((const uint64_t *)slot)[l] : ((const uint32_t *)slot)[l];
}

static inline void put(uint8_t *slot, uint32_t l, int wide, uint64_t x) {
    if (wide) ((uint64_t *)slot)[l] = x;
    else ((uint32_t *)slot)[l] = (uint32_t)x;
}

static inline uint64_t extended(uint64_t x, uint32_t size, int is_signed) {
    if (!is_signed) return x;
    return size == 1 ? (uint64_t)(int8_t)x : size == 2 ? (uint64_t)(int16_t)x : size == 4 ? (uint64_t)(int32_t)x : x;
}

#include "atomics.h"

/* The history of shared memory: races and reads of what nobody wrote. */
static void check_shared(Warp *w, const Instruction *in, uint32_t mask, const Places *p, int kind, uint32_t bytes) {
    Machine *m = w->machine;
    uint32_t granule = 1u << m->granule_shift;
    EACH_LANE(mask, l) {
        int64_t first = p->at[l] - m->shared;
        for (uint32_t k = 0; k < bytes; k += granule) {
            int same = 0;
            if (kind == KIND_STORE) {
                uint32_t e = k / in->size;
                uint64_t new = get(w->registers + m->operands[in->target + (int32_t)e], l, in->flags & FLAG_WIDE_DATA);
                uint64_t mask_ = in->size == 8 ? ~0ull : (1ull << 8 * in->size) - 1;
                same = read_bytes(p->at[l] + e * in->size, in->size) == (new & mask_);
            }
            Shadow *s = &m->shadow[(first + k) >> m->granule_shift];
            if (!shadow_access(w, s, kind, same, l, p->buffer[l], p->offset[l] + k, (int32_t)bytes)) {
                report(w, HAZARD_UNINITIALISED, l, SPACE_SHARED, p->buffer[l], p->offset[l] + k, (int32_t)bytes, -1, -1, 0);
                break;
            }
            if (m->stopped) return;
        }
    }
}

static void access_space(Warp *w, const Instruction *in, uint32_t mask, const uint64_t *address, int kind, int space,
                         Counter *counter) {
    Machine *m = w->machine;
    uint8_t *R = w->registers;
    uint32_t bytes = (uint32_t)in->size * in->count, size = in->size;
    int wide = in->flags & FLAG_WIDE_DATA, is_signed = in->flags & FLAG_SIGNED;
    const int32_t *data = m->operands + in->target;
    Places p;
    p.good = 0;
    if (space == SPACE_GLOBAL) {
        count_global(counter, mask, address, bytes);
        find_global(w, mask, address, bytes, kind != KIND_LOAD, &p);
    } else if (space == SPACE_SHARED) {
        count_shared(counter, mask, address, bytes);
        find_shared(w, mask, address, bytes, &p);
    } else {
        counter->requests++;
        counter->accesses += (uint64_t)__builtin_popcount(mask);
        find_private(w, mask, address, bytes, space, &p);
    }
    if (m->stopped) return;
    if (space == SPACE_SHARED) {
        check_shared(w, in, p.good, &p, kind, bytes);
        if (m->stopped) return;
    }
    uint64_t first_value[LANES_PER_WARP];
    if (kind == KIND_LOAD) {
        if (in->count == 1 && size == 4 && !wide) {
            uint32_t *d = (uint32_t *)(R + data[0]);
            EACH_LANE(p.good, l) memcpy(&d[l], p.at[l], 4);
        } else {
            for (int e = 0; e < in->count; e++)
                EACH_LANE(p.good, l)
                put(R + data[e], l, wide, extended(read_bytes(p.at[l] + (uint32_t)e * size, size), size, is_signed));
        }
        uint64_t poison = size == 2 ? 0xFFFF : size == 1 ? 0xFF : ~0ull;
        for (int e = 0; e < in->count && p.good != mask; e++)
            EACH_LANE(mask & ~p.good, l) put(R + data[e], l, wide, poison);
    } else if (kind == KIND_STORE) {
        for (int e = 0; e < in->count; e++)
            EACH_LANE(p.good, l) write_bytes(p.at[l] + (uint32_t)e * size, size, get(R + data[e], l, wide));
    } else {
        atomic(w, in, p.good, p.at);
    }
    if (w->traced) {
        EACH_LANE(p.good, l) first_value[l] = kind == KIND_ATOMIC ? read_bytes(p.at[l], size) : get(R + data[0], l, wide);
        EACH_LANE(p.good, l)
        trace(w, kind, space, p.buffer[l], l, address[l], p.offset[l], bytes, size, first_value[l], 0);
    }
}

static void access_memory(Warp *w, const Instruction *in, uint32_t mask, int kind) {
    Machine *m = w->machine;
    uint64_t address[LANES_PER_WARP];
    const uint8_t *slot = w->registers + in->a;
    if (!mask) return;
    if (in->flags & FLAG_WIDE_ADDRESS)
        for (int l = 0; l < LANES_PER_WARP; l++) address[l] = ((const uint64_t *)slot)[l] + (uint64_t)in->offset;
    else
        for (int l = 0; l < LANES_PER_WARP; l++)
            address[l] = (uint32_t)(((const uint32_t *)slot)[l] + (uint32_t)in->offset);
    m->step++;
    if (w->traced && m->trace_steps_left-- <= 0) w->traced = 0;
    Counter *counter = &m->counters[in->counter];
    if (in->space != SPACE_GENERIC) {
        access_space(w, in, mask, address, kind, in->space, counter);
        return;
    }
    uint32_t window[4] = {0, 0, 0, 0};
    EACH_LANE(mask, l) window[address[l] >> BUFFER_SHIFT ? 0 : (address[l] >> WINDOW_SHIFT) & 3] |= 1u << l;
    if (window[0]) access_space(w, in, window[0], address, kind, SPACE_GLOBAL, counter);
    if (window[WINDOW_SHARED] && !m->stopped)
        access_space(w, in, window[WINDOW_SHARED], address, kind, SPACE_SHARED, counter + 1);
    if (window[WINDOW_LOCAL] && !m->stopped)
        access_space(w, in, window[WINDOW_LOCAL], address, kind, SPACE_LOCAL, counter + 2);
    if (window[WINDOW_PARAM] && !m->stopped)
        access_space(w, in, window[WINDOW_PARAM], address, kind, SPACE_PARAM, counter + 2);
}
