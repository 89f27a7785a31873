// Random numbers in kernels: names of cuRAND's device API, written from its public documentation.
//
// Philox4_32_10 is the generator of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3"
// (2011), with the seed as its key, the subsequence in the upper and the offset in the lower half of its counter.
// XORWOW is Marsaglia's ("Xorshift RNGs", 2003), but begins from a state of our own: its numbers are as good as
// cuRAND's, and not the same. So are those of MRG32k3a, for which XORWOW stands in.
#pragma once

// ---- Philox

struct curandStatePhilox4_32_10 {
    uint4 tw_counter, tw_four;
    uint2 tw_key;
    unsigned tw_next;
    int tw_has, tw_has_double;
    float tw_other;
    double tw_other_double;
};
typedef curandStatePhilox4_32_10 curandStatePhilox4_32_10_t;

TW_FN uint4 curand_Philox4x32_10(uint4 c, uint2 k) {
    _Pragma("unroll") for (int round = 0; round < 10; ++round) {
        const unsigned long long even = 0xd2511f53ull * c.x, odd = 0xcd9e8d57ull * c.z;
        c = make_uint4((unsigned)(odd >> 32) ^ c.y ^ k.x, (unsigned)odd, (unsigned)(even >> 32) ^ c.w ^ k.y,
            (unsigned)even);
        k = make_uint2(k.x + 0x9e3779b9u, k.y + 0xbb67ae85u);
    }
    return c;
}
TW_FN void tw_forward(uint4 &c, unsigned long long n) {
    const unsigned long long low = c.x | (unsigned long long)c.y << 32, sum = low + n;
    c.x = (unsigned)sum;
    c.y = (unsigned)(sum >> 32);
    if (sum < low && ++c.z == 0) ++c.w;
}
TW_FN void skipahead(unsigned long long n, curandStatePhilox4_32_10 *state) {
    const unsigned at = state->tw_next + (unsigned)(n & 3);
    tw_forward(state->tw_counter, n / 4 + at / 4);
    state->tw_next = at & 3;
    state->tw_four = curand_Philox4x32_10(state->tw_counter, state->tw_key);
}
TW_FN void skipahead_sequence(unsigned long long n, curandStatePhilox4_32_10 *state) {
    const unsigned long long sum = (state->tw_counter.z | (unsigned long long)state->tw_counter.w << 32) + n;
    state->tw_counter.z = (unsigned)sum;
    state->tw_counter.w = (unsigned)(sum >> 32);
    state->tw_four = curand_Philox4x32_10(state->tw_counter, state->tw_key);
}
TW_FN void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                       curandStatePhilox4_32_10 *state) {
    state->tw_counter = make_uint4(0, 0, (unsigned)subsequence, (unsigned)(subsequence >> 32));
    state->tw_key = make_uint2((unsigned)seed, (unsigned)(seed >> 32));
    state->tw_next = 0;
    state->tw_has = state->tw_has_double = 0;
    state->tw_other = 0.0f;
    state->tw_other_double = 0.0;
    skipahead(offset, state);
}
TW_FN unsigned tw_one_of(uint4 v, unsigned i) { return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w; }
TW_FN unsigned curand(curandStatePhilox4_32_10 *state) {
    const unsigned r = tw_one_of(state->tw_four, state->tw_next);
    if (++state->tw_next == 4) {
        state->tw_next = 0;
        tw_forward(state->tw_counter, 1);
        state->tw_four = curand_Philox4x32_10(state->tw_counter, state->tw_key);
    }
    return r;
}
TW_FN uint4 curand4(curandStatePhilox4_32_10 *state) {
    const uint4 a = state->tw_four;
    const unsigned at = state->tw_next;
    tw_forward(state->tw_counter, 1);
    const uint4 b = curand_Philox4x32_10(state->tw_counter, state->tw_key);
    state->tw_four = b;
    return at == 0 ? a : at == 1 ? make_uint4(a.y, a.z, a.w, b.x)
         : at == 2 ? make_uint4(a.z, a.w, b.x, b.y) : make_uint4(a.w, b.x, b.y, b.z);
}

// ---- XORWOW

struct curandStateXORWOW {
    unsigned tw_count, tw_word[5];
    int tw_has, tw_has_double;
    float tw_other;
    double tw_other_double;
};
typedef curandStateXORWOW curandStateXORWOW_t, curandState, curandState_t, curandStateMRG32k3a,
    curandStateMRG32k3a_t;

TW_FN unsigned curand(curandStateXORWOW *state) {
    unsigned *v = state->tw_word;
    const unsigned t = v[0] ^ v[0] >> 2;
    v[0] = v[1]; v[1] = v[2]; v[2] = v[3]; v[3] = v[4];
    v[4] = (v[4] ^ v[4] << 4) ^ (t ^ t << 1);
    state->tw_count += 362437u;
    return state->tw_count + v[4];
}
TW_FN void skipahead(unsigned long long n, curandStateXORWOW *state) {
    for (unsigned long long i = 0; i < n; ++i) curand(state);
}
// Steele, Lea and Flood's splitmix64, for the beginning of each sequence.
TW_FN unsigned long long tw_mixed(unsigned long long &at) {
    unsigned long long z = at += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}
TW_FN void curand_init(unsigned long long seed, unsigned long long subsequence, unsigned long long offset,
                       curandStateXORWOW *state) {
    unsigned long long at = seed;
    at = tw_mixed(at) + subsequence * 0xd1342543de82ef95ull;
    const unsigned long long a = tw_mixed(at), b = tw_mixed(at), c = tw_mixed(at);
    state->tw_word[0] = (unsigned)a;
    state->tw_word[1] = (unsigned)(a >> 32);
    state->tw_word[2] = (unsigned)b;
    state->tw_word[3] = (unsigned)(b >> 32);
    state->tw_word[4] = (unsigned)c | 1u;  // not all zero
    state->tw_count = (unsigned)(c >> 32);
    state->tw_has = state->tw_has_double = 0;
    state->tw_other = 0.0f;
    state->tw_other_double = 0.0;
    skipahead(offset, state);
}

// ---- distributions: uniform from above 0 to 1, normal by Box and Muller's pairs

TW_FN float tw_uniform(unsigned x) { return fmaf((float)x, 0x1p-32f, 0x1p-33f); }
TW_FN double tw_uniform(unsigned x, unsigned y) {
    return fma((double)((unsigned long long)x ^ (unsigned long long)y << 21), 0x1p-53, 0x1p-54); }
TW_FN float2 tw_normal(unsigned x, unsigned y) {
    const float size = sqrtf(-2.0f * logf(tw_uniform(x))), angle = tw_uniform(y) * 6.2831853f;
    return make_float2(size * sinf(angle), size * cosf(angle)); }
TW_FN double2 tw_normal(double u, double v) {
    const double size = sqrt(-2.0 * log(u)), angle = v * 6.283185307179586;
    return make_double2(size * sin(angle), size * cos(angle)); }
template <class State> TW_FN float curand_uniform(State *state) { return tw_uniform(curand(state)); }
template <class State> TW_FN double curand_uniform_double(State *state) {
    const unsigned x = curand(state), y = curand(state);
    return tw_uniform(x, y); }
template <class State> TW_FN float2 curand_normal2(State *state) {
    const unsigned x = curand(state), y = curand(state);
    return tw_normal(x, y); }
template <class State> TW_FN double2 curand_normal2_double(State *state) {
    const double u = curand_uniform_double(state), v = curand_uniform_double(state);
    return tw_normal(u, v); }
template <class State> TW_FN float curand_normal(State *state) {
    if (state->tw_has) { state->tw_has = 0; return state->tw_other; }
    const float2 two = curand_normal2(state);
    state->tw_has = 1;
    state->tw_other = two.y;
    return two.x; }
template <class State> TW_FN double curand_normal_double(State *state) {
    if (state->tw_has_double) { state->tw_has_double = 0; return state->tw_other_double; }
    const double2 two = curand_normal2_double(state);
    state->tw_has_double = 1;
    state->tw_other_double = two.y;
    return two.x; }
template <class State> TW_FN float curand_log_normal(State *state, float mean, float deviation) {
    return expf(mean + deviation * curand_normal(state)); }
template <class State> TW_FN double curand_log_normal_double(State *state, double mean, double deviation) {
    return exp(mean + deviation * curand_normal_double(state)); }
template <class State> TW_FN float2 curand_log_normal2(State *state, float mean, float deviation) {
    const float2 two = curand_normal2(state);
    return make_float2(expf(mean + deviation * two.x), expf(mean + deviation * two.y)); }
// By the gaps between events up to a mean of 64, by the normal distribution beyond; cuRAND's numbers differ.
template <class State> TW_FN unsigned curand_poisson(State *state, double mean) {
    if (mean > 64.0) {
        const double r = floor(mean + sqrt(mean) * curand_normal_double(state) + 0.5);
        return r > 0.0 ? (unsigned)r : 0u;
    }
    const double limit = exp(-mean);
    unsigned n = 0;
    for (double p = curand_uniform_double(state); p > limit; p *= curand_uniform_double(state)) ++n;
    return n; }
TW_FN float4 curand_uniform4(curandStatePhilox4_32_10 *state) {
    const uint4 v = curand4(state);
    return make_float4(tw_uniform(v.x), tw_uniform(v.y), tw_uniform(v.z), tw_uniform(v.w)); }
TW_FN double2 curand_uniform2_double(curandStatePhilox4_32_10 *state) {
    const uint4 v = curand4(state);
    return make_double2(tw_uniform(v.x, v.y), tw_uniform(v.z, v.w)); }
TW_FN float4 curand_normal4(curandStatePhilox4_32_10 *state) {
    const uint4 v = curand4(state);
    const float2 a = tw_normal(v.x, v.y), b = tw_normal(v.z, v.w);
    return make_float4(a.x, a.y, b.x, b.y); }
TW_FN float4 curand_log_normal4(curandStatePhilox4_32_10 *state, float mean, float deviation) {
    const float4 v = curand_normal4(state);
    return make_float4(expf(mean + deviation * v.x), expf(mean + deviation * v.y), expf(mean + deviation * v.z),
        expf(mean + deviation * v.w)); }
