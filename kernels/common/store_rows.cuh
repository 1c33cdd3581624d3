// A tile of C in elements of two bytes, by way of shared memory: neighbouring lanes
// store neighbouring elements, as many at a time as the rows of C allow.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "chunks.cuh"

// Two neighbouring sums, rounded, the first in the low half.
__device__ __forceinline__ unsigned rounded(float first, float second,
                                            __nv_bfloat16)
{
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return reinterpret_cast<const unsigned&>(pair);
}
__device__ __forceinline__ unsigned rounded(float first, float second, __half)
{
    const __half2 pair = __floats2half2_rn(first, second);
    return reinterpret_cast<const unsigned&>(pair);
}

// Shared to global: the first `rows` rows and `cols` columns of a tile of TILE_COLS
// columns whose rows are LD elements apart; C: its place in a matrix of N columns.
// Word: what is stored at once.
template <typename Word, int TILE_COLS, int LD, int THREADS, typename T>
__device__ __forceinline__ void store_words(T* C, const T* tile, int N, int rows,
                                            int cols)
{
    constexpr int WIDTH = sizeof(Word) / sizeof(T);
    constexpr int LANES = TILE_COLS / WIDTH;  // words of a row
    #pragma unroll 4
    for (int e = threadIdx.x; e < rows * LANES; e += THREADS) {
        const int row = e / LANES;
        const int col = e % LANES * WIDTH;
        if (col < cols) {
            *reinterpret_cast<Word*>(C + size_t(row) * N + col) =
                *reinterpret_cast<const Word*>(tile + row * LD + col);
        }
    }
}

// The same by the widest words: 16 bytes, 4, or 2. matrix: C from its start.
template <int TILE_COLS, int LD, int THREADS, typename T>
__device__ __forceinline__ void store_rows(T* matrix, const T* tile, int N,
                                           int row0, int col0, int rows, int cols)
{
    T* C = matrix + size_t(row0) * N + col0;
    if (rows_aligned(matrix, N)) {
        store_words<uint4, TILE_COLS, LD, THREADS>(C, tile, N, rows, cols);
    } else if (N % 2 == 0 && reinterpret_cast<size_t>(matrix) % 4 == 0) {
        store_words<unsigned, TILE_COLS, LD, THREADS>(C, tile, N, rows, cols);
    } else {
        store_words<unsigned short, TILE_COLS, LD, THREADS>(C, tile, N, rows, cols);
    }
}
