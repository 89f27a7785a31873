// Complex numbers as CUDA's cuComplex.h has them: pairs x + iy. Written from its public documentation.
#pragma once

typedef float2 cuFloatComplex;
typedef double2 cuDoubleComplex;
typedef cuFloatComplex cuComplex;
#define TW_COMPLEX(name, end, type, real, root, size) \
    TW_FN name make_##name(real x, real y) { return make_##type(x, y); } \
    TW_FN real cuCreal##end(name a) { return a.x; } \
    TW_FN real cuCimag##end(name a) { return a.y; } \
    TW_FN name cuConj##end(name a) { return make_##type(a.x, -a.y); } \
    TW_FN name cuCadd##end(name a, name b) { return make_##type(a.x + b.x, a.y + b.y); } \
    TW_FN name cuCsub##end(name a, name b) { return make_##type(a.x - b.x, a.y - b.y); } \
    TW_FN name cuCmul##end(name a, name b) { \
        return make_##type(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); } \
    TW_FN name cuCdiv##end(name a, name b) { \
        const real most = size(b.x) + size(b.y), x = b.x / most, y = b.y / most, whole = x * x + y * y; \
        const real p = a.x / most, q = a.y / most; \
        return make_##type((p * x + q * y) / whole, (q * x - p * y) / whole); } \
    TW_FN name cuCfma##end(name a, name b, name c) { return cuCadd##end(cuCmul##end(a, b), c); } \
    TW_FN real cuCabs##end(name a) { return root(a.x, a.y); }
TW_COMPLEX(cuFloatComplex, f, float2, float, hypotf, fabsf)
TW_COMPLEX(cuDoubleComplex, , double2, double, hypot, fabs)
#undef TW_COMPLEX
TW_FN cuComplex make_cuComplex(float x, float y) { return make_float2(x, y); }
TW_FN cuDoubleComplex cuComplexFloatToDouble(cuFloatComplex a) { return make_double2((double)a.x, (double)a.y); }
TW_FN cuFloatComplex cuComplexDoubleToFloat(cuDoubleComplex a) { return make_float2((float)a.x, (float)a.y); }
