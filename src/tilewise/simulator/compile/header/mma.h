// Warp matrices: nvcuda::wmma, written from the CUDA C++ Programming Guide, over mma.sync of PTX. A fragment's
// elements lie as the operands of mma.sync do, 16 rows or 8 columns at a time; CUDA leaves the order open.
#pragma once
#include "cuda_fp16.h"
#include "cuda_bf16.h"

namespace nvcuda {
namespace wmma {

struct matrix_a {};
struct matrix_b {};
struct accumulator {};
struct row_major {};
struct col_major {};
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32 {};
struct u4;
struct s4;
struct b1;
}

// What a fragment holds for an element of a type, and how many of them one register of mma.sync has.
template <class T> struct tw_kind;
template <> struct tw_kind<__half> { typedef __half held; static constexpr int per = 2, steps = 16; };
template <> struct tw_kind<__nv_bfloat16> { typedef __nv_bfloat16 held; static constexpr int per = 2, steps = 16; };
template <> struct tw_kind<precision::tf32> { typedef float held; static constexpr int per = 1, steps = 8; };
template <> struct tw_kind<signed char> { typedef signed char held; static constexpr int per = 4, steps = 16; };
template <> struct tw_kind<unsigned char> { typedef unsigned char held; static constexpr int per = 4, steps = 16; };
template <> struct tw_kind<float> { typedef float held; };
template <> struct tw_kind<int> { typedef int held; };

#define TW_MMA_LANE const int lane = (int)__nvvm_read_ptx_sreg_laneid(), row = lane / 4, part = lane % 4;

// Where element i of a lane's part lies. A is cut into pieces of 16 rows, B and the result into pieces of 8
// columns, where they are as wide as that; m8n32k16 is computed as its transpose, B on the left.
template <class Use, int m, int n, int k> struct tw_shape {
    static constexpr bool known = (m == 16 && n == 16 && (k == 16 || k == 8)) || (m == 32 && n == 8 && k == 16)
        || (m == 8 && n == 32 && k == 16);
    static_assert(known, "wmma has the shapes m16n16k16, m32n8k16, m8n32k16, and m16n16k8 for tf32");
    static constexpr bool turned = m == 8;
    static constexpr int tall = turned ? n : m, wide = turned ? m : n;  // of what mma.sync computes
};

template <class Use, int m, int n, int k, class T, class Layout = void> struct fragment;

// A (or, turned, B): pieces of 16 x 16 (tf32: 16 x 8); of a piece 8 elements, 2 rows by 4 columns by lane.
// B: pieces of 8 columns. `per` elements side by side along k are one register.
template <class T> TW_FN void tw_left_place(int i, int &at, int &deep) {
    constexpr int per = tw_kind<T>::per, half = tw_kind<T>::steps / (4 * per) > 1 ? 2 : 1;
    TW_MMA_LANE
    const int piece = i / (2 * half * per), in = i % (2 * half * per), word = in / per;
    at = piece * 16 + row + word % 2 * 8;
    deep = part * per + in % per + word / 2 * 4 * per;
}
template <class T> TW_FN void tw_right_place(int i, int &at, int &deep) {
    constexpr int per = tw_kind<T>::per, half = tw_kind<T>::steps / (4 * per) > 1 ? 2 : 1;
    TW_MMA_LANE
    const int piece = i / (half * per), in = i % (half * per), word = in / per;
    at = piece * 8 + row;
    deep = part * per + in % per + word * 4 * per;
}

#define TW_FRAGMENT(use, left_if, other) \
template <int m, int n, int k, class T, class Layout> struct fragment<use, m, n, k, T, Layout> { \
    typedef typename tw_kind<T>::held element_type; \
    typedef typename tw_kind<T>::held storage_element_type; \
    typedef tw_shape<use, m, n, k> tw_of_shape; \
    static constexpr bool tw_left = tw_of_shape::turned != left_if; \
    static constexpr int num_elements = (left_if ? m : n) * k / 32, num_storage_elements = num_elements; \
    element_type x[num_elements]; \
    static TW_IN void tw_place(int i, int &at, int &deep) { \
        if (tw_left) tw_left_place<T>(i, at, deep); else tw_right_place<T>(i, at, deep); } \
};
TW_FRAGMENT(matrix_a, true, n)
TW_FRAGMENT(matrix_b, false, m)
#undef TW_FRAGMENT

template <int m, int n, int k, class T> struct fragment<accumulator, m, n, k, T, void> {
    typedef T element_type;
    typedef T storage_element_type;
    typedef tw_shape<accumulator, m, n, k> tw_of_shape;
    static constexpr int num_elements = m * n / 32, num_storage_elements = num_elements;
    T x[num_elements];
    // Pieces of 16 x 8, those of one 16 rows side by side.
    static TW_IN void tw_place(int i, int &r, int &c) {
        TW_MMA_LANE
        const int piece = i / 4, in = i % 4, across = tw_of_shape::wide / 8;
        const int down = piece / across * 16 + row + in / 2 * 8, along = piece % across * 8 + part * 2 + in % 2;
        r = tw_of_shape::turned ? along : down;
        c = tw_of_shape::turned ? down : along;
    }
};

template <class Use, int m, int n, int k, class T, class Layout, class V>
TW_FN void fill_fragment(fragment<Use, m, n, k, T, Layout> &f, const V &v) {
    const typename tw_kind<T>::held value = (typename tw_kind<T>::held)v;
    _Pragma("unroll") for (int i = 0; i < f.num_elements; ++i) f.x[i] = value;
}

TW_FN unsigned tw_word(const void *p) { unsigned r; __builtin_memcpy(&r, p, 4); return r; }
TW_FN void tw_set_word(void *p, unsigned v) { __builtin_memcpy(p, &v, 4); }
template <class A, class B> struct tw_same { static constexpr bool value = false; };
template <class A> struct tw_same<A, A> { static constexpr bool value = true; };
// All of a warp take part; elements that lie side by side come in one access.
#define TW_LOAD_SIDE(use, first, second) \
template <int m, int n, int k, class T, class Layout, class P> \
TW_FN void load_matrix_sync(fragment<use, m, n, k, T, Layout> &f, const P *p, unsigned step) { \
    __syncwarp(); \
    typedef typename tw_kind<T>::held held; \
    constexpr int per = tw_kind<T>::per; \
    _Pragma("unroll") for (int i = 0; i < f.num_elements; i += per) { \
        int at, deep; \
        f.tw_place(i, at, deep); \
        if (tw_same<Layout, second>::value) /* 4 bytes that lie side by side; CUDA demands the alignment */ \
            tw_set_word(&f.x[i], *(const unsigned *)(p + (size_t)at * step + deep)); \
        else \
            _Pragma("unroll") for (int j = 0; j < per; ++j) \
                f.x[i + j] = (held)p[(size_t)(deep + j) * step + at]; \
    } \
}
TW_LOAD_SIDE(matrix_a, col_major, row_major)
TW_LOAD_SIDE(matrix_b, row_major, col_major)
#undef TW_LOAD_SIDE
// Two elements of a result that lie side by side, or one above the other.
template <class T> struct tw_pair_of {
    typedef T two __attribute__((ext_vector_type(2)));
    static TW_IN void load(const T *p, bool beside, unsigned step, T &x, T &y) {
        if (beside) { two v = *(const two *)p; x = v.x; y = v.y; } else { x = p[0]; y = p[step]; } }
    static TW_IN void store(T *p, bool beside, unsigned step, T x, T y) {
        if (beside) *(two *)p = two{x, y}; else { p[0] = x; p[step] = y; } }
};
template <> struct tw_pair_of<__half> {
    static TW_IN void load(const __half *p, bool beside, unsigned step, __half &x, __half &y) {
        if (beside) { __half2 v = *(const __half2 *)p; x = v.x; y = v.y; } else { x = p[0]; y = p[step]; } }
    static TW_IN void store(__half *p, bool beside, unsigned step, __half x, __half y) {
        if (beside) *(__half2 *)p = __half2(x, y); else { p[0] = x; p[step] = y; } }
};
template <int m, int n, int k, class T>
TW_FN void load_matrix_sync(fragment<accumulator, m, n, k, T> &f, const T *p, unsigned step, layout_t layout) {
    __syncwarp();
    const bool beside = (layout == mem_row_major) != tw_shape<accumulator, m, n, k>::turned;
    _Pragma("unroll") for (int i = 0; i < f.num_elements; i += 2) {
        int r, c;
        f.tw_place(i, r, c);
        const T *at = p + (layout == mem_row_major ? (size_t)r * step + c : (size_t)c * step + r);
        tw_pair_of<T>::load(at, beside, step, f.x[i], f.x[i + 1]);
    }
}
template <int m, int n, int k, class T>
TW_FN void store_matrix_sync(T *p, const fragment<accumulator, m, n, k, T> &f, unsigned step, layout_t layout) {
    __syncwarp();
    const bool beside = (layout == mem_row_major) != tw_shape<accumulator, m, n, k>::turned;
    _Pragma("unroll") for (int i = 0; i < f.num_elements; i += 2) {
        int r, c;
        f.tw_place(i, r, c);
        T *at = p + (layout == mem_row_major ? (size_t)r * step + c : (size_t)c * step + r);
        tw_pair_of<T>::store(at, beside, step, f.x[i], f.x[i + 1]);
    }
}

// ---- one mma.sync

#define TW_MMA_FLOAT(type, name, k) \
    TW_FN void tw_mma(float *d, const type *, const unsigned *a, const unsigned *b, const float *c) { \
        asm volatile("mma.sync.aligned.m16n8k" #k ".row.col.f32." name "." name ".f32 " \
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%10, %11, %12, %13};" \
            : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3]) \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), \
              "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3])); }
TW_MMA_FLOAT(__half, "f16", 16) TW_MMA_FLOAT(__nv_bfloat16, "bf16", 16) TW_MMA_FLOAT(precision::tf32, "tf32", 8)
#undef TW_MMA_FLOAT
TW_FN void tw_mma(__half *d, const __half *, const unsigned *a, const unsigned *b, const __half *c) {
    unsigned low, high;
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 "
        "{%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %9};"
        : "=r"(low), "=r"(high)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(tw_word(c)), "r"(tw_word(c + 2)));
    d[0] = __ushort_as_half((unsigned short)low); d[1] = __ushort_as_half((unsigned short)(low >> 16));
    d[2] = __ushort_as_half((unsigned short)high); d[3] = __ushort_as_half((unsigned short)(high >> 16));
}
// Sums of half products in float, given or wanted as half.
TW_FN void tw_mma(float *d, const __half *t, const unsigned *a, const unsigned *b, const __half *c) {
    float wide[4] = {(float)c[0], (float)c[1], (float)c[2], (float)c[3]};
    tw_mma(d, t, a, b, wide);
}
TW_FN void tw_mma(__half *d, const __half *t, const unsigned *a, const unsigned *b, const float *c) {
    float wide[4];
    tw_mma(wide, t, a, b, c);
    _Pragma("unroll") for (int i = 0; i < 4; ++i) d[i] = __half(wide[i]);
}
#define TW_MMA_INT(type, name) \
    TW_FN void tw_mma(int *d, const type *, const unsigned *a, const unsigned *b, const int *c) { \
        asm volatile("mma.sync.aligned.m16n8k16.row.col.s32." name "." name ".s32 " \
            "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%7, %8, %9, %10};" \
            : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) \
            : "r"(a[0]), "r"(a[1]), "r"(b[0]), "r"(c[0]), "r"(c[1]), "r"(c[2]), "r"(c[3])); }
TW_MMA_INT(signed char, "s8") TW_MMA_INT(unsigned char, "u8")
#undef TW_MMA_INT

template <int m, int n, int k, class D, class T, class LA, class LB, class C>
TW_FN void mma_sync(fragment<accumulator, m, n, k, D> &d, const fragment<matrix_a, m, n, k, T, LA> &a,
                    const fragment<matrix_b, m, n, k, T, LB> &b, const fragment<accumulator, m, n, k, C> &c,
                    bool = false) {
    typedef tw_shape<accumulator, m, n, k> shape;
    typedef typename tw_kind<T>::held held;
    constexpr int per = tw_kind<T>::per, across = shape::wide / 8, down = shape::tall / 16;
    constexpr int left_words = 16 * k / 32 / per, right_words = 8 * k / 32 / per;
    const held *left = shape::turned ? (const held *)b.x : (const held *)a.x;
    const held *right = shape::turned ? (const held *)a.x : (const held *)b.x;
    unsigned l[left_words * down], r[right_words * across];
    _Pragma("unroll") for (int i = 0; i < left_words * down; ++i) l[i] = tw_word(left + i * per);
    _Pragma("unroll") for (int i = 0; i < right_words * across; ++i) r[i] = tw_word(right + i * per);
    _Pragma("unroll") for (int y = 0; y < down; ++y)
        _Pragma("unroll") for (int x = 0; x < across; ++x)
            tw_mma(d.x + (y * across + x) * 4, (const T *)nullptr, l + y * left_words, r + x * right_words,
                c.x + (y * across + x) * 4);
}

TW_FN float __float_to_tf32(float x) {
    unsigned r;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
    return __uint_as_float(r);
}
}
}
