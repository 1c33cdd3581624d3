// The core of 19_mma_pipelined.cu: a ring of tiles that cp.async fills.
// Whole tiles only: M is a multiple of 128, N of 256, K of 32.

#include "common/chunks_async.cuh"
#include "common/fragments.cuh"
#include "common/tile_order.cuh"

using T = __half;

extern "C" __global__ void
mma_pipelined_core(const T* A, const T* B, float* C, int M, int N, int K)
{
    const int BM = 128, BN = 256, BK = 32, WM = 64, WN = 64;
    const int STAGES = 4, GROUP_M = 8, THREADS = BM / WM * (BN / WN) * 32;
    const int M_TILES = WM / MMA_M, N_TILES = WN / MMA_N, SLOT = (BM + BN) * BK;
    extern __shared__ __align__(1024) T ring[];  // STAGES times tiles of A and B

    // Origin of the block's tile of C, and of the warp's within it.
    const TileIndex tile = tile_at<GROUP_M>(blockIdx.x, M / BM, N / BN);
    const int m0 = tile.row * BM, n0 = tile.col * BN, warp = threadIdx.x / 32;
    const int warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;
    const int a_col = threadIdx.x % 4 * 8, b_col = threadIdx.x % 8 * 8;

    // Global to shared, asynchronously: this thread's chunks of the tiles at k0.
    const auto copy = [&](int k0) {
        T* A_tile = ring + k0 / BK % STAGES * SLOT;
        T* B_tile = A_tile + BM * BK;
        for (int row = threadIdx.x / 4; row < BM; row += THREADS / 4)
            copy_chunk(shared_address(A_tile + swizzled<BK>(row, a_col)),
                       A + (m0 + row) * K + k0 + a_col, k0 < K);
        for (int row = threadIdx.x / 8; row < BK; row += THREADS / 8)
            for (int col = b_col; col < BN; col += 64)
                copy_chunk(shared_address(B_tile + swizzled<BN>(row, col)),
                           B + (k0 + row) * N + n0 + col, k0 < K);
        commit_group();
    };

    float sum[M_TILES][N_TILES][4] = {};
    for (int k0 = 0; k0 < (STAGES - 1) * BK; k0 += BK) copy(k0);
    for (int k0 = 0; k0 < K; k0 += BK) {
        wait_groups<STAGES - 2>();  // this thread's copies of these tiles are there
        __syncthreads();            // everyone's are, and the last slot is free
        copy(k0 + (STAGES - 1) * BK);

        const T* A_tile = ring + k0 / BK % STAGES * SLOT;
        const unsigned a_lane = a_address<BK>(A_tile, warp_m);
        const unsigned b_lane = b_address<BN>(A_tile + BM * BK, warp_n);
        #pragma unroll
        for (int k = 0; k < BK; k += 16) {
            // Shared to registers; then every fragment of A meets every one of B.
            unsigned a_frag[M_TILES][4], b_frag[N_TILES / 2][4];
            load_fragments<BK, BN>(a_frag, b_frag, a_lane, b_lane, k);
            multiply<T, 16>(sum, a_frag, b_frag);
        }
    }
    for (int i = 0; i < M_TILES; ++i)  // registers to global, in pairs
        for (int j = 0; j < N_TILES; ++j)
            mma_store(C, M, N, m0 + warp_m + i * MMA_M, n0 + warp_n + j * MMA_N,
                      sum[i][j], true);
}
