// The main loop of a block where the rows of A or B do not start at multiples of 16
// bytes: no 16-byte copies, so chunks are gathered element by element, through
// registers.
#pragma once

#include "chunks.cuh"
#include "fragments.cuh"

// sum += the block's rows of A times its columns of B. `shared` holds two slots of
// a TILE_M x TILE_K tile of A and a TILE_K x TILE_N tile of B, swizzled; (m0, n0)
// is the block's tile of C, (warp_m, warp_n) the warp's tile in it. While slow
// warps still multiply one slot, fast ones fill the other.
template <int TILE_M, int TILE_N, int TILE_K, int THREADS, int DEPTH, typename T,
          int M_TILES, int N_TILES>
__device__ __forceinline__ void accumulate_ragged(float (&sum)[M_TILES][N_TILES][4],
                                                  T* shared, const T* A, const T* B,
                                                  int M, int N, int K, int m0,
                                                  int n0, int warp_m, int warp_n)
{
    constexpr int SLOT_ELEMENTS = (TILE_M + TILE_N) * TILE_K;
    int slot = 0;
    for (int k0 = 0; k0 < K; k0 += TILE_K) {
        T* A_tile = shared + slot;
        T* B_tile = A_tile + TILE_M * TILE_K;
        gather_tile<TILE_M, TILE_K, THREADS, swizzled<TILE_K>>(A_tile, A, M, K, m0,
                                                               k0);
        gather_tile<TILE_K, TILE_N, THREADS, swizzled<TILE_N>>(B_tile, B, K, N, k0,
                                                               n0);
        // The tiles are complete, and everyone has read the other slot.
        __syncthreads();
        const unsigned a_lane = a_address<TILE_K>(A_tile, warp_m);
        const unsigned b_lane = b_address<TILE_N>(B_tile, warp_n);
        #pragma unroll
        for (int k = 0; k < TILE_K; k += 16) {
            unsigned a_frag[M_TILES][4];
            unsigned b_frag[N_TILES / 2][4];
            load_fragments<TILE_K, TILE_N>(a_frag, b_frag, a_lane, b_lane, k);
            multiply<T, DEPTH>(sum, a_frag, b_frag);
        }
        slot = SLOT_ELEMENTS - slot;
    }
}
