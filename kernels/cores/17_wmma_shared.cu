// The core of 17_wmma_shared.cu: WMMA fragments from tiles in shared memory.
// Whole tiles only: M and N are multiples of 128, K of 32.

#include <mma.h>

#include "common/chunks.cuh"

using namespace nvcuda;
using T = __half;
using AFragment = wmma::fragment<wmma::matrix_a, 16, 16, 16, T, wmma::row_major>;
using BFragment = wmma::fragment<wmma::matrix_b, 16, 16, 16, T, wmma::row_major>;
using CFragment = wmma::fragment<wmma::accumulator, 16, 16, 16, float>;

extern "C" __global__ void
wmma_shared_core(const T* A, const T* B, float* C, int M, int N, int K)
{
    const int BM = 128, BN = 128, BK = 32, WM = 64, WN = 64;
    const int THREADS = BM / WM * (BN / WN) * 32;  // 4 warps
    const int M_TILES = WM / 16, N_TILES = WN / 16;  // fragments of a warp
    __shared__ __align__(128) T A_tile[BM][BK], B_tile[BK][BN];

    // Origin of the block's tile of C, and of the warp's within it.
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN, warp = threadIdx.x / 32;
    const int warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;
    AFragment a_frag[M_TILES];
    BFragment b_frag[N_TILES];
    CFragment c_frag[M_TILES][N_TILES];
    for (int i = 0; i < M_TILES; ++i)
        for (int j = 0; j < N_TILES; ++j) wmma::fill_fragment(c_frag[i][j], 0.0f);

    uint4 a_next[Share<BM, BK, THREADS>::COUNT];
    uint4 b_next[Share<BK, BN, THREADS>::COUNT];
    for (int k0 = 0; k0 < K; k0 += BK) {
        // Global to registers: this thread's chunks of eight of A and of B.
        load_chunks<BM, BK, THREADS>(a_next, A, M, K, m0, k0);
        load_chunks<BK, BN, THREADS>(b_next, B, K, N, k0, n0);
        __syncthreads();  // everyone has read the tiles of the last trip

        // Registers to shared.
        store_chunks<BM, BK, THREADS, row_major<BK>>(A_tile[0], a_next);
        store_chunks<BK, BN, THREADS, row_major<BN>>(B_tile[0], b_next);
        __syncthreads();  // both tiles are complete

        for (int k = 0; k < BK; k += 16) {
            // Shared to registers: M_TILES fragments of A and N_TILES of B.
            for (int i = 0; i < M_TILES; ++i)
                wmma::load_matrix_sync(a_frag[i], &A_tile[warp_m + i * 16][k], BK);
            for (int j = 0; j < N_TILES; ++j)
                wmma::load_matrix_sync(b_frag[j], &B_tile[k][warp_n + j * 16], BN);
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
