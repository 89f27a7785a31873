// Atomics of a thread on global or shared memory, for the whole device and, with _block and _system behind
// the name, for another scope; the simulator does not tell scopes apart.

#define TW_ATOMIC_IN(name, op, type, letter) TW_FN type name(type *p, type v) { type r; \
    asm volatile("atom." op " %0, [%1], %2;" : "=" letter(r) : "l"(p), letter(v) : "memory"); return r; }
#define TW_ATOMIC(name, op, type, letter) TW_ATOMIC_IN(name, op, type, letter) \
    TW_ATOMIC_IN(name##_block, "cta." op, type, letter) TW_ATOMIC_IN(name##_system, "sys." op, type, letter)
TW_ATOMIC(atomicAdd, "add.s32", int, "r") TW_ATOMIC(atomicAdd, "add.u32", unsigned, "r")
TW_ATOMIC(atomicAdd, "add.u64", unsigned long long, "l")
TW_ATOMIC(atomicAdd, "add.f32", float, "f") TW_ATOMIC(atomicAdd, "add.f64", double, "d")
TW_ATOMIC(atomicExch, "exch.b32", float, "f")
TW_ATOMIC(atomicInc, "inc.u32", unsigned, "r") TW_ATOMIC(atomicDec, "dec.u32", unsigned, "r")
#define TW_EXTREMES(type, wide, letter) \
    TW_ATOMIC(atomicMin, "min." wide, type, letter) TW_ATOMIC(atomicMax, "max." wide, type, letter)
TW_EXTREMES(int, "s32", "r") TW_EXTREMES(unsigned, "u32", "r")
TW_EXTREMES(long long, "s64", "l") TW_EXTREMES(unsigned long long, "u64", "l")
#define TW_LOGIC(type, bits, letter) \
    TW_ATOMIC(atomicAnd, "and." bits, type, letter) TW_ATOMIC(atomicOr, "or." bits, type, letter) \
    TW_ATOMIC(atomicXor, "xor." bits, type, letter)
TW_LOGIC(int, "b32", "r") TW_LOGIC(unsigned, "b32", "r") TW_LOGIC(unsigned long long, "b64", "l")
TW_ATOMIC(atomicExch, "exch.b32", int, "r") TW_ATOMIC(atomicExch, "exch.b32", unsigned, "r")
TW_ATOMIC(atomicExch, "exch.b64", unsigned long long, "l")
#define TW_SUB(suffix) \
    TW_FN int atomicSub##suffix(int *p, int v) { return atomicAdd##suffix(p, -v); } \
    TW_FN unsigned atomicSub##suffix(unsigned *p, unsigned v) { return atomicAdd##suffix(p, 0u - v); }
TW_SUB() TW_SUB(_block) TW_SUB(_system)
#define TW_CAS_IN(name, scope, type, bits, letter) TW_FN type name(type *p, type expected, type v) { type r; \
    asm volatile("atom." scope "cas." bits " %0, [%1], %2, %3;" \
                 : "=" letter(r) : "l"(p), letter(expected), letter(v) : "memory"); return r; }
#define TW_CAS(type, bits, letter) TW_CAS_IN(atomicCAS, "", type, bits, letter) \
    TW_CAS_IN(atomicCAS_block, "cta.", type, bits, letter) \
    TW_CAS_IN(atomicCAS_system, "sys.", type, bits, letter)
TW_CAS(int, "b32", "r") TW_CAS(unsigned, "b32", "r") TW_CAS(unsigned long long, "b64", "l")
