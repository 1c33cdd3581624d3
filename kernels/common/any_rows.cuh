// Tiles of 2-byte elements whose rows start anywhere, each element to its own place.
//
// Where rows have an even number of elements, cp.async takes two, four or eight at
// once. Where it is odd, no copy that small exists: elements go one by one to
// registers, and from there to shared memory.
#pragma once

#include "piece_rows.cuh"
#include "store_rows.cuh"

// Whether all threads of a block copy as many elements of a tile, whole rows at a time.
template <int ROWS, int COLS, int THREADS>
constexpr bool even_elements = THREADS % COLS == 0 && ROWS % (THREADS / COLS) == 0;

// A ROWS x COLS tile of a matrix, by all THREADS of a block. Neighbouring threads
// take neighbouring elements. In shared memory a row is a chunk longer, so that
// eight rows lie in other banks.
template <typename T, int ROWS, int COLS, int THREADS>
struct AnyRows {
    static constexpr int LD = COLS + CHUNK;
    static constexpr int SIZE = ROWS * LD;       // elements in shared memory
    static constexpr int PASS = THREADS / COLS;  // rows taken at a time
    static constexpr int COUNT = ROWS / PASS;    // elements of a thread

    const T* from;   // the tile's first element
    int pitch;       // elements from a row of the matrix to the next
    int rows, cols;  // of the matrix, from that element on
    int width;       // elements that are copied at once
    unsigned short element[COUNT];  // on their way, where width is 1

    __device__ __forceinline__ AnyRows(const T* matrix, int pitch, int row0, int col0,
                                       int rows_end, int cols_end)
        : from(matrix + size_t(row0) * pitch + col0), pitch(pitch),
          rows(rows_end - row0), cols(cols_end - col0)
    {
        const size_t starts = reinterpret_cast<size_t>(matrix) / sizeof(T) | pitch;
        width = starts % 2 ? 1 : starts % 4 ? 2 : starts % 8 ? 4 : 8;
    }

    // Global to registers, or asynchronously to shared: zeros outside the matrix.
    __device__ __forceinline__ void fetch(T* tile)
    {
        if (width == 1) {
            const int row = threadIdx.x / COLS, col = threadIdx.x % COLS;
            auto at = reinterpret_cast<const unsigned short*>(from) +
                      size_t(row) * pitch + col;
            #pragma unroll
            for (int i = 0; i < COUNT; ++i, at += size_t(PASS) * pitch) {
                const bool inside = row + i * PASS < rows && col < cols;
                element[i] = inside ? *at : 0;
            }
        } else if (width == 2) {
            copy<2>(tile);
        } else if (width == 4) {
            copy<4>(tile);
        } else {
            copy<8>(tile);
        }
    }

    // Registers to shared: the elements that were fetched.
    __device__ __forceinline__ void put(T* tile) const
    {
        if (width != 1) return;
        const auto to = reinterpret_cast<unsigned short*>(tile) +
                        threadIdx.x / COLS * LD + threadIdx.x % COLS;
        #pragma unroll
        for (int i = 0; i < COUNT; ++i) {
            to[i * PASS * LD] = element[i];
        }
    }

    // Global to shared, asynchronously, WIDTH elements at once.
    template <int WIDTH>
    __device__ __forceinline__ void copy(T* tile) const
    {
        constexpr int A_ROW = COLS / WIDTH;  // pieces
        constexpr int BELOW = THREADS / A_ROW;  // rows copied at a time
        const int row = threadIdx.x / A_ROW, col = threadIdx.x % A_ROW * WIDTH;
        const T* at = from + size_t(row) * pitch + col;
        const unsigned to = shared_address(tile + row * LD + col);
        #pragma unroll
        for (int i = 0; i < ROWS; i += BELOW, at += size_t(BELOW) * pitch) {
            if (BELOW <= ROWS || row < ROWS) {
                copy_piece<WIDTH>(to + i * LD * int(sizeof(T)), at,
                                  row + i < rows && col < cols);
            }
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

// Shared to global: a tile of C as store_rows has it, but where rows start at odd
// elements, too, by words of four bytes: each is made of two elements.
template <int TILE_COLS, int LD, int THREADS, typename T>
__device__ __forceinline__ void store_any_rows(T* matrix, const T* tile, int N,
                                               int row0, int col0, int rows, int cols)
{
    if (N % 2 == 0 || reinterpret_cast<size_t>(matrix) % 4 != 0) {
        store_rows<TILE_COLS, LD, THREADS>(matrix, tile, N, row0, col0, rows, cols);
        return;
    }
    // A thread's rows are an even number apart: all of them start alike.
    constexpr int WORDS = TILE_COLS / 2;
    constexpr int BELOW = THREADS / WORDS;
    static_assert(THREADS % WORDS == 0 && BELOW % 2 == 0, "rows are two apart, or more");
    const int first = threadIdx.x / WORDS;
    const int odd = (row0 + first + col0) % 2;
    const int col = threadIdx.x % WORDS * 2 + odd;  // where the thread's words start
    const bool whole = col + 1 < min(cols, TILE_COLS);
    const bool half = !whole && col < min(cols, TILE_COLS);
    const bool before = col == 1;  // the element in front of the first word
    auto from = reinterpret_cast<const unsigned short*>(tile) + first * LD + col;
    auto to = reinterpret_cast<unsigned short*>(matrix) +
              size_t(row0 + first) * N + col0 + col;
    #pragma unroll 4
    for (int row = first; row < rows; row += BELOW) {
        if (whole) {
            *reinterpret_cast<unsigned*>(to) = from[0] | unsigned(from[1]) << 16;
        }
        if (half) to[0] = from[0];
        if (before) to[-1] = from[-1];
        from += BELOW * LD;
        to += size_t(BELOW) * N;
    }
}
