// A shared-memory layout that ldmatrix reads without bank conflicts and without
// padding.
//
// A row of COLS 2-byte elements is cut into chunks of eight (16 bytes, four banks).
// A line of 128 bytes, all 32 banks, holds eight chunks. ldmatrix reads the same
// chunk of eight neighbouring rows, so those eight must lie at eight places of a
// line: the chunk's number is XORed with the row's, counted in lines. XOR with one
// number is its own inverse and maps a line onto itself, so no two elements collide
// and the tile takes no more room.
#pragma once

#include "chunks.cuh"

// Index of element (row, col) in a swizzled tile; col is a multiple of 8.
template <int COLS>
__device__ __forceinline__ int swizzled(int row, int col) {
    static_assert(whole_lines<COLS>,
                  "a swizzled row holds 16, 32 or a multiple of 64 elements");
    constexpr int CHUNKS = COLS / CHUNK;
    constexpr int CHUNKS_A_LINE = CHUNKS < 8 ? CHUNKS : 8;
    constexpr int ROWS_A_LINE = 8 / CHUNKS_A_LINE;
    const int chunk = col / CHUNK ^ row / ROWS_A_LINE % CHUNKS_A_LINE;
    return row * COLS + chunk * CHUNK;
}
