// The core of 13_warp_tiled.cu: fragments are read one step of k ahead.
// Whole tiles only: M is a multiple of 128, N of 256, K of 8.

#include "common/vector.cuh"

extern "C" __global__ void
warp_tiled_core(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int BM = 128, BN = 256, BK = 8, WM = 64, WN = 64, TM = 16, TN = 8;
    const int LANES_M = WM / TM, LANES_N = WN / TN;  // of a warp, down and across
    const int THREADS = BM / WM * (BN / WN) * 32;
    const int A_ROWS = THREADS / BK, B_ROWS = THREADS / (BN / 4);  // in one pass
    __shared__ __align__(16) float A_tile[2][BK][BM + 4];
    __shared__ __align__(16) float B_tile[2][BK][BN];

    // Origin of the block's tile of C; what this thread copies; what it computes.
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int a_m = threadIdx.x / BK, a_k = threadIdx.x % BK;
    const int b_k = threadIdx.x / (BN / 4), b_n = threadIdx.x % (BN / 4) * 4;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int lane_m = lane / 2 % LANES_M;
    const int lane_n = lane / (2 * LANES_M) * 2 + lane % 2;
    const int c_row = warp / (BN / WN) * WM + lane_m * 4;
    const int c_col = warp % (BN / WN) * WN + lane_n * 4;

    // Global to registers: single elements of A, fours of B.
    float a_next[BM / A_ROWS];
    float4 b_next[BK / B_ROWS];
    const auto fetch = [&](int k0) {
        for (int i = 0; i < BM / A_ROWS; ++i)
            a_next[i] = A[(m0 + a_m + i * A_ROWS) * K + k0 + a_k];
        for (int i = 0; i < BK / B_ROWS; ++i)
            b_next[i] = load4<true>(&B[(k0 + b_k + i * B_ROWS) * N + n0 + b_n], 4);
    };
    // Shared to registers: the fragments of one k, into one of two sets.
    __align__(16) float sum[TM][TN] = {}, a_frag[2][TM], b_frag[2][TN];
    const auto read_frags = [&](int buffer, int k) {
        for (int i = 0; i < TM; i += 4)
            vec4(&a_frag[k % 2][i]) = vec4(&A_tile[buffer][k][c_row + i * LANES_M]);
        for (int j = 0; j < TN; j += 4)
            vec4(&b_frag[k % 2][j]) = vec4(&B_tile[buffer][k][c_col + j * LANES_N]);
    };

    fetch(0);
    for (int k0 = 0, buffer = 0; k0 < K; k0 += BK, buffer = 1 - buffer) {
        // Registers to shared, into the buffer that nobody reads any more.
        for (int i = 0; i < BM / A_ROWS; ++i)
            A_tile[buffer][a_k][a_m + i * A_ROWS] = a_next[i];
        for (int i = 0; i < BK / B_ROWS; ++i)
            vec4(&B_tile[buffer][b_k + i * B_ROWS][b_n]) = b_next[i];
        __syncthreads();  // this buffer is complete, everyone has left the other
        if (k0 + BK < K) fetch(k0 + BK);

        read_frags(buffer, 0);
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            if (k + 1 < BK) read_frags(buffer, k + 1);  // ahead
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j)
                    sum[i][j] += a_frag[k % 2][i] * b_frag[k % 2][j];
        }
    }
    for (int i = 0; i < TM; ++i)  // registers to global, in fours
        for (int j = 0; j < TN; j += 4)
            vec4(&C[(m0 + c_row + i / 4 * 4 * LANES_M + i % 4) * N + n0 + c_col
                    + j * LANES_N]) = vec4(&sum[i][j]);
}
