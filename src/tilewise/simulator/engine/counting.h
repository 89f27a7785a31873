// Traffic of one warp instruction: sectors and lines of global memory, wavefronts of shared memory.

static int distinct(const u64 *keys, int n) {  // number of distinct keys, n at most 64
    int sorted = 1, count = 1;
    for (int i = 1; i < n; i++) { if (keys[i] < keys[i - 1]) { sorted = 0; break;
        } count += keys[i] != keys[i - 1]; }
    if (sorted) return n ? count : 0;
    u64 seen[64]; count = 0;
    for (int i = 0; i < n; i++) {
        int j = 0;
        while (j < count && seen[j] != keys[i]) j++;
        if (j == count) seen[count++] = keys[i];
    }
    return count;
}

// Wavefronts per request, over 32 banks: lanes that access different words of a bank serialise, lanes that
// access the same word share. 8-byte accesses go by half warps, 16-byte ones by quarters; two paired ones
// merge, as the hardware's counters showed (validation.kernels.shared_memory).
static int wavefronts(const u64 *address, u32 mask, int size) {
    int lanes = size <= 4 ? 32 : size == 8 ? 16 : 8, total = 0;
    u32 near = 0, far = 0;
    if (size <= 4) {  // common cases: one row of banks, or no bank conflict
        if (lanes_close(address, mask, 7)) return 1;
        u64 word[32]; u32 taken = 0; int conflict = 0;
        EACH({ u64 x = address[l] >> 2; int bank = (int)(x & 31);
               if (taken >> bank & 1) conflict |= word[bank] != x; else { taken |= 1u << bank;
                   word[bank] = x; } })
        if (!conflict) return 1;
    } else lanes_unpaired(address, &near, &far);
    const int close = size > 4 && lanes_close(address, mask, 7);  // all in one row of banks
    for (int first = 0, here; first < 32; first += here) {
        const u32 both = (u32)((1ull << 2 * lanes) - 1) << first;
        const int paired = size > 4 && first % (2 * lanes) == 0 && (mask & both) == both
            && (!(near & both) || !(far & both));
        here = paired ? 2 * lanes : lanes;
        if (close) { total += (mask >> first & (u32)((1ull << here) - 1)) != 0; continue; }
        u64 words[64], word[32]; u32 taken = 0; int n = 0, conflict = 0;
        for (int l = first; l < first + here; l++)
            if (mask >> l & 1) for (int w = 0; w < (size + 3) / 4; w++) words[n++] = address[l] / 4 + (u64)w;
        if (!n) continue;
        for (int i = 0; i < n && !conflict; i++) {
            const int bank = (int)(words[i] & 31);
            if (taken >> bank & 1) conflict = word[bank] != words[i]; else { taken |= 1u << bank;
                word[bank] = words[i]; }
        }
        if (!conflict) { total++; continue; }
        u64 kept[32][32]; u8 used[32] = {0}; int most = 0;
        for (int i = 0; i < n; i++) {
            int bank = (int)(words[i] & 31), j = 0;
            while (j < used[bank] && kept[bank][j] != words[i]) j++;
            if (j == used[bank] && j < 32) { kept[bank][j] = words[i]; used[bank]++;
                if (used[bank] > most) most = used[bank]; }
        }
        total += most;
    }
    return total;
}

static void count_global(Count *c, const u64 *address, u32 mask, int size, int kind) {
    const int n = __builtin_popcount(mask);
    int sectors = pieces_in_order(address, mask, 5), lines = pieces_in_order(address, mask, 7);
    if (sectors < 0) {
        u64 keys[32]; int k = 0;
        EACH(keys[k++] = address[l] >> 5)
        sectors = distinct(keys, n);
        for (k = 0; k < n; k++) keys[k] >>= 2;
        lines = distinct(keys, n);
    }
    u64 useful = (u64)n * (u64)size;
    if (kind == KIND_LOAD) { c->gl_requests++; c->gl_sectors += sectors; c->gl_lines += lines;
        c->gl_useful += useful; c->gl_lanes += n; }
    else if (kind == KIND_STORE) { c->gs_requests++; c->gs_sectors += sectors; c->gs_lines += lines;
        c->gs_useful += useful; c->gs_lanes += n; }
    else { c->ga_requests++; c->ga_sectors += sectors; c->ga_lines += lines; c->ga_useful += useful;
        c->ga_lanes += n; }
}

static void count_shared(Count *c, const u64 *address, u32 mask, int size, int kind) {
    int passes = wavefronts(address, mask, size), n = __builtin_popcount(mask);
    u64 useful = (u64)n * (u64)size;
    if (kind == KIND_LOAD) { c->sl_requests++; c->sl_wavefronts += passes; c->sl_useful += useful;
        c->sl_lanes += n; }
    else if (kind == KIND_STORE) { c->ss_requests++; c->ss_wavefronts += passes; c->ss_useful += useful;
        c->ss_lanes += n; }
    else { c->sa_requests++; c->sa_wavefronts += passes; c->sa_useful += useful; c->sa_lanes += n; }
}
