// The core of 18_mma_ldmatrix.cu: one ldmatrix brings a whole 16 x 16 piece.
// Whole tiles only: M and N are multiples of 128, K of 32.

#include "common/chunks.cuh"
#include "common/ldmatrix.cuh"
#include "common/mma.cuh"

using T = __half;

extern "C" __global__ void
mma_ldmatrix_core(const T* A, const T* B, float* C, int M, int N, int K)
{
    const int BM = 128, BN = 128, BK = 32, WM = 64, WN = 64;
    const int THREADS = BM / WM * (BN / WN) * 32;  // 4 warps
    const int M_TILES = WM / MMA_M, N_TILES = WN / MMA_N;  // of a warp
    __shared__ __align__(16) T A_tile[BM][BK], B_tile[BK][BN];

    // Origin of the block's tile of C, and of the warp's within it.
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN, warp = threadIdx.x / 32;
    const int warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;
    const int lane_row = threadIdx.x % 16, lane_col = threadIdx.x % 32 / 16 * 8;

    uint4 a_next[Share<BM, BK, THREADS>::COUNT];
    uint4 b_next[Share<BK, BN, THREADS>::COUNT];
    float sum[M_TILES][N_TILES][4] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        // Global to registers: this thread's chunks of eight of A and of B.
        load_chunks<BM, BK, THREADS>(a_next, A, M, K, m0, k0);
        load_chunks<BK, BN, THREADS>(b_next, B, K, N, k0, n0);
        __syncthreads();  // everyone has read the tiles of the last trip

        // Registers to shared.
        store_chunks<BM, BK, THREADS, row_major<BK>>(&A_tile[0][0], a_next);
        store_chunks<BK, BN, THREADS, row_major<BN>>(&B_tile[0][0], b_next);
        __syncthreads();  // both tiles are complete

        #pragma unroll
        for (int k = 0; k < BK; k += 16) {
            // Shared to registers: one 16 x 16 piece of a tile with each ldmatrix.
            unsigned a_frag[M_TILES][4], b_frag[N_TILES / 2][4];
            for (int i = 0; i < M_TILES; ++i) {
                const int row = warp_m + i * MMA_M + lane_row;
                ldmatrix_x4(a_frag[i], shared_address(&A_tile[row][k + lane_col]));
            }
            for (int j = 0; j < N_TILES / 2; ++j) {
                const T* row = B_tile[k + lane_row];
                const int col = warp_n + j * 2 * MMA_N + lane_col;
                ldmatrix_x4_trans(b_frag[j], shared_address(row + col));
            }

            // Every fragment of A meets every fragment of B.
            for (int i = 0; i < M_TILES; ++i)
                for (int j = 0; j < N_TILES; ++j)
                    mma_m16n8k16<T>(sum[i][j], a_frag[i],
                                    &b_frag[j / 2][j % 2 * 2]);
        }
    }
    for (int i = 0; i < M_TILES; ++i)  // registers to global, in pairs
        for (int j = 0; j < N_TILES; ++j)
            mma_store(C, M, N, m0 + warp_m + i * MMA_M, n0 + warp_n + j * MMA_N,
                      sum[i][j], true);
}
