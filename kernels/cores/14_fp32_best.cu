// The core of 14_fp32_best.cu: a ring of three tiles that cp.async fills.
// Whole tiles only: M is a multiple of 128, N of 256, K of 8.

#include "common/cp_async.cuh"
#include "common/vector.cuh"

extern "C" __global__ void
fp32_best_core(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int BM = 128, BN = 256, BK = 8, WM = 64, WN = 64, TM = 16, TN = 8;
    const int LANES_M = WM / TM, LANES_N = WN / TN;  // of a warp, down and across
    const int STAGES = 3, THREADS = (BM / TM) * (BN / TN);  // 256
    __shared__ __align__(16) float A_tile[STAGES][BK][BM + 4];
    __shared__ __align__(16) float B_tile[STAGES][BK][BN];

    // Origin of the block's tile of C; what this thread copies; what it computes.
    const int m0 = blockIdx.x % (M / BM) * BM, n0 = blockIdx.x / (M / BM) * BN;
    const int a_row = threadIdx.x / BK, a_col = threadIdx.x % BK;
    const int b_row = threadIdx.x / (BN / 4), b_col = threadIdx.x % (BN / 4) * 4;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;  // 8 warps
    const int lane_m = lane / 2 % LANES_M;
    const int lane_n = lane / (2 * LANES_M) * 2 + lane % 2;
    const int c_row = warp / (BN / WN) * WM + lane_m * 4;
    const int c_col = warp % (BN / WN) * WN + lane_n * 4;

    // Global to shared, asynchronously: this thread's part of the tiles at k0.
    const auto copy = [&](int k0) {
        const int stage = k0 / BK % STAGES;
        for (int i = a_row; i < BM; i += THREADS / BK)
            copy_async<1>(&A_tile[stage][a_col][i],
                          A + (m0 + i) * K + k0 + a_col, k0 < K);
        for (int i = b_row; i < BK; i += THREADS / (BN / 4))
            copy_async<4>(&B_tile[stage][i][b_col],
                          B + (k0 + i) * N + n0 + b_col, k0 < K);
        commit_group();
    };

    __align__(16) float sum[TM][TN] = {};
    for (int k0 = 0; k0 < (STAGES - 1) * BK; k0 += BK) copy(k0);
    for (int k0 = 0; k0 < K; k0 += BK) {
        wait_groups<STAGES - 2>();  // this thread's copies of these tiles are there
        __syncthreads();            // everyone's are, and the last place is free
        copy(k0 + (STAGES - 1) * BK);

        const int stage = k0 / BK % STAGES;
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            // Shared to registers: TM elements of A and TN of B, in fours.
            __align__(16) float a_frag[TM], b_frag[TN];
            for (int i = 0; i < TM; i += 4)
                vec4(&a_frag[i]) = vec4(&A_tile[stage][k][c_row + i * LANES_M]);
            for (int j = 0; j < TN; j += 4)
                vec4(&b_frag[j]) = vec4(&B_tile[stage][k][c_col + j * LANES_N]);

            // Registers only: their outer product.
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j)
                    sum[i][j] += a_frag[i] * b_frag[j];
        }
    }
    for (int i = 0; i < TM; ++i)  // registers to global, in fours
        for (int j = 0; j < TN; j += 4)
            vec4(&C[(m0 + c_row + i / 4 * 4 * LANES_M + i % 4) * N + n0 + c_col
                    + j * LANES_N]) = vec4(&sum[i][j]);
}
