/* What machine.py and the engine share: the decoded program, memory, counters, hazards and the trace.

   machine.py mirrors the five structs that it fills (Instruction, Buffer, SharedVariable, Machine) or reads
   (Counter, Hazard, Access) field for field; change both together, then raise ENGINE_VERSION.

   Registers.  A warp's register file holds one slot a register: 32 lanes side by side, 4 bytes a lane (8 for
   64-bit registers). Predicates are 0 or 1, 16-bit values lie zero-extended. An operand is the byte offset of
   its slot. Constants, parameters and special registers are slots too, filled before a warp starts, so no
   instruction has operand kinds. */
#ifndef TILEWISE_MACHINE_H
#define TILEWISE_MACHINE_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ENGINE_VERSION 1
#define LANES_PER_WARP 32
#define MAX_WARPS 32
#define FULL 0xFFFFFFFFu

/* Addresses. A buffer owns 2^36 addresses and begins in their middle, so that an index that runs off either
   end still names the buffer it came from. The first 2^36 hold the windows below. */
#define BUFFER_SHIFT 36
#define BUFFER_MIDDLE (1ull << 35)
#define WINDOW_SHIFT 34
#define WINDOW_SHARED 1
#define WINDOW_LOCAL 2
#define WINDOW_PARAM 3
/* Likewise, a shared variable owns 2^24 shared addresses and begins in their middle. */
#define SHARED_SHIFT 24
#define SHARED_MIDDLE (1u << 23)

enum { SPACE_GLOBAL, SPACE_SHARED, SPACE_LOCAL, SPACE_PARAM, SPACE_GENERIC };
enum { KIND_LOAD, KIND_STORE, KIND_ATOMIC, KIND_WATCH };
enum { FLAG_NEGATED = 1, FLAG_SIGNED = 2, FLAG_WIDE_ADDRESS = 4, FLAG_WIDE_DATA = 8, FLAG_NO_RESULT = 16 };

enum {
    HAZARD_OUT_OF_BOUNDS = 1, HAZARD_MISALIGNED, HAZARD_BARRIER, HAZARD_SHUFFLE, HAZARD_RACE,
    HAZARD_UNINITIALISED, HAZARD_STEP_LIMIT, HAZARD_ASSERT, HAZARD_READ_ONLY, HAZARD_CLOCK
};

typedef struct {
    uint16_t op;
    uint8_t size;  /* bytes of one element of a memory access */
    uint8_t count; /* elements of a vector access */
    uint8_t space;
    uint8_t flags;
    uint16_t which; /* variant: atomic operation, barrier number, number of a watched variable */
    int32_t guard;  /* slot of the predicate, or -1 */
    int32_t d, a, b, c;
    int32_t target;   /* program counter of a branch, or first index into `operands` */
    uint32_t counter; /* index into `counters`; a generic access counts shared in the next one, local after it */
    int64_t offset;   /* displacement of an address */
} Instruction;

typedef struct {
    uint8_t *data;
    uint64_t size;
    uint32_t writable, written;
} Buffer;

typedef struct {
    uint32_t first; /* offset into the block's shared memory */
    uint32_t size;
} SharedVariable;

typedef struct {
    uint64_t issued, lanes, requests, sectors, lines, useful_bytes, accesses, wavefronts, divergent;
} Counter;

typedef struct {
    int32_t kind, pc, other_pc, block, warp, lane, other_warp, space, buffer, size;
    int64_t offset; /* bytes from the start of the buffer */
    uint64_t mask;
} Hazard;

typedef struct {
    int64_t step;
    uint64_t address, value;
    int64_t offset;
    int32_t block, pc, buffer, interval;
    uint8_t warp, lane, space, kind, size, element, which, unused;
} Access;

/* The last accesses to one granule of shared memory, by the clocks of the warps that made them. */
typedef struct {
    uint32_t write_epoch, read_epoch, earlier_epoch;
    uint8_t write_warp, read_warp, earlier_warp, write_atomic;
    int32_t write_pc, read_pc;
} Shadow;

typedef struct {
    /* the program */
    const Instruction *program;
    const int32_t *operands;
    int64_t register_bytes;     /* of one warp */
    const uint8_t *constants;   /* template of the first slots */
    int64_t constant_bytes;
    int32_t special[16];        /* slots of tid.xyz, ctaid.xyz, laneid, warpid, smid, lanemasks; -1 if unused */
    /* the launch */
    uint32_t grid[3], block[3];
    uint32_t collect, sm_count;
    uint64_t step_limit;
    /* memory */
    Buffer *buffers;
    int64_t buffer_count;
    SharedVariable *shared_variables;
    int64_t shared_count, shared_bytes;
    uint8_t *shared;
    Shadow *shadow;
    int64_t granule_shift;
    uint8_t *local;
    int64_t local_bytes;        /* of one thread */
    uint8_t *param;
    int64_t param_bytes;
    /* results */
    Counter *counters;
    Hazard *hazards;
    int64_t hazard_capacity, hazard_count; /* the count goes on beyond the capacity */
    Access *accesses;
    int64_t access_count, access_capacity;
    const uint8_t *trace_block; /* one flag a block, or null: no trace */
    const uint8_t *trace_warp;  /* one flag a warp, or null: all */
    int64_t trace_steps_left;
    int64_t barriers, step, clock_read, out_of_memory;
    uint8_t *registers;
    uint32_t epoch;
    uint32_t stopped;
} Machine;

enum { READY, AT_BARRIER, AT_SYNC };

/* Lanes of one warp that stand at the same instruction. */
typedef struct {
    int32_t pc;
    uint32_t mask;
    int32_t state;
} Group;

typedef struct {
    Machine *machine;
    uint8_t *registers;
    int32_t number, block;
    uint32_t exists, live; /* lanes that the launch has; those that did not exit */
    int32_t groups;        /* parked groups; the running one is not among them */
    Group group[LANES_PER_WARP];
    uint32_t clock[MAX_WARPS]; /* what this warp knows of each warp's epoch */
    uint64_t issued;
    int32_t pc;            /* of the instruction in progress */
    int32_t traced, forced;
} Warp;

#define EACH_LANE(mask, l) for (uint32_t m_##l = (mask), l; m_##l && (l = (uint32_t)__builtin_ctz(m_##l), 1); m_##l &= m_##l - 1)

#endif
