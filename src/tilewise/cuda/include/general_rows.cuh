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
// Team threads. C's rows begin at multiples of Step elements: 8, 4, 2 or 1; in the last case two are stored at once.
// C's first element is `past` elements behind a multiple of 4 bytes.
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
    #pragma unroll 4
    for (int e = member; e < High * (Across / 2 + 1); e += Team) {  // two aligned elements, or one at an end
        int r = e / (Across / 2 + 1);
        Element* to = &C[(size_t)(row0 + r) * cols + col0];
        const Element* from = &tile[r * pitch];
        int odd = (int)((past + (long long)(row0 + r) * cols + col0) % 2);
        int c = e % (Across / 2 + 1) * 2 - odd, left = min(Across, cols - col0);
        if (row0 + r >= rows || c >= left) continue;
        if (c >= 0 && c + 1 < left) {
            Element both[2] = {from[c], from[c + 1]};
            *(unsigned*)&to[c] = *(unsigned*)both;
        } else to[max(c, 0)] = from[max(c, 0)];
    }
}
