// A WMMA fragment of C to global memory, wherever it lies.
#pragma once

#include <mma.h>

constexpr int FRAG = 16;  // edge of a fragment
using CFragment =
    nvcuda::wmma::fragment<nvcuda::wmma::accumulator, FRAG, FRAG, FRAG, float>;

// Registers to global: a fragment of C at (row0, col0). One that C holds whole, in
// rows that wmma can address (multiples of 16 bytes from a multiple of 32), is
// stored at once; others pass through shared memory, `staged`, of which each warp
// has its own.
__device__ __forceinline__ void store_fragment(float* C, int M, int N, int row0,
                                               int col0, const CFragment& c_frag,
                                               float* staged)
{
    const bool direct = N % 4 == 0 && reinterpret_cast<size_t>(C) % 32 == 0;
    if (direct && row0 + FRAG <= M && col0 + FRAG <= N) {
        nvcuda::wmma::store_matrix_sync(C + size_t(row0) * N + col0, c_frag, N,
                                        nvcuda::wmma::mem_row_major);
        return;
    }
    nvcuda::wmma::store_matrix_sync(staged, c_frag, FRAG,
                                    nvcuda::wmma::mem_row_major);
    __syncwarp();  // the fragment is complete
    for (int e = threadIdx.x % 32; e < FRAG * FRAG; e += 32) {
        const int row = row0 + e / FRAG;
        const int col = col0 + e % FRAG;
        if (row < M && col < N) {
            C[size_t(row) * N + col] = staged[e];
        }
    }
    __syncwarp();  // everyone has read it: it may be overwritten
}
