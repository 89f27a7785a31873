/* Atomics: lane after lane, in lane order. */
enum {
    ATOMIC_ADD, ATOMIC_MIN, ATOMIC_MAX, ATOMIC_AND, ATOMIC_OR, ATOMIC_XOR, ATOMIC_EXCH, ATOMIC_CAS, ATOMIC_INC,
    ATOMIC_DEC, ATOMIC_FADD, ATOMIC_SMIN, ATOMIC_SMAX, ATOMIC_HADD, ATOMIC_HADD2
};

static inline float as_float(uint32_t x) { float y; memcpy(&y, &x, 4); return y; }
static inline uint32_t as_bits(float x) { uint32_t y; memcpy(&y, &x, 4); return y; }
static inline double as_double(uint64_t x) { double y; memcpy(&y, &x, 8); return y; }
static inline uint64_t as_bits64(double x) { uint64_t y; memcpy(&y, &x, 8); return y; }
static inline float half_value(uint16_t x) { _Float16 y; memcpy(&y, &x, 2); return (float)y; }
static inline uint16_t half_bits(double x) { _Float16 y = (_Float16)x; uint16_t z; memcpy(&z, &y, 2); return z; }

static uint64_t combined(uint16_t which, uint32_t size, uint64_t old, uint64_t b, uint64_t c) {
    int64_t so = size == 4 ? (int64_t)(int32_t)old : (int64_t)old, sb = size == 4 ? (int64_t)(int32_t)b : (int64_t)b;
    switch (which) {
    case ATOMIC_ADD: return old + b;
    case ATOMIC_MIN: return old < b ? old : b;
    case ATOMIC_MAX: return old > b ? old : b;
    case ATOMIC_SMIN: return so < sb ? old : b;
    case ATOMIC_SMAX: return so > sb ? old : b;
    case ATOMIC_AND: return old & b;
    case ATOMIC_OR: return old | b;
    case ATOMIC_XOR: return old ^ b;
    case ATOMIC_EXCH: return b;
    case ATOMIC_CAS: return old == b ? c : old;
    case ATOMIC_INC: return old >= b ? 0 : old + 1;
    case ATOMIC_DEC: return old == 0 || old > b ? b : old - 1;
    case ATOMIC_FADD:
        return size == 4 ? as_bits(as_float((uint32_t)old) + as_float((uint32_t)b))
                         : as_bits64(as_double(old) + as_double(b));
    case ATOMIC_HADD: return half_bits((double)half_value((uint16_t)old) + half_value((uint16_t)b));
    default:
        return half_bits((double)half_value((uint16_t)old) + half_value((uint16_t)b)) |
               (uint64_t)half_bits((double)half_value((uint16_t)(old >> 16)) + half_value((uint16_t)(b >> 16))) << 16;
    }
}

static void atomic(Warp *w, const Instruction *in, uint32_t mask, uint8_t **at) {
    uint8_t *R = w->registers;
    int wide = in->flags & FLAG_WIDE_DATA;
    uint64_t keep = in->size == 8 ? ~0ull : (1ull << 8 * in->size) - 1;
    EACH_LANE(mask, l) {
        uint64_t old = read_bytes(at[l], in->size), b = get(R + in->b, l, wide) & keep;
        uint64_t c = in->which == ATOMIC_CAS ? get(R + in->c, l, wide) & keep : 0;
        write_bytes(at[l], in->size, combined(in->which, in->size, old, b, c));
        if (!(in->flags & FLAG_NO_RESULT)) put(R + in->d, l, wide, old);
    }
}
