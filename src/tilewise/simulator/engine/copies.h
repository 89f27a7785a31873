// cp.async: asynchronous copies from global to shared memory. The data is written to shared memory only when
// the issuing thread waits for it; until then any access to the destination is a hazard.

// Issues the copies of a warp's lanes. The source is read here: a kernel that writes it before the wait has a
// race anyway. in->type2: bytes per copy; in->c: slot with the bytes to read, the rest is zero-filled.
static void begin_copies(Block *B, Warp *W, int w, const Ins *in, u32 mask) {
    Launch *L = B->L; const int size = in->type2;
    const u64 *to = REG64(in->a), *from = REG64(in->b); const u32 *wanted = REG(in->c);
    u64 source[32] = {0}, target[32] = {0}; u32 reading = 0, writing = 0;
    EACH({
        Copy copy = {0}; int space, buffer; s64 index;
        const int bytes = wanted[l] < (u32)size ? (int)wanted[l] : size;
        source[l] = from[l] + (u64)in->imm; target[l] = to[l] + (u64)(s64)in->e;
        target[l] = within_own(B, target[l]);
        if (target[l] >> RANK_SHIFT) {  // another block's: only bulk copies reach it
            Hazard *h = hazard(B, in, w, l, H_BOUNDS);
            if (h) { h->address = target[l]; h->size = size; h->write = 1; h->buffer = -2;
                h->index = (s64)target[l]; }
            if (B->stop) return;
            continue;
        }
        if (bytes) {  // even a partial read needs the full copy's alignment
            u8 *p = 0;
            if (source[l] & (u64)(size - 1))
                resolve(B, in, w, l, source[l], size, SPACE_GLOBAL, KIND_LOAD, &space, &buffer, &index);
            else {
                p = resolve(B, in, w, l, source[l], 1, SPACE_GLOBAL, KIND_LOAD, &space, &buffer, &index);
                const u64 last = source[l] + (u64)bytes - 1;
                if (p && bytes > 1) resolve(B, in, w, l, last, 1, SPACE_GLOBAL, KIND_LOAD, &space,
                    &buffer, &index);
            }
            if (B->stop) return;
            for (int i = 0; i < bytes; i++) {
                const u64 from = source[l] + (u64)i;
                u8 *at = p ? resolve(B, in, w, l, from, 1, SPACE_GLOBAL, KIND_LOAD, &space, &buffer,
                    &index) : 0;
                copy.data[i] = at ? *at : 0xc5;
            }
            reading |= 1u << l;
            if (p && L->buffers[buffer].words)
                order_global(B, in, w, l, buffer, index - bytes + 1, bytes, KIND_LOAD, 0);
            if (B->stop) return;
            if (L->tracing) for (int i = 0; i + 4 <= bytes; i += 4) {
                u32 bits; memcpy(&bits, copy.data + i, 4);
                resolve(B, in, w, l, source[l] + (u64)i, 1, SPACE_GLOBAL, KIND_LOAD, &space, &buffer, &index);
                trace_access(B, in, w, l, SPACE_GLOBAL, KIND_LOAD, 4, buffer, source[l] + (u64)i,
                    index, bits);
            }
        }
        u8 *p = resolve(B, in, w, l, target[l], size, SPACE_SHARED, KIND_STORE, &space, &buffer, &index);
        if (B->stop) return;
        if (!p) continue;
        writing |= 1u << l;
        order_shared(B, in, w, l, target[l], size, KIND_STORE, 0);
        if (B->stop) return;
        mark_pending(B, target[l], size, 1);
        copy.thread = l; copy.group = W->committed[l]; copy.line = in->line;
        copy.size = size; copy.target = target[l];
        Copies *kept = &B->copies[w];
        if (kept->count == kept->room) {
            const s32 room = kept->room ? kept->room * 2 : 64;
            Copy *grown = realloc(kept->list, (size_t)room * sizeof(Copy));
            if (!grown) { B->stop = NO_MEMORY; return; }
            kept->list = grown; kept->room = room;
        }
        kept->list[kept->count++] = copy;
    })
    if (reading) count_global(&L->counts[in->line], source, reading, size, KIND_LOAD);
    if (writing) count_shared(&L->counts[in->line], target, writing, size, KIND_STORE);
}

// Lanes wait for all their copies or, with in->sub, for all but the newest in->imm groups. A copy counts as a
// store by its thread at this point, so other warps still need a barrier.
static void finish_copies(Block *B, Warp *W, int w, const Ins *in, u32 mask) {
    Launch *L = B->L;
    Copies *kept = &B->copies[w]; s32 left = 0;
    for (s32 i = 0; i < kept->count && !B->stop; i++) {
        const Copy *copy = &kept->list[i]; const int l = copy->thread;
        if (!(mask >> l & 1) || (in->sub && copy->group >= W->committed[l] - in->imm)) {
            kept->list[left++] = *copy;
            continue;
        }
        mark_pending(B, copy->target, copy->size, 0);
        memcpy(B->shared + copy->target, copy->data, (size_t)copy->size);
        Ins where = {0};
        where.line = copy->line;  // hazards cite the copy's line, not the wait's
        order_shared(B, &where, w, l, copy->target, copy->size, KIND_STORE, 0);
        if (L->tracing) for (int b = 0; b < copy->size; b += 4) {
            u32 bits; memcpy(&bits, copy->data + b, 4);
            const u64 at = copy->target + (u64)b;
            trace_access(B, &where, w, l, SPACE_SHARED, KIND_STORE, 4, -1, at, (s64)at, bits);
        }
    }
    kept->count = left;
}
