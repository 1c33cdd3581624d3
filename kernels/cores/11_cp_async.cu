// The core of 11_cp_async.cu: copies to shared memory that pass no register.
// Whole tiles only: M and N are multiples of 128, K of 8.

#include "common/cp_async.cuh"
#include "common/vector.cuh"

extern "C" __global__ void
cp_async_core(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8;
    const int THREADS = (BM / TM) * (BN / TN);  // 256
    __shared__ __align__(16) float A_tile[2][BK][BM + 4];
    __shared__ __align__(16) float B_tile[2][BK][BN];

    // Origin of the block's tile of C; what this thread copies; what it computes.
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int a_row = threadIdx.x / BK, a_col = threadIdx.x % BK;
    const int b_row = threadIdx.x / (BN / 4), b_col = threadIdx.x % (BN / 4) * 4;
    const int c_row = threadIdx.x / (BN / TN) * TM;
    const int c_col = threadIdx.x % (BN / TN) * 4;
    const float* A_src = A + m0 * K + a_col;
    const float* B_src = B + n0 + b_col;

    // Global to shared, asynchronously: elements of A, transposed, and fours of B.
    const auto copy = [&](int stage, int k0) {
        for (int i = a_row; i < BM; i += THREADS / BK)
            copy_async<1>(&A_tile[stage][a_col][i], A_src + i * K + k0, true);
        for (int i = b_row; i < BK; i += THREADS / (BN / 4))
            copy_async<4>(&B_tile[stage][i][b_col], B_src + (k0 + i) * N, true);
    };

    __align__(16) float sum[TM][TN] = {};
    copy(0, 0);
    for (int k0 = 0, stage = 0; k0 < K; k0 += BK, stage = 1 - stage) {
        commit_group();
        wait_groups<0>();  // this thread's copies into this stage have arrived
        __syncthreads();   // everyone's have, and everyone has left the other
        if (k0 + BK < K) copy(1 - stage, k0 + BK);

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            // Shared to registers: TM elements of A and TN of B, in fours.
            __align__(16) float a_frag[TM], b_frag[TN];
            for (int i = 0; i < TM; i += 4)
                vec4(&a_frag[i]) = vec4(&A_tile[stage][k][c_row + i]);
            for (int j = 0; j < TN; j += 4)
                vec4(&b_frag[j]) = vec4(&B_tile[stage][k][c_col + j * (BN / TN)]);

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
