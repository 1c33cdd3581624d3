// Matrices of 2-byte elements in chunks of eight (16 bytes): what one thread moves at a time.
//
// Where every row starts at a multiple of 16 bytes, a chunk is one access and lies wholly inside
// the matrix or wholly outside. Elsewhere its elements are fetched one by one.
#pragma once

#ifndef LOADFN
#define LOADFN *
#endif
constexpr int CHUNK = 8;  // elements

// Whether every row of a row-major matrix with rows of `cols` elements starts at 16 bytes.
template <typename T>
__device__ __forceinline__ bool rows_aligned(const T* matrix, int cols) {
    return cols % CHUNK == 0 && reinterpret_cast<size_t>(matrix) % 16 == 0;
}

// The first `count` of eight neighbouring elements, one by one, and zeros for the others.
template <typename T>
__device__ __forceinline__ uint4 gather_chunk(const T* from, int count) {
    const unsigned short* element = reinterpret_cast<const unsigned short*>(from);
    unsigned pair[CHUNK / 2];
#pragma unroll
    for (int i = 0; i < CHUNK; i += 2) {
        const unsigned low = i < count ? element[i] : 0;
        const unsigned high = i + 1 < count ? element[i + 1] : 0;
        pair[i / 2] = low | high << 16;
    }
    return make_uint4(pair[0], pair[1], pair[2], pair[3]);
}

// Global to registers where rows are aligned: this thread's chunks of the ROWS x COLS tile at
// (row0, col0), zeros outside the matrix. Neighbouring threads take neighbouring chunks.
template <int ROWS, int COLS, int THREADS, typename T>
__device__ __forceinline__ void load_chunks(uint4 (&chunk)[ROWS * COLS / CHUNK / THREADS],
                                            const T* matrix, int rows, int cols, int row0, int col0) {
    constexpr int CHUNKS_A_ROW = COLS / CHUNK;
    constexpr int PASS = THREADS / CHUNKS_A_ROW;  // rows that the block loads at a time
    static_assert(THREADS % CHUNKS_A_ROW == 0, "the block loads whole rows of the tile at a time");
    const int row = row0 + threadIdx.x / CHUNKS_A_ROW;
    const int col = col0 + threadIdx.x % CHUNKS_A_ROW * CHUNK;
    const T* from = matrix + size_t(row) * cols + col;
#pragma unroll
    for (int i = 0; i < ROWS / PASS; ++i) {
        chunk[i] = make_uint4(0, 0, 0, 0);
        if (row + i * PASS < rows && col < cols) {
            chunk[i] = LOADFN(reinterpret_cast<const uint4*>(from + size_t(i * PASS) * cols));
        }
    }
}

// Where element (row, col) of a tile lies in shared memory, if its rows are LD elements apart.
template <int LD>
__device__ __forceinline__ int row_major(int row, int col) {
    return row * LD + col;
}

// Registers to shared: the same thread's chunks of the tile, each to the place its layout gives it.
template <int ROWS, int COLS, int THREADS, int (*PLACE)(int, int), typename T>
__device__ __forceinline__ void store_chunks(T* tile,
                                             const uint4 (&chunk)[ROWS * COLS / CHUNK / THREADS]) {
    constexpr int CHUNKS_A_ROW = COLS / CHUNK;
    constexpr int PASS = THREADS / CHUNKS_A_ROW;
    const int row = threadIdx.x / CHUNKS_A_ROW;
    const int col = threadIdx.x % CHUNKS_A_ROW * CHUNK;
#pragma unroll
    for (int i = 0; i < ROWS / PASS; ++i) {
        *reinterpret_cast<uint4*>(&tile[PLACE(row + i * PASS, col)]) = chunk[i];
    }
}

// Global to shared where rows are not aligned: the same thread's chunks, element by element.
template <int ROWS, int COLS, int THREADS, int (*PLACE)(int, int), typename T>
__device__ __forceinline__ void gather_tile(T* tile, const T* matrix, int rows, int cols, int row0,
                                            int col0) {
    constexpr int CHUNKS_A_ROW = COLS / CHUNK;
    constexpr int PASS = THREADS / CHUNKS_A_ROW;
    const int row = threadIdx.x / CHUNKS_A_ROW;
    const int col = threadIdx.x % CHUNKS_A_ROW * CHUNK;
    const T* from = matrix + size_t(row0 + row) * cols + col0 + col;
#pragma unroll
    for (int i = 0; i < ROWS / PASS; ++i) {
        const int count = row0 + row + i * PASS < rows ? cols - col0 - col : 0;
        *reinterpret_cast<uint4*>(&tile[PLACE(row + i * PASS, col)]) =
            gather_chunk(from + size_t(i * PASS) * cols, count);
    }
}
