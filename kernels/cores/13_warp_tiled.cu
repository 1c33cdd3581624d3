// The core of 13_warp_tiled.cu: fragments are read one step of k ahead.
// Whole tiles only: M is a multiple of 128, N of 256, K of 8.

#include "common/vector.cuh"

extern "C" __global__ void
warp_tiled_core(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int BM = 128, BN = 256, BK = 8, WM = 64, WN = 64, TM = 16, TN = 8;
    const int LANES_M = WM / TM, LANES_N = WN / TN;  // of a warp, down and across
    __shared__ __align__(16) float A_tile[2][BK][BM + 4];
    __shared__ __align__(16) float B_tile[2][BK][BN];

    // Origin of the block's tile of C; what this thread copies; what it computes.
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int a_row = threadIdx.x / (BK / 4), a_col = threadIdx.x % (BK / 4) * 4;
    const int b_row = threadIdx.x / (BN / 4), b_col = threadIdx.x % (BN / 4) * 4;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;  // 8 warps
    const int lane_m = lane / 2 % LANES_M;
    const int lane_n = lane / (2 * LANES_M) * 2 + lane % 2;
    const int c_row = warp / (BN / WN) * WM + lane_m * 4;
    const int c_col = warp % (BN / WN) * WN + lane_n * 4;
    const float* A_src = A + (m0 + a_row) * K + a_col;
    const float* B_src = B + b_row * N + n0 + b_col;

    // Shared to registers: the fragments of one k, into one of two sets.
    __align__(16) float a_frag[2][TM], b_frag[2][TN];
    const auto read_frags = [&](int buffer, int k) {
        for (int i = 0; i < TM; i += 4)
            vec4(&a_frag[k % 2][i]) = vec4(&A_tile[buffer][k][c_row + i * LANES_M]);
        for (int j = 0; j < TN; j += 4)
            vec4(&b_frag[k % 2][j]) = vec4(&B_tile[buffer][k][c_col + j * LANES_N]);
    };

    // Global to registers: one four of the first tile of A, two of the tile of B.
    float4 a_next = load4<true>(A_src, 4);
    float4 b_next[2] = {load4<true>(B_src, 4), load4<true>(B_src + 4 * N, 4)};

    __align__(16) float sum[TM][TN] = {};
    for (int k0 = 0, buffer = 0; k0 < K; k0 += BK, buffer = 1 - buffer) {
        // Registers to shared, into the buffer that nobody reads any more.
        A_tile[buffer][a_col + 0][a_row] = a_next.x;
        A_tile[buffer][a_col + 1][a_row] = a_next.y;
        A_tile[buffer][a_col + 2][a_row] = a_next.z;
        A_tile[buffer][a_col + 3][a_row] = a_next.w;
        for (int i = 0; i < 2; ++i)
            vec4(&B_tile[buffer][b_row + i * 4][b_col]) = b_next[i];
        __syncthreads();  // this buffer is complete, everyone has left the other

        // Global to registers: the next tiles. Nothing is left after the last.
        a_next = load4<true>(A_src + k0 + BK, K - (k0 + BK));
        for (int i = 0; i < 2; ++i)
            b_next[i] = load4<true>(B_src + (k0 + BK + i * 4) * N, K - (k0 + BK));

        read_frags(buffer, 0);
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            if (k + 1 < BK) read_frags(buffer, k + 1);  // ahead

            // Registers only: the outer product of this k.
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
