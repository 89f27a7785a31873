// Tensor copies: boxes of an array of up to five dimensions, described by a tensor map, to and from shared
// memory.
//
// tensor_map.py defines the map's layout in the kernel's 128-byte parameter. In shared memory a box is dense,
// innermost dimension first; a swizzle permutes the 16-byte chunks of each row of 32, 64 or 128 bytes by the
// address bits above them. Elements of a box outside the array read as zero and are not written.

#define MAP_MAGIC 0x70614d54u

typedef struct {
    u32 magic;
    u8 rank, element, span, type; // span: the bits that the swizzle changes, 0, 0x10, 0x30 or 0x70
    u64 base;
    u32 extent[5], box[5];
    u64 stride[4];
    u8 rest[40];
} Map;

enum { WRONG_MAP, WRONG_PLACE, WRONG_RANK, WRONG_COLUMN, WRONG_CORNER, WRONG_SWIZZLE }; // Hazard.buffer

static int read_map(Block *B, const Ins *in, int w, int l, u64 address, Map *map, int rank) {
    int space, buffer, wrong = -1;
    s64 index;
    const u8 *p = resolve(B, in, w, l, address, 1, SPACE_GENERIC, KIND_LOAD, &space, &buffer, &index);
    if (B->stop || !p) return 0;
    if (space != SPACE_CONST) wrong = WRONG_PLACE;
    else if ((index & 63) || resolve(B, in, w, l, address + 127, 1, SPACE_GENERIC, KIND_LOAD, &space, &buffer,
                                     &index) != p + 127)
        wrong = WRONG_MAP;
    else memcpy(map, p, 128);
    if (B->stop) return 0;
    if (wrong < 0 && map->magic != MAP_MAGIC) wrong = WRONG_MAP;
    if (wrong < 0 && map->rank != rank) wrong = WRONG_RANK;
    if (wrong < 0) return 1;
    Hazard *h = hazard(B, in, w, l, H_TENSOR);
    if (h) {
        h->buffer = wrong;
        h->index = wrong == WRONG_RANK ? map->rank : rank;
        h->size = rank;
    }
    return 0;
}

// Advances to the next row of a box over the outer dimensions; 0 after the last.
static int next_row(const Map *map, u32 *at) {
    for (int axis = 1; axis < map->rank; axis++) {
        if (++at[axis] < map->box[axis]) return 1;
        at[axis] = 0;
    }
    return 0;
}

// An H100's TMA faults if the first coordinate is not a multiple of 16 bytes or, in a store, negative.
static int wrong_corner(Block *B, const Ins *in, int w, int l, const Map *map, const s64 *corner, int out) {
    int axis = 0, wrong = -1;
    if (corner[0] * map->element & 15) wrong = WRONG_COLUMN;
    for (int at = 0; wrong < 0 && out && at < (int)map->rank; at++)
        if (corner[at] < 0) {
            wrong = WRONG_CORNER;
            axis = at;
        }
    if (wrong < 0) return 0;
    Hazard *h = hazard(B, in, w, l, H_TENSOR);
    if (h) {
        h->buffer = wrong;
        h->index = corner[axis];
        h->size = map->element;
    }
    return 1;
}

// A row's global address, and its range of elements inside the array: [*first, *end).
static u64 row_address(const Map *map, const s64 *corner, const u32 *at, s64 *first, s64 *end) {
    u64 address = map->base + (u64)(corner[0] * map->element);
    *first = corner[0] < 0 ? -corner[0] : 0;
    *end = (s64)map->extent[0] - corner[0] < map->box[0] ? (s64)map->extent[0] - corner[0] : map->box[0];
    for (int axis = 1; axis < map->rank; axis++) {
        const s64 k = corner[axis] + at[axis];
        if (k < 0 || k >= (s64)map->extent[axis]) *end = 0;
        address += (u64)k * map->stride[axis - 1];
    }
    if (*end < *first) *end = *first;
    return address;
}

// in->sub: rank, plus 8 for a copy out of shared memory; in->a: shared address; in->b: map; in->imm:
// coordinates.
static void copy_tensor(Block *B, Warp *W, int w, const Ins *in, u32 mask) {
    Launch *L = B->L;
    const int rank = in->sub & 7, out = in->sub & 8;
    const s32 *slots = (const s32 *)(uintptr_t)in->imm;
    const int kind = !out ? KIND_LOAD : in->d[2] == NO_SLOT ? KIND_STORE : KIND_ATOMIC;
    EACH({
        Map map;
        s64 corner[5];
        s64 useful = 0;
        s64 sectors = 0;
        s64 size;
        u64 tile = REG64(in->a)[l] + (u64)(s64)in->e;
        const u64 place = tile;
        if (!read_map(B, in, w, l, REG64(in->b)[l] + (u64)(s64)in->pad, &map, rank)) {
            if (B->stop) return;
            continue;
        }
        if (unaligned(B, in, w, l, place & WITHIN, 128, !out)) {
            if (B->stop) return;
            continue;
        }
        size = map.element;
        for (int axis = 0; axis < rank; axis++) {
            corner[axis] = (s32)REG(slots[axis])[l];
            size *= map.box[axis];
        }
        if (wrong_corner(B, in, w, l, &map, corner, !!out)) {
            if (B->stop) return;
            continue;
        }
        const s64 row = (s64)map.box[0] * map.element;
        u8 *data = calloc((size_t)size, 1);
        if (!data) {
            B->stop = NO_MEMORY;
            return;
        }
        if (out) {
            owner_of(B, &tile);
            if (reach(B, in, w, l, place, 1, 0) && reach(B, in, w, l, place + (u64)size - 1, 1, 0))
                begin_bulk(B, in, w, l, tile, size);
            else {
                free(data);
                if (B->stop) return;
                continue;
            }
            for (s64 i = 0; i < size; i += 16)
                memcpy(data + i, B->shared + swizzled(tile + (u64)i, map.span), 16);
            trace_bytes(B, in, w, l, SPACE_SHARED, KIND_LOAD, tile, B->shared + tile, size, 4);
        }
        u32 at[5] = {0};
        u8 *here = data;
        do {
            s64 first, end;
            const u64 address = row_address(&map, corner, at, &first, &end) + (u64)(first * map.element);
            const s64 bytes = (end - first) * map.element;
            if (bytes > 0 && !B->stop) {
                u8 *p = global_run(B, in, w, l, address, bytes, kind);
                u8 *q = here + first * map.element;
                if (p && kind == KIND_LOAD) memcpy(q, p, (size_t)bytes);
                else if (p && kind == KIND_STORE) memcpy(p, q, (size_t)bytes);
                else if (p) {
                    Ins as = *in;
                    as.d[3] = map.type;
                    reduce_run(&as, p, q, bytes);
                }
                if (p) trace_bytes(B, in, w, l, SPACE_GLOBAL, kind, address, p, bytes, map.element);
                useful += bytes;
                sectors += sectors_of(address, bytes);
            }
            here += row;
        } while (next_row(&map, at) && !B->stop);
        if (B->stop) {
            free(data);
            return;
        }
        const int blocks = out || in->d[1] == NO_SLOT ? 1 : __builtin_popcount(REG(in->d[1])[l] & 0xffff);
        count_bulk(L, in, out != 0, useful, sectors, size * blocks);
        if (out) free(data);
        else deliver(B, W, w, in, l, place, data, size, map.span | BOXED);
        if (B->stop) return;
    })
}
