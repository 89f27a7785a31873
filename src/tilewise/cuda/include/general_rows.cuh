// Rows that begin anywhere: loads of 16 bytes that are shifted, and stores as wide as rows of 16 bits allow.

// Bytes 'from' to 'from' + 15 of the 32 in a and b.
static __device__ inline uint4 shifted(uint4 a, uint4 b, int from) {
    unsigned w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    #pragma unroll
    for (int by = 2; by > 0; by /= 2)  // whole words: 2, then 1
        if (from / 4 & by)
            #pragma unroll
            for (int i = 0; i < 8 - by; ++i) w[i] = w[i + by];
    int bits = from % 4 * 8;
    return {__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
            __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits)};
}
template <int BYTES> struct Bytes { typedef unsigned Word; };
template <> struct Bytes<8> { typedef uint2 Word; };
template <> struct Bytes<16> { typedef uint4 Word; };

// A tile of High x Across elements in shared memory, in rows `pitch` apart, to row0 and col0 of C, rows x cols, by
// Team threads. C's rows begin at multiples of Step elements: 8, 4, 2 or 1; in the last case what is whole of their
// aligned 16 bytes is stored at once. C's first element is `past` elements behind a multiple of 16 bytes; pitch is
// a multiple of 8.
template <int Step, int High, int Across, int Team, typename Element>
static __device__ inline void store_tile(Element* C, int rows, int cols, int row0, int col0,
                                         const Element* tile, int pitch, int member, long long past) {
    if (Step > 1) {
        typedef typename Bytes<2 * Step>::Word Word;
        #pragma unroll 4
        for (int e = member; e < High * Across / Step; e += Team) {
            int r = e / (Across / Step), c = e % (Across / Step) * Step;
            if (row0 + r < rows && col0 + c < cols)
                *(Word*)&C[(size_t)(row0 + r) * cols + col0 + c] = *(const Word*)&tile[r * pitch + c];
        }
        return;
    }
    int left = min(Across, cols - col0);
    auto past_16 = [&](int r) { return (unsigned)past + (unsigned)(row0 + r) * cols + col0; };
    #pragma unroll 2
    for (int e = member; e < High * Across / 8; e += Team) {  // what is whole of a row's aligned 16 bytes
        int r = e / (Across / 8), c = e % (Across / 8) * 8 + -past_16(r) % 8;
        if (row0 + r >= rows || c + 8 > left) continue;
        const uint4* from = (const uint4*)&tile[r * pitch + c / 8 * 8];
        *(uint4*)&C[(size_t)(row0 + r) * cols + col0 + c] = shifted(from[0], from[c % 8 ? 1 : 0], c % 8 * 2);
    }
    #pragma unroll 2
    for (int e = member; e < High * 16; e += Team) {  // up to seven elements before them, up to seven behind
        int r = e / 16, before = min(left, (int)(-past_16(r) % 8)), behind = (left - before) % 8;
        int c = e % 8 + (e % 16 < 8 ? 0 : left - behind);
        if (row0 + r < rows && e % 8 < (e % 16 < 8 ? before : behind))
            C[(size_t)(row0 + r) * cols + col0 + c] = tile[r * pitch + c];
    }
}
