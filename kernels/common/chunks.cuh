// Matrices of 2-byte elements in chunks of eight (16 bytes): what one thread moves at a time.
//
// Where every row starts at a multiple of 16 bytes, a chunk is one access and lies wholly inside
// the matrix or wholly outside. Elsewhere its elements are fetched one by one.
#pragma once

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

// Global to registers: this thread's chunks of the ROWS x COLS tile at (row0, col0), zeros outside
// the matrix. Neighbouring threads take neighbouring chunks.
template <int ROWS, int COLS, int THREADS, typename T>
__device__ __forceinline__ void load_chunks(uint4 (&chunk)[ROWS * COLS / CHUNK / THREADS],
                                            const T* matrix, int rows, int cols, int row0, int col0,
                                            bool aligned) {
    constexpr int CHUNKS_A_ROW = COLS / CHUNK;
    constexpr int PASS = THREADS / CHUNKS_A_ROW;  // rows that the block loads at a time
    static_assert(THREADS % CHUNKS_A_ROW == 0, "the block loads whole rows of the tile at a time");
    const int row = row0 + threadIdx.x / CHUNKS_A_ROW;
    const int col = col0 + threadIdx.x % CHUNKS_A_ROW * CHUNK;
    const T* from = matrix + size_t(row) * cols + col;
    if (aligned) {
#pragma unroll
        for (int i = 0; i < ROWS / PASS; ++i) {
            const bool inside = row + i * PASS < rows && col < cols;
            chunk[i] = inside ? *reinterpret_cast<const uint4*>(from + size_t(i * PASS) * cols) : uint4{};
        }
    } else {
#pragma unroll
        for (int i = 0; i < ROWS / PASS; ++i) {
            const int count = row + i * PASS < rows ? cols - col : 0;
            chunk[i] = gather_chunk(from + size_t(i * PASS) * cols, count);
        }
    }
}

// Registers to shared: the same thread's chunks of a tile whose rows follow one another.
template <int ROWS, int COLS, int THREADS, typename T>
__device__ __forceinline__ void store_chunks(T* tile,
                                             const uint4 (&chunk)[ROWS * COLS / CHUNK / THREADS]) {
#pragma unroll
    for (int i = 0; i < ROWS * COLS / CHUNK / THREADS; ++i) {
        const int index = threadIdx.x + i * THREADS;
        *reinterpret_cast<uint4*>(tile + index * CHUNK) = chunk[i];
    }
}
