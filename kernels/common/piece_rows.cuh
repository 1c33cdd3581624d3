// Tiles of 2-byte elements whose rows start at 4 or 8 bytes, by copies as small.
//
// cp.async takes pieces of 4, 8 or 16 bytes. Where a matrix has an even number of
// columns, pieces of two or four elements start where they may, so each goes to its
// own place in the tile and nothing is left to straighten. The price: two or four
// times as many copies. Neighbouring lanes take neighbouring pieces, so that a
// warp's copy is a line or two. Rows of an odd number of elements are straightened
// (shifted_rows.cuh).
#pragma once

#include "shifted_rows.cuh"

// Start copying a piece of WIDTH elements; where `inside` is false, zeros.
template <int WIDTH, typename T>
__device__ __forceinline__ void copy_piece(unsigned to, const T* from, bool inside)
{
    constexpr int BYTES = WIDTH * int(sizeof(T));
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to),
                 "l"(from), "n"(BYTES), "r"(inside ? BYTES : 0)
                 : "memory");
}

template <typename T, int ROWS, int COLS, int THREADS>
struct InPieces : Incoming<T, ROWS, COLS, THREADS> {
    using Base = Incoming<T, ROWS, COLS, THREADS>;
    int width;  // of a piece, in elements; 0: whole chunks, straightened if need be

    __device__ __forceinline__ InPieces(const T* matrix, int pitch, int row0,
                                        int col0, int rows_end, int cols_end)
        : Base(matrix, pitch, row0, col0, rows_end, cols_end), width(0)
    {
        if (this->kind != Rows::SHIFTED || pitch % 2 != 0) return;
        width = pitch % 4 == 0 ? 4 : 2;
        this->kind = Rows::ANYWHERE;  // there is nothing to straighten
        const int a_row = COLS / width;
        const int row = row0 + threadIdx.x / a_row;
        const int col = col0 + threadIdx.x % a_row * width;
        this->from = matrix + size_t(row) * pitch + col;
        this->rows = rows_end - row;
        this->cols = cols_end - col;
    }

    // Global to shared, asynchronously: part `part` of `parts` of the thread's
    // share.
    template <bool ANY>
    __device__ __forceinline__ void copy(T* tile, T* edge, int part,
                                         int parts) const
    {
        if (ANY && width == 2) {
            copy_pieces<2>(tile, part, parts);
        } else if (ANY && width == 4) {
            copy_pieces<4>(tile, part, parts);
        } else {
            Base::template copy<ANY>(tile, edge, part, parts);
        }
    }

    template <int WIDTH>
    __device__ __forceinline__ void copy_pieces(T* tile, int part, int parts) const
    {
        constexpr int A_ROW = COLS / WIDTH;       // pieces
        constexpr int PASS = THREADS / A_ROW;     // rows copied at a time
        constexpr int COUNT = ROWS / PASS;        // pieces of a thread
        static_assert(THREADS % A_ROW == 0 && ROWS % PASS == 0,
                      "every thread copies the same number of pieces");
        const int row = threadIdx.x / A_ROW;
        const int col = threadIdx.x % A_ROW * WIDTH;
        #pragma unroll
        for (int i = part * COUNT / parts; i < (part + 1) * COUNT / parts; ++i) {
            const int below = i * PASS;
            const int chunk = swizzled<COLS>(row + below, col / CHUNK * CHUNK);
            copy_piece<WIDTH>(shared_address(tile + chunk + col % CHUNK),
                              this->from + size_t(below) * this->pitch,
                              below < this->rows && this->cols > 0);
        }
    }
};
