/* Traffic of one warp instruction: sectors and lines of global memory, wavefronts of shared memory. */

static void sort_addresses(uint64_t *a, int n) {
    for (int i = 1; i < n; i++) {
        uint64_t x = a[i];
        int j = i;
        for (; j > 0 && a[j - 1] > x; j--) a[j] = a[j - 1];
        a[j] = x;
    }
}

/* Count the distinct 32-byte sectors, 128-byte lines and bytes that the lanes' accesses touch. */
static void count_global(Counter *c, uint32_t mask, const uint64_t *address, uint32_t bytes) {
    uint64_t sorted[LANES_PER_WARP];
    int n = 0, rising = 1;
    EACH_LANE(mask, l) {
        if (n && address[l] < sorted[n - 1]) rising = 0;
        sorted[n++] = address[l];
    }
    if (!rising) sort_addresses(sorted, n);
    uint64_t sector = ~0ull, line = ~0ull, end = 0, sectors = 0, lines = 0, useful = 0;
    for (int i = 0; i < n; i++) {
        uint64_t first = sorted[i], last = first + bytes - 1;
        uint64_t s0 = first >> 5, s1 = last >> 5, l0 = first >> 7, l1 = last >> 7;
        if (s0 != sector || !i) sectors++;
        sectors += s1 - s0;
        sector = s1;
        if (l0 != line || !i) lines++;
        lines += l1 - l0;
        line = l1;
        if (first >= end) useful += bytes;
        else if (last + 1 > end) useful += last + 1 - end;
        if (last + 1 > end) end = last + 1;
    }
    c->requests++;
    c->accesses += (uint64_t)n;
    c->sectors += sectors;
    c->lines += lines;
    c->useful_bytes += useful;
}

/* Passes over the 32 banks of 4 bytes: lanes that want different words of one bank take turns, lanes that want
   the same word share it. 8-byte accesses go by half warps, 16-byte ones by quarters. */
static uint32_t wavefronts_of(uint32_t mask, const uint64_t *address, uint32_t bytes) {
    uint64_t word[LANES_PER_WARP][LANES_PER_WARP * 2];
    uint8_t used[32] = {0};
    uint32_t words = bytes <= 4 ? 1 : bytes / 4, most = 0;
    EACH_LANE(mask, l) {
        for (uint32_t k = 0; k < words; k++) {
            uint64_t x = (address[l] >> 2) + k;
            uint32_t bank = x & 31, i = 0;
            while (i < used[bank] && word[bank][i] != x) i++;
            if (i == used[bank]) {
                word[bank][i] = x;
                if (++used[bank] > most) most = used[bank];
            }
        }
    }
    return most;
}

static void count_shared(Counter *c, uint32_t mask, const uint64_t *address, uint32_t bytes) {
    c->requests++;
    c->accesses += (uint64_t)__builtin_popcount(mask);
    if (bytes <= 4) {
        int same = 1, unit = bytes == 4 && mask == FULL;
        uint64_t first = address[__builtin_ctz(mask)];
        EACH_LANE(mask, l) {
            same &= address[l] == first;
            unit &= address[l] == first + 4 * l;
        }
        c->wavefronts += same || unit ? 1 : wavefronts_of(mask, address, bytes);
        return;
    }
    int lanes = bytes == 8 ? 16 : 8;
    uint32_t part = lanes == 16 ? 0xFFFFu : 0xFFu;
    for (int first = 0; first < 32; first += lanes) {
        uint32_t some = mask & (part << first);
        if (some) c->wavefronts += wavefronts_of(some, address, bytes);
    }
}
