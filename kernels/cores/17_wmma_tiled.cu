// The core of 17_wmma_tiled.cu: WMMA fragments from tiles in two shared buffers.
// Whole tiles only: M is a multiple of 128, N of 256, K of 32.

#include <mma.h>

#include "common/chunks.cuh"

using namespace nvcuda;
using T = __half;
using AFragment = wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major>;
using BFragment = wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major>;
using CFragment = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

// Two buffers, each with a tile of A and, behind it, a tile of B.
extern __shared__ __align__(128) T buffers[];

extern "C" __global__ void
wmma_tiled_core(const T* A, const T* B, float* C, int M, int N, int K)
{
    const int BM = 128, BN = 256, BK = 32, WM = 64, WN = 64, PAD = 8;
    const int THREADS = BM / WM * (BN / WN) * 32, A_LD = BK + PAD, B_LD = BN + PAD;
    const int M_TILES = WM / 16, N_TILES = WN / 16;  // fragments of a warp

    // Origin of the block's tile of C, and of the warp's within it.
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN, warp = threadIdx.x / 32;
    const int warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;
    AFragment a_frag[M_TILES];
    BFragment b_frag[N_TILES];
    CFragment c_frag[M_TILES][N_TILES];
    for (int i = 0; i < M_TILES; ++i)
        for (int j = 0; j < N_TILES; ++j) wmma::fill_fragment(c_frag[i][j], 0.0f);

    // Global to registers: this thread's chunks of eight of the first tiles.
    uint4 a_next[Share<BM, BK, THREADS>::COUNT];
    uint4 b_next[Share<BK, BN, THREADS>::COUNT];
    load_chunks<BM, BK, THREADS>(a_next, A, M, K, m0, 0);
    load_chunks<BK, BN, THREADS>(b_next, B, K, N, 0, n0);
    for (int k0 = 0; k0 < K; k0 += BK) {
        // Registers to shared, into the buffer that nobody reads any more.
        T* A_tile = buffers + k0 / BK % 2 * (BM * A_LD + BK * B_LD);
        T* B_tile = A_tile + BM * A_LD;
        store_chunks<BM, BK, THREADS, row_major<A_LD>>(A_tile, a_next);
        store_chunks<BK, BN, THREADS, row_major<B_LD>>(B_tile, b_next);
        __syncthreads();  // both tiles are complete, everyone has left the others
        load_chunks<BM, BK, THREADS>(a_next, A, M, K, m0, k0 + BK);
        load_chunks<BK, BN, THREADS>(b_next, B, K, N, k0 + BK, n0);

        for (int k = 0; k < BK; k += 16) {
            // Shared to registers: M_TILES fragments of A and N_TILES of B.
            for (int i = 0; i < M_TILES; ++i)
                wmma::load_matrix_sync(a_frag[i],
                                       A_tile + (warp_m + i * 16) * A_LD + k, A_LD);
            for (int j = 0; j < N_TILES; ++j)
                wmma::load_matrix_sync(b_frag[j],
                                       B_tile + k * B_LD + warp_n + j * 16, B_LD);
            // Every fragment of A meets every fragment of B.
            for (int i = 0; i < M_TILES; ++i)
                for (int j = 0; j < N_TILES; ++j)
                    wmma::mma_sync(c_frag[i][j], a_frag[i], b_frag[j],
                                   c_frag[i][j]);
        }
    }
    C += (m0 + warp_m) * N + n0 + warp_n;
    for (int i = 0; i < M_TILES; ++i)  // registers to global
        for (int j = 0; j < N_TILES; ++j)
            wmma::store_matrix_sync(C + i * 16 * N + j * 16, c_frag[i][j], N,
                                    wmma::mem_row_major);
}
