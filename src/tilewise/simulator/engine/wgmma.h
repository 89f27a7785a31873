// wgmma: matrix multiply by a warpgroup, with operands in shared memory (given by 64-bit descriptors) or, for
// A, in registers. Layouts are those of the PTX ISA, "Asynchronous Warpgroup Level Matrix Instructions".
//
// The result is computed when the warpgroup's fourth warp reaches the instruction. Until a wgmma.wait_group
// for its group, its shared-memory reads count as in flight and its accumulators are off limits.

typedef struct Wgmma {
    int committed, fenced, used,
        line; // committed groups; fence since the last wait; any wgmma yet; its line
    s32 *group; // per register: the group whose result it holds, from 1; 0 for none
    u8 *touched; // per register: read or written since the last fence
} Wgmma;

enum { READ_EARLY, WRITTEN_EARLY, NO_FENCE }; // Hazard.buffer of H_ACCUMULATOR

static Wgmma *wgmma_of(Block *B, Warp *W) {
    if (W->wgmma) return W->wgmma;
    const size_t units = (size_t)(B->L->units ? B->L->units : 1);
    Wgmma *g = W->wgmma = calloc(1, sizeof(Wgmma));
    if (g) {
        g->group = calloc(units, sizeof(s32));
        g->touched = calloc(units, 1);
    }
    if (!g || !g->group || !g->touched) {
        B->stop = NO_MEMORY;
        return 0;
    }
    B->L->limit = 0; // from now on every instruction of this warp goes through watch_registers
    return g;
}

static void end_wgmma(Warp *W) {
    if (!W->wgmma) return;
    free(W->wgmma->group);
    free(W->wgmma->touched);
    free(W->wgmma);
    W->wgmma = 0;
}

static void early(Block *B, const Ins *in, int w, u32 mask, int what) {
    Hazard *h = hazard(B, in, w, mask ? __builtin_ctz(mask) : 0, H_ACCUMULATOR);
    if (h) {
        h->buffer = what;
        h->other_line = B->warps[w].wgmma->line;
    }
}

// Checks an instruction's use of registers that hold wgmma results. A move copies its source's state, since
// compilers add and remove moves freely.
static void watch_registers(Block *B, int w, const Ins *in, u32 mask) {
    Wgmma *g = B->warps[w].wgmma;
    const s64 units = B->L->units;
    s32 sources[8];
    int n = 0, results = 4;
    switch ((enum op)in->op) {
    case OP_mov_32: {
        const s32 a = in->a, d = in->d[0];
        const int known = a >= 0 && a < units;
        g->group[d] = known ? g->group[a] : 0;
        g->touched[d] = known ? g->touched[a] : 0;
        return;
    }
    case OP_wgmma:
    case OP_mma:
    case OP_nop:
    case OP_bra:
    case OP_watch: return;
    case OP_st:
        for (; n < in->sub; n++) sources[n] = in->d[n];
        results = 0;
        break;
    case OP_stmatrix:
        for (; n < in->sub; n++) sources[n] = in->d[n];
        results = 0;
        break;
    case OP_ld:
    case OP_ldmatrix:
    case OP_cp_async:
    case OP_bulk:
    case OP_tensor:
    case OP_mbarrier:
    case OP_mbarrier_wait:
    case OP_bulk_wait:
    case OP_cp_wait:
    case OP_param_32:
    case OP_param_64:
    case OP_special: return;
    default:
        sources[n++] = in->a;
        sources[n++] = in->b;
        sources[n++] = in->c;
    }
    for (int i = 0; i < n; i++)
        if (sources[i] >= 0 && sources[i] < units) {
            if (g->group[sources[i]]) {
                early(B, in, w, mask, READ_EARLY);
                if (B->stop) return;
            }
            g->touched[sources[i]] = 1;
        }
    for (int i = 0; i < results; i++)
        if (in->d[i] >= 0 && in->d[i] < units) {
            if (g->group[in->d[i]]) {
                early(B, in, w, mask, WRITTEN_EARLY);
                if (B->stop) return;
            }
            g->touched[in->d[i]] = 1;
            g->group[in->d[i]] = 0;
        }
}

typedef struct {
    u64 start, lead, stride;
    int span, turned;
} Matrix; // span: 16-byte chunks per swizzled row, 1 for none

static Matrix described(u64 d, int turned) {
    static const int spans[] = {1, 8, 4, 2};
    return (Matrix){(d & 0x3fff) << 4, (d >> 16 & 0x3fff) << 4, (d >> 32 & 0x3fff) << 4, spans[d >> 62],
                    turned};
}

// A matrix in shared memory consists of core matrices: 8 rows of 16 bytes, which the tensor cores read at
// once. Without a swizzle, a core matrix is 128 contiguous bytes, and the descriptor's two offsets are the
// strides to the next one along K and along the rows. With a swizzle of 32, 64 or 128 bytes (span 2, 4, 8), a
// row of that many bytes spans several core matrices, and the 16-byte chunks of 8 such rows are permuted, so
// that reading a column of chunks touches every bank once. The swizzle depends on the address, not the tile:
// it is applied last, and a tile must start where the pattern does.
//
// Address of the 16-byte chunk with the element of row r (of A; column of B) at byte `k` along K or, if the
// matrix is transposed, at element k along K, with r a multiple of 8.
static u64 piece(const Matrix *m, int r, int k) {
    const u64 span = (u64)m->span;
    u64 a = m->start;
    if (!m->turned) {
        a += (u64)(r / 8) * m->stride + (u64)(r % 8) * 16 * span;
        a += span == 1 ? (u64)(k / 16) * m->lead : (u64)(k / 16) * 16;
    } else if (span == 1) a += (u64)(r / 8) * m->stride + (u64)(k / 8) * m->lead + (u64)(k % 8) * 16;
    else {
        const int chunk = 8 * m->span;
        a += (u64)(r / chunk) * m->lead + (u64)(k / 8) * m->stride + (u64)(k % 8) * 16 * span +
             (u64)(r % chunk) * 2;
    }
    return swizzled(a, m->span == 8 ? 0x70 : m->span == 4 ? 0x30 : m->span == 2 ? 0x10 : 0);
}

// One element of a 16-byte chunk, as a double.
static f64 piece_element(const u8 *p, int i, int type) {
    const int size = type == T_f32 ? 4 : type == T_s8 || type == T_u8 ? 1 : 2;
    return element((u32)fetch(p + i * size, size), 0, type);
}

// The address bits that a swizzle changes.
static int swizzle_bits(const Matrix *m) { return m->span == 1 ? 0 : (m->span - 1) << 4; }

// A swizzle pattern starts at a multiple of 1024, 512 or 256 bytes, and so must a matrix, unless the
// descriptor's base offset gives its distance from there.
static int wrong_start(Block *B, int w, const Ins *in, u64 descriptor, const Matrix *m) {
    const int bits = swizzle_bits(m) << 3;
    if (!(m->start & (u64)bits) || (descriptor >> 49 & 7)) return 0;
    Hazard *h = hazard(B, in, w, 0, H_MISALIGNED);
    if (h) {
        h->address = m->start;
        h->size = m->span * 128;
        h->write = 0;
    }
    return 1;
}

// A tensor copy wrote these bytes with a different swizzle from the descriptor's.
static int other_swizzle(Block *B, int w, const Ins *in, u64 at, const Matrix *m) {
    const u64 word = at >> __builtin_ctz((u32)B->L->shared_grain);
    const Shadow *s = &B->shadow[word];
    const int span = B->readers[word].span, wanted = swizzle_bits(m);
    if (!s->written || sort_of(B, s->write_warp) != BY_OBJECT || !span || (span & ~BOXED) == wanted) return 0;
    Hazard *h = hazard(B, in, w, 0, H_TENSOR);
    if (h) {
        h->buffer = WRONG_SWIZZLE;
        h->address = at;
        h->index = span & ~BOXED;
        h->size = wanted;
        h->other_line = s->write_line;
    }
    return 1;
}

// Reads a matrix of `rows` rows and 32 bytes of K from shared memory into `out`, with its row and K strides.
static void read_matrix(Block *B, int w, const Ins *in, u64 descriptor, int turned, int rows, int type,
                        f64 *out, int next_row_at, int next_k_at, const Doer *by) {
    const int size = type == T_f32 ? 4 : type == T_s8 || type == T_u8 ? 1 : 2, k = 32 / size, per = 16 / size;
    const Matrix m = described(descriptor, turned);
    if (wrong_start(B, w, in, descriptor, &m) && B->stop) return;
    int looked = 0;
    for (int r = 0; r < rows; r += turned ? 8 : 1)
        for (int j = 0; j < (turned ? k : 2); j++) {
            const u64 at = piece(&m, r, turned ? j : 16 * j);
            const u8 *p = reach(B, in, w, 0, at, 16, 0);
            if (p) order_agents(B, B, in, w, 0, at, 16, KIND_LOAD, by);
            if (p && !looked && !B->stop) looked = other_swizzle(B, w, in, at, &m);
            if (B->stop) return;
            for (int i = 0; i < per; i++) {
                const f64 v = p ? piece_element(p, i, type) : (f64)NAN;
                const int row = turned ? r + i : r, column = turned ? j : j * per + i;
                out[row * next_row_at + column * next_k_at] = v;
            }
        }
}

// Row of D, or of A, held in a lane's register: `half` of the 16 rows of warp `part`.
static int fragment_row(int part, int l, int half) { return 16 * part + (l >> 2) + 8 * half; }

static void read_fragments(const Launch *L, const Warp *W, const Ins *in, int part, int first, f64 *a) {
    const int per = in->type == T_f32 ? 1 : in->type == T_f16 || in->type == T_bf16 ? 2 : 4, k = 8 * per;
    f64 found[32];
    for (int r = 0; r < 4; r++)
        for (int i = 0; i < per; i++) {
            elements(found, operand(L, W, in, first + r), i, in->type);
            for (int l = 0; l < 32; l++)
                a[fragment_row(part, l, r & 1) * k + (l & 3) * per + i + (r >> 1) * 4 * per] = found[l];
        }
}

// D = A B + D for one warp's sixteen rows.
static void accumulate(const Launch *L, const Warp *W, const Ins *in, int part, const f64 *a, const f64 *b,
                       int k, int keep) {
    const int n = in->sub;
    const f64 sign = !(in->c & NEGATE_A) == !(in->c & NEGATE_B) ? 1 : -1;
    f64 sum[16][256];
    for (int row = 0; row < 16; row++) {
        for (int column = 0; column < n; column++) sum[row][column] = 0;
        for (int i = 0; i < k; i++) {
            const f64 x = sign * a[(16 * part + row) * k + i], *y = b + 256 * i;
            for (int column = 0; column < n; column++) sum[row][column] += x * y[column];
        }
    }
    const int words = in->type2 == T_f16 ? 2 : 4; // registers per eight columns
    for (int j = 0; j < n / 8; j++)
        for (int i = 0; i < 4; i++) {
            u32 *d = operand(L, W, in, words * j + (words == 2 ? i >> 1 : i));
            for (int l = 0; l < 32; l++, d++) {
                const f64 v = sum[(l >> 2) + 8 * (i >> 1)][8 * j + 2 * (l & 3) + (i & 1)];
                if (words == 2) {
                    const f64 c = keep ? half_to_f32((u16)(*d >> 16 * (i & 1))) : 0;
                    *d = (i & 1 ? *d & 0xffff : *d & 0xffff0000u) | (u32)f64_to_half(v + c) << 16 * (i & 1);
                } else if (in->type2 == T_s32) {
                    const f64 r = v + (keep ? (f64)(s32)*d : 0);
                    *d = (u32)(s64)(in->flags & SATURATE ? (r > INT32_MAX   ? INT32_MAX
                                                            : r < INT32_MIN ? INT32_MIN
                                                                            : r)
                                                         : r);
                } else {
                    const f64 r = v + (keep ? (f64)as_f32(*d) : 0);
                    *d = r != r ? 0x7fffffffu : of_f32((f32)r);
                }
            }
        }
}

// Operands: registers of D and A, descriptors of A (if any) and B, and the predicate that enables adding D.
static void multiply_groups(Block *B, int w, const Ins *in, s32 pc) {
    Launch *L = B->L;
    const int first = w & ~3, n = in->sub;
    const int d_words = n / 8 * (in->type2 == T_f16 ? 2 : 4), in_registers = in->c & A_REGISTERS,
              a_words = in_registers ? 4 : 1;
    const int k = in->type == T_f32 ? 8 : in->type == T_f16 || in->type == T_bf16 ? 16 : 32;
    f64 a[64 * 32];
    f64 *b = malloc(256 * 32 * sizeof(f64));
    if (!b) {
        B->stop = NO_MEMORY;
        return;
    }
    for (s32 at = 0; at < B->clocks; at++) {  // every warp must know of a write, not just one
        u32 known = B->warps[first].clock[at];
        for (int part = 1; part < 4; part++)
            if (B->warps[first + part].clock[at] < known) known = B->warps[first + part].clock[at];
        B->scratch[at] = known;
    }
    const Doer by = {group_agent(B, w), 1, 0, (u32)B->warps[w].wgmma->committed + 1, B->scratch};
    {
        const Warp *W = &B->warps[w];
        if (!in_registers)
            read_matrix(B, w, in, ((u64 *)operand(L, W, in, d_words))[0], in->c & TRANSPOSE_A, 64, in->type, a, k,
                        1, &by);
        if (!B->stop)
            read_matrix(B, w, in, ((u64 *)operand(L, W, in, d_words + a_words))[0], in->c & TRANSPOSE_B, n,
                        in->pad, b, 1, 256, &by);
    }
    for (int part = 0; part < 4 && !B->stop; part++) {
        Warp *W = &B->warps[first + part];
        Wgmma *g = W->wgmma;
        const s32 *slots = (const s32 *)(uintptr_t)in->imm;
        if (in_registers) read_fragments(L, W, in, part, d_words, a);
        const int keep = (int)(operand(L, W, in, d_words + a_words + 1)[0] & 1);
        for (int i = 0; i < d_words + (in_registers ? 4 : 0) && !B->stop; i++) {
            if (slots[i] < 0) continue;
            if (W->poisoned && i >= d_words) use_register(B, in, W, first + part, slots[i], FULL, TO_OTHER);
            if (W->poisoned && i < d_words && !keep) B->poison[first + part].lanes[slots[i]] = 0;
            const int of_a = i >= d_words, dirty = g->touched[slots[i]] && !g->fenced;
            if (of_a && g->group[slots[i]]) early(B, in, first + part, FULL, READ_EARLY);
            else if (dirty || (!g->used && !g->fenced)) early(B, in, first + part, FULL, NO_FENCE);
            if (!of_a) g->group[slots[i]] = g->committed + 1;
        }
        if (!B->stop) accumulate(L, W, in, part, a, b, k, keep);
        g->line = in->line;
        g->used = 1;
        if (part != (w & 3))
            for (int l = 0; l < 32; l++) {
                W->pc[l] = pc + 1;
                W->state[l] = LANE_RUNNING;
            }
    }
    L->counts[in->line].wgmma++;
    free(b);
}

// Whether the other warps of the warpgroup wait at this instruction; reports a deadlock if they never can.
static int warpgroup_here(Block *B, int w, const Ins *in, s32 pc) {
    const int first = w & ~3;
    int whole = first + 4 <= B->n_warps;
    for (int k = first; whole && k < first + 4; k++) whole = B->warps[k].present == FULL;
    if (!whole) {
        Hazard *h = hazard(B, in, w, 0, H_DEADLOCK);
        if (h) {
            h->buffer = ON_GROUP;
            h->other_warp = first + 3;
        }
        B->stop = STOPPED;
        return 0;
    }
    for (int k = first; k < first + 4; k++) {
        const Warp *W = &B->warps[k];
        if (k != w && (W->state[0] != LANE_BLOCKED || W->blocked_on[0] != ON_GROUP || W->pc[0] != pc))
            return 0;
    }
    return 1;
}

static void fence_group(Block *B, Warp *W) {
    Wgmma *g = wgmma_of(B, W);
    if (!g) return;
    g->fenced = 1;
    memset(g->touched, 0, (size_t)(B->L->units ? B->L->units : 1));
}

// All but the newest `open` groups are complete: results available, operand reads done.
static void wait_group(Block *B, Warp *W, int w, s64 open) {
    Wgmma *g = wgmma_of(B, W);
    if (!g) return;
    const s64 over = g->committed - open;
    for (s64 slot = 0; slot < B->L->units; slot++)
        if (g->group[slot] && g->group[slot] <= over) g->group[slot] = 0;
    if (over > 0 && W->clock[group_agent(B, w)] < (u32)over) W->clock[group_agent(B, w)] = (u32)over;
    g->fenced = 0;
}

// setmaxnreg: the registers of all warps must fit into the SM's 65536. At the end of a block, a warp that
// never executed it counts with an equal part of them.
static void count_registers(Block *B, int w, int ended) {
    const Ins *in = B->set_registers;
    int total = 0, part = 65536 / (32 * B->n_warps) & ~7;
    if (part > 256) part = 256;
    for (int k = 0; k < B->n_warps; k++) {
        if (!B->warps[k].registers && !ended) return;
        total += (B->warps[k].registers ? B->warps[k].registers : part) * 32;
    }
    if (total <= 65536) return;
    Hazard *h = hazard(B, in, w, 0, H_DEADLOCK);
    if (h) {
        h->buffer = 3;
        h->index = total;
    }
}

static void set_registers(Block *B, const Ins *in, int w) {
    B->warps[w].registers = (int)in->imm;
    B->set_registers = in;
    count_registers(B, w, 0);
}
