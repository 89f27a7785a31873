// Vector queries over the 32 lanes of a warp, which clang compiles to the host's SIMD. Results are lane
// masks.

typedef u64 Lanes64 __attribute__((ext_vector_type(32)));
typedef u32 Lanes32 __attribute__((ext_vector_type(32)));
typedef s32 Signed32 __attribute__((ext_vector_type(32)));
typedef u8 Lanes8 __attribute__((ext_vector_type(32)));
typedef _Bool Answers __attribute__((ext_vector_type(32)));

#define MASK_OF(answers) ({ const Answers yes = __builtin_convertvector(answers, Answers); u32 bits; \
    memcpy(&bits, &yes, 4); bits; })

static inline Lanes64 lanes_u64(const u64 *p) { Lanes64 v; memcpy(&v, p, sizeof v); return v; }
static inline Signed32 lanes_s32(const s32 *p) { Signed32 v; memcpy(&v, p, sizeof v); return v; }

// Lanes whose predicate is true.
static inline u32 lanes_true(const u32 *p) {
    Lanes32 v; memcpy(&v, p, sizeof v);
    return MASK_OF((v & 1) != 0);
}

// Existing lanes in a state.
static inline u32 lanes_in(const Warp *W, u8 state) {
    Lanes8 v; memcpy(&v, W->state, sizeof v);
    return MASK_OF(v == state) & W->present;
}

// Lanes of `among` with the lowest program counter; that counter, and the lowest of the others.
static inline u32 lowest_lanes(const Warp *W, u32 among, s32 *pc, s32 *next) {
    if (!among) return 0;
    Answers in; memcpy(&in, &among, 4);
    const Signed32 none = INT32_MAX, at = __builtin_convertvector(in, Signed32) != 0
        ? lanes_s32(W->pc) : none;
    *pc = __builtin_reduce_min(at);
    *next = __builtin_reduce_min(at == *pc ? none : at);
    return MASK_OF(at == *pc);
}

// Lanes whose `whole` bytes, a power of two, are not within `size` bytes from `low`, or are misaligned.
static inline u32 lanes_outside(const u64 *address, u64 low, u64 size, u64 whole) {
    const Lanes64 a = lanes_u64(address), from = a - low;
    return size < whole ? FULL : MASK_OF((from > size - whole) | ((a & (whole - 1)) != 0));
}

// Values of the lanes 1, 8 and 16 below; the first lanes keep their own.
#define BEFORE_1(v) __builtin_shufflevector(v, v, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, \
    15, 16, 17, 18, \
                                            19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30)
#define BEFORE_8(v) __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, \
    10, 11, 12, 13, \
                                            14, 15, 16, 17, 18, 19, 20, 21, 22, 23)
#define BEFORE_16(v) __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, \
    0, 1, 2, 3, 4, \
                                             5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)

// Lanes whose address no lane 1, 8 or 16 below has; this catches most duplicates.
static inline u32 lanes_first(const u64 *address, u32 mask) {
    const Lanes64 a = lanes_u64(address);
    return mask & ~(MASK_OF(a == BEFORE_1(a)) & mask << 1) & ~(MASK_OF(a == BEFORE_8(a)) & mask << 8) &
           ~(MASK_OF(a == BEFORE_16(a)) & mask << 16);
}

// Whether all these lanes access the same 2^shift bytes.
static inline int lanes_close(const u64 *address, u32 mask, int shift) {
    const Lanes64 a = lanes_u64(address), first = address[__builtin_ctz(mask)];
    return !(MASK_OF(((a ^ first) >> shift) != 0) & mask);
}

// Values of lanes lane ^ 1 and lane ^ 2.
#define BESIDE_1(v) __builtin_shufflevector(v, v, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14, \
    17, 16, 19, 18, 21, 20, 23, 22, 25, 24, 27, 26, 29, 28, 31, 30)
#define BESIDE_2(v) __builtin_shufflevector(v, v, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13, \
    18, 19, 16, 17, 22, 23, 20, 21, 26, 27, 24, 25, 30, 31, 28, 29)

// Lanes whose address differs from that of lane ^ 1, and of lane ^ 2.
static inline void lanes_unpaired(const u64 *address, u32 *near, u32 *far) {
    const Lanes64 a = lanes_u64(address);
    *near = MASK_OF(a != BESIDE_1(a)); *far = MASK_OF(a != BESIDE_2(a));
}

// Whether each lane's address is above the previous lane's.
static inline int lanes_ascend(const u64 *address) {
    const Lanes64 a = lanes_u64(address);
    return (MASK_OF(a > BEFORE_1(a)) | 1) == FULL;
}

// Number of distinct 2^shift-byte pieces that contiguous lanes access in order; -1 if they do not.
static inline int pieces_in_order(const u64 *address, u32 mask, int shift) {
    const u32 rest = mask & (mask - 1), run = mask >> __builtin_ctz(mask);
    if (run & (run + 1)) return -1;
    const Lanes64 a = lanes_u64(address) >> shift, before = BEFORE_1(a);
    return MASK_OF(a < before) & rest ? -1 : 1 + __builtin_popcount(MASK_OF(a != before) & rest);
}
