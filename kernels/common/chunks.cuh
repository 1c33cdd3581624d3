// Matrices of 2-byte elements in chunks of eight (16 bytes): what one thread moves
// at a time.
//
// Where every row starts at a multiple of 16 bytes, a chunk is one access and lies
// wholly inside the matrix or wholly outside. Elsewhere its elements are fetched
// one by one.
#pragma once

constexpr int CHUNK = 8;  // elements

// Whether every row of a row-major matrix with rows of `cols` elements starts at 16
// bytes.
template <typename T>
__device__ __forceinline__ bool rows_aligned(const T* matrix, int cols) {
    return cols % CHUNK == 0 && reinterpret_cast<size_t>(matrix) % 16 == 0;
}

// Whether rows of COLS elements are whole lines of 128 bytes, or a half or a
// quarter of one.
template <int COLS>
constexpr bool whole_lines = COLS == 16 || COLS == 32 || COLS % 64 == 0;

// Which chunks of a ROWS x COLS tile a thread moves. Eight neighbouring threads
// take a line of 128 bytes (or a whole row, if that is shorter), the next eight the
// same line of the next row. So a thread's chunks of one row are a fixed distance
// apart, and one address serves them all.
template <int ROWS, int COLS, int THREADS>
struct Share {
    // Threads of a line.
    static constexpr int LANES = COLS < 8 * CHUNK ? COLS / CHUNK : 8;
    // Lines of a row.
    static constexpr int LINES = COLS / CHUNK / LANES;
    // Rows moved at a time.
    static constexpr int PASS = THREADS / LANES;
    // Chunks of a thread.
    static constexpr int COUNT = ROWS / PASS * LINES;

    // Row and column, in the tile, of a thread's chunk i.
    static __device__ __forceinline__ int row(int i)
    {
        return threadIdx.x / LANES + i / LINES * PASS;
    }
    static __device__ __forceinline__ int col(int i) {
        return threadIdx.x % LANES * CHUNK + i % LINES * (LANES * CHUNK);
    }
};

// Whether the threads of a block have equal shares of a tile.
template <int ROWS, int COLS, int THREADS>
constexpr bool even_share = ROWS % Share<ROWS, COLS, THREADS>::PASS == 0;

// The first `count` of eight neighbouring elements, one by one, and zeros for the
// others.
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

// Global to registers where rows are aligned: this thread's chunks of the ROWS x
// COLS tile at (row0, col0), zeros outside the matrix.
template <int ROWS, int COLS, int THREADS, typename T>
__device__ __forceinline__ void load_chunks(
    uint4 (&chunk)[Share<ROWS, COLS, THREADS>::COUNT], const T* matrix, int rows,
    int cols, int row0, int col0)
{
    using Mine = Share<ROWS, COLS, THREADS>;
    static_assert(even_share<ROWS, COLS, THREADS>,
                  "every thread moves the same number of chunks");
    #pragma unroll
    for (int i = 0; i < Mine::COUNT; ++i) {
        const int row = row0 + Mine::row(i);
        const int col = col0 + Mine::col(i);
        chunk[i] = make_uint4(0, 0, 0, 0);
        if (row < rows && col < cols) {
            chunk[i] =
                *reinterpret_cast<const uint4*>(matrix + size_t(row) * cols + col);
        }
    }
}

// Where element (row, col) of a tile lies in shared memory, if its rows are LD
// elements apart.
template <int LD>
__device__ __forceinline__ int row_major(int row, int col) {
    return row * LD + col;
}

// Registers to shared: the same thread's chunks of the tile, each to the place its
// layout gives it.
template <int ROWS, int COLS, int THREADS, int (*PLACE)(int, int), typename T>
__device__ __forceinline__ void store_chunks(
    T* tile, const uint4 (&chunk)[Share<ROWS, COLS, THREADS>::COUNT])
{
    using Mine = Share<ROWS, COLS, THREADS>;
    static_assert(even_share<ROWS, COLS, THREADS>,
                  "every thread moves the same number of chunks");
    #pragma unroll
    for (int i = 0; i < Mine::COUNT; ++i) {
        *reinterpret_cast<uint4*>(&tile[PLACE(Mine::row(i), Mine::col(i))]) =
            chunk[i];
    }
}

// Global to shared where rows are not aligned: the same thread's chunks, element by
// element.
template <int ROWS, int COLS, int THREADS, int (*PLACE)(int, int), typename T>
__device__ __forceinline__ void gather_tile(T* tile, const T* matrix, int rows,
                                            int cols, int row0, int col0)
{
    using Mine = Share<ROWS, COLS, THREADS>;
    static_assert(even_share<ROWS, COLS, THREADS>,
                  "every thread moves the same number of chunks");
    #pragma unroll
    for (int i = 0; i < Mine::COUNT; ++i) {
        const int row = row0 + Mine::row(i);
        const int col = col0 + Mine::col(i);
        *reinterpret_cast<uint4*>(&tile[PLACE(Mine::row(i), Mine::col(i))]) =
            gather_chunk(matrix + size_t(row) * cols + col,
                         row < rows ? cols - col : 0);
    }
}
