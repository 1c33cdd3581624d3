// Tiles of 2-byte elements by 16-byte copies, wherever the rows of a matrix start.
//
// A row that starts `shift` elements behind a multiple of 16 bytes is copied from
// that multiple on, in chunks that lie as they do in global memory, and one chunk
// more to a line. Once they have arrived, each chunk of the tile is made of two of
// them. Nothing is read beyond the end of a row: zeros are written instead.
#pragma once

#include "chunks_async.cuh"
#include "ldmatrix.cuh"
#include "swizzle.cuh"

// How the rows of a matrix start: each at 16 bytes; at least the first; anywhere.
enum class Rows { ALIGNED, SHIFTED, ANYWHERE };

template <typename T>
__device__ __forceinline__ Rows rows_of(const T* matrix, int cols) {
    if (reinterpret_cast<size_t>(matrix) % 16 != 0) return Rows::ANYWHERE;
    return cols % CHUNK == 0 ? Rows::ALIGNED : Rows::SHIFTED;
}

// Start copying the first `count` elements of a chunk, and zeros for the others.
template <typename T>
__device__ __forceinline__ void copy_elements(unsigned to, const T* from, int count)
{
    const int bytes = max(0, min(count, CHUNK)) * int(sizeof(T));
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
                 "l"(from), "r"(bytes)
                 : "memory");
}

// Eight elements out of sixteen, from number `shift` on; 0 to 7.
__device__ __forceinline__ uint4 eight_from(uint4 own, uint4 next, int shift)
{
    const unsigned w[8] = {own.x,  own.y,  own.z,  own.w,
                           next.x, next.y, next.z, next.w};
    unsigned by_two[6], by_one[5], v[4];  // words further on
    #pragma unroll
    for (int i = 0; i < 6; ++i) by_two[i] = shift & 4 ? w[i + 2] : w[i];
    #pragma unroll
    for (int i = 0; i < 5; ++i) by_one[i] = shift & 2 ? by_two[i + 1] : by_two[i];
    #pragma unroll
    for (int i = 0; i < 4; ++i) {
        v[i] = __funnelshift_r(by_one[i], by_one[i + 1], (shift & 1) * 16);
    }
    return make_uint4(v[0], v[1], v[2], v[3]);
}

// A ROWS x COLS tile of a matrix on its way to shared memory, by all THREADS of a
// block: what this thread copies of it (chunks.cuh, Share). The tile is followed
// elsewhere by `edge`, a chunk for each line.
template <typename T, int ROWS, int COLS, int THREADS>
struct Incoming {
    using Mine = Share<ROWS, COLS, THREADS>;
    static constexpr int EDGE = ROWS * Mine::LINES * CHUNK;  // elements

    const T* from;   // the thread's first chunk of the next tile
    const T* broken;  // the chunk in which the rows end, if it is not whole
    int pitch;       // elements from a row of the matrix to the next
    int rows, cols;  // of the matrix, from that chunk on
    int shift;       // of its row; a multiple of eight rows on it is the same
    Rows kind;

    // The tiles from (row0, col0) on, up to `rows_end` and `cols_end`.
    __device__ __forceinline__ Incoming(const T* matrix, int pitch, int row0,
                                        int col0, int rows_end, int cols_end)
        : pitch(pitch), kind(rows_of(matrix, pitch))
    {
        const int row = row0 + Mine::row(0), col = col0 + Mine::col(0);
        const size_t start = size_t(row) * pitch + col;
        shift = kind == Rows::SHIFTED ? start % CHUNK : 0;
        from = matrix + (start - shift);
        const size_t end = size_t(rows_end) * pitch;
        broken = end % CHUNK == 0 ? nullptr : matrix + end / CHUNK * CHUNK;
        rows = rows_end - row;
        cols = cols_end - col + shift;
    }

    __device__ __forceinline__ static bool ends_line()
    {
        return threadIdx.x % Mine::LANES == Mine::LANES - 1;
    }

    // Where the chunk behind line i % LINES of a row lies.
    __device__ __forceinline__ static int edge_place(int i)
    {
        return (Mine::row(i) * Mine::LINES + i % Mine::LINES) * CHUNK;
    }

    // Global to shared, asynchronously: part `part` of `parts` of the thread's
    // share. ANY: the rows may start anywhere; else each starts at 16 bytes.
    template <bool ANY>
    __device__ __forceinline__ void copy(T* tile, T* edge, int part,
                                         int parts) const
    {
        if (ANY && kind == Rows::ANYWHERE) {
            if (part == 0) gather(tile);
        } else if (ANY && kind == Rows::SHIFTED && ends()) {
            copy_chunks<ANY, true>(tile, edge, part, parts);
        } else {
            copy_chunks<ANY, false>(tile, edge, part, parts);
        }
    }

    // Whether the last chunk of all rows may be the thread's, and is not whole.
    __device__ __forceinline__ bool ends() const
    {
        constexpr int BELOW = Mine::COUNT / Mine::LINES * Mine::PASS;
        return broken != nullptr && rows <= BELOW && cols <= COLS + 2 * CHUNK;
    }

    // The same. CHECK: look for that chunk.
    template <bool ANY, bool CHECK>
    __device__ __forceinline__ void copy_chunks(T* tile, T* edge, int part,
                                                int parts) const
    {
        const bool shifted = ANY && kind == Rows::SHIFTED;
        const unsigned to = shared_address(
            tile + (shifted ? Mine::row(0) * COLS + Mine::col(0)
                            : swizzled<COLS>(Mine::row(0), Mine::col(0))));
        #pragma unroll (CHECK ? 1 : Mine::COUNT)
        for (int i = part * Mine::COUNT / parts;
             i < (part + 1) * Mine::COUNT / parts; ++i) {
            const int below = i / Mine::LINES * Mine::PASS;
            const int right = i % Mine::LINES * Mine::LANES * CHUNK;
            const T* chunk = from + size_t(below) * pitch + right;
            const unsigned place = to + (below * COLS + right) * sizeof(T);
            const int left = below < rows ? cols - right : 0;
            if (!shifted) {
                copy_chunk(place, chunk, left > 0);
                continue;
            }
            if (CHECK && chunk == broken) {
                finish(place, left);
            } else {
                copy_elements(place, chunk, left);
            }
            if (ends_line()) {
                const unsigned behind = shared_address(edge + edge_place(i));
                if (CHECK && chunk + CHUNK == broken) {
                    finish(behind, left - CHUNK);
                } else {
                    copy_elements(behind, chunk + CHUNK, left - CHUNK);
                }
            }
        }
    }

    // Global to shared, at once: `count` elements of the chunk that is not whole.
    __device__ __forceinline__ void finish(unsigned to, int count) const
    {
        const auto element = reinterpret_cast<const unsigned short*>(broken);
        #pragma unroll 1
        for (int e = 0; e < CHUNK; ++e) {
            const unsigned short value = e < count ? element[e] : 0;
            asm volatile("st.shared.u16 [%0], %1;" ::"r"(to + e * int(sizeof(T))),
                         "h"(value)
                         : "memory");
        }
    }

    // Global to shared, element by element, at once.
    __device__ __forceinline__ void gather(T* tile) const
    {
        #pragma unroll 1
        for (int i = 0; i < Mine::COUNT; ++i) {
            const int below = i / Mine::LINES * Mine::PASS;
            const int right = i % Mine::LINES * Mine::LANES * CHUNK;
            *reinterpret_cast<uint4*>(
                tile + swizzled<COLS>(Mine::row(i), Mine::col(i))) =
                gather_chunk(from + size_t(below) * pitch + right,
                             below < rows ? cols - right : 0);
        }
    }

    // Shared to shared, once this thread's copies have arrived: the rows of the
    // tile as ldmatrix takes them. A row is one warp's, here and in the copy.
    __device__ __forceinline__ void straighten(T* tile, const T* edge) const
    {
        if (kind != Rows::SHIFTED) return;
        __syncwarp();  // the copies of the row's other lanes have arrived
        #pragma unroll
        for (int i = 0; i < Mine::COUNT; ++i) {
            const T* raw = tile + Mine::row(i) * COLS + Mine::col(i);
            const T* behind = ends_line() ? edge + edge_place(i) : raw + CHUNK;
            const uint4 chunk =
                eight_from(*reinterpret_cast<const uint4*>(raw),
                           *reinterpret_cast<const uint4*>(behind), shift);
            __syncwarp();  // the row is in registers
            *reinterpret_cast<uint4*>(
                tile + swizzled<COLS>(Mine::row(i), Mine::col(i))) = chunk;
        }
    }

    // On to the next `depth` columns, or rows, of the matrix.
    __device__ __forceinline__ void right(int depth) {
        from += depth;
        cols -= depth;
    }
    __device__ __forceinline__ void down(int depth) {
        from += size_t(depth) * pitch;
        rows -= depth;
    }
};
