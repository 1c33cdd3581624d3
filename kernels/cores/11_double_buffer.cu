// The core of 11_double_buffer.cu: the next tiles go where nobody reads.
// Whole tiles only: M and N are multiples of 128, K of 8.

#include "common/vector.cuh"

extern "C" __global__ void
double_buffer_core(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8;  // 256 threads
    __shared__ __align__(16) float A_tile[2][BK][BM + 4];
    __shared__ __align__(16) float B_tile[2][BK][BN];

    // Origin of the block's tile of C; what this thread copies; what it computes.
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int a_row = threadIdx.x / (BK / 4), a_col = threadIdx.x % (BK / 4) * 4;
    const int b_row = threadIdx.x / (BN / 4), b_col = threadIdx.x % (BN / 4) * 4;
    const int c_row = threadIdx.x / (BN / TN) * TM;
    const int c_col = threadIdx.x % (BN / TN) * 4;
    const float* A_src = A + (m0 + a_row) * K + a_col;
    const float* B_src = B + b_row * N + n0 + b_col;

    // Global to registers: this thread's part of the first tiles.
    float4 a_next = load4<true>(A_src, 4);
    float4 b_next = load4<true>(B_src, 4);

    __align__(16) float sum[TM][TN] = {};
    for (int k0 = 0, buffer = 0; k0 < K; k0 += BK, buffer = 1 - buffer) {
        // Registers to shared, into the buffer that nobody reads any more.
        A_tile[buffer][a_col + 0][a_row] = a_next.x;
        A_tile[buffer][a_col + 1][a_row] = a_next.y;
        A_tile[buffer][a_col + 2][a_row] = a_next.z;
        A_tile[buffer][a_col + 3][a_row] = a_next.w;
        vec4(&B_tile[buffer][b_row][b_col]) = b_next;
        __syncthreads();  // this buffer is complete, everyone has left the other

        // Global to registers: the next tiles. Nothing is left after the last.
        a_next = load4<true>(A_src + k0 + BK, K - (k0 + BK));
        b_next = load4<true>(B_src + (k0 + BK) * N, K - (k0 + BK));

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            // Shared to registers: TM elements of A and TN of B, in fours.
            __align__(16) float a_frag[TM], b_frag[TN];
            for (int i = 0; i < TM; i += 4)
                vec4(&a_frag[i]) = vec4(&A_tile[buffer][k][c_row + i]);
            for (int j = 0; j < TN; j += 4)
                vec4(&b_frag[j]) = vec4(&B_tile[buffer][k][c_col + j * (BN / TN)]);

            // Registers only: their outer product.
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j)
                    sum[i][j] += a_frag[i] * b_frag[j];
        }
    }
    for (int i = 0; i < TM; ++i)  // registers to global, in fours
        for (int j = 0; j < TN; j += 4)
            vec4(&C[(m0 + c_row + i) * N + n0 + c_col + j * (BN / TN)])
                = vec4(&sum[i][j]);
}
