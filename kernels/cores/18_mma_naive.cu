// The core of 18_mma_naive.cu: mma.sync on fragments that are gathered by hand.
// Whole tiles only: M and N are multiples of 128, K of 32.

#include "common/chunks.cuh"
#include "common/mma.cuh"

using T = __half;

// Two neighbours of a row as one register.
__device__ unsigned pair_along(const T* first)
{
    return *reinterpret_cast<const unsigned*>(first);
}

// Two neighbours of a column as one register, the upper one in the low half.
__device__ unsigned pair_down(const T* first, int row_length)
{
    const unsigned short* element = reinterpret_cast<const unsigned short*>(first);
    return element[0] | unsigned(element[row_length]) << 16;
}

extern "C" __global__ void
mma_naive_core(const T* A, const T* B, float* C, int M, int N, int K)
{
    const int BM = 128, BN = 128, BK = 32, WM = 64, WN = 64;
    const int THREADS = BM / WM * (BN / WN) * 32;  // 4 warps
    const int M_TILES = WM / MMA_M, N_TILES = WN / MMA_N;  // of a warp
    __shared__ __align__(16) T A_tile[BM][BK], B_tile[BK][BN];

    // Origin of the block's tile of C, and of the warp's within it.
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN, warp = threadIdx.x / 32;
    const int warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;
    const int g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;  // place in a fragment

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
            // Shared to registers: 4-byte loads for A, pairs of 2-byte loads for B.
            unsigned a_frag[M_TILES][4], b_frag[N_TILES][2];
            for (int i = 0; i < M_TILES; ++i)
                for (int r = 0; r < 4; ++r)
                    a_frag[i][r] = pair_along(&A_tile[warp_m + i * MMA_M + r % 2 * 8
                                              + g][k + r / 2 * 8 + 2 * t]);
            for (int j = 0; j < N_TILES; ++j)
                for (int r = 0; r < 2; ++r)
                    b_frag[j][r] = pair_down(
                        &B_tile[k + 2 * t + r * 8][warp_n + j * MMA_N + g], BN);

            // Every fragment of A meets every fragment of B.
            for (int i = 0; i < M_TILES; ++i)
                for (int j = 0; j < N_TILES; ++j)
                    mma_m16n8k16<T>(sum[i][j], a_frag[i], b_frag[j]);
        }
    }
    for (int i = 0; i < M_TILES; ++i)  // registers to global, in pairs
        for (int j = 0; j < N_TILES; ++j)
            mma_store(C, M, N, m0 + warp_m + i * MMA_M, n0 + warp_n + j * MMA_N,
                      sum[i][j], true);
}
