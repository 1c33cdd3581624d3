// The core of 09_block_2d.cu: a thread computes a TM x TN patch of C.
// Whole tiles only: M and N are multiples of 128, K of 8.

extern "C" __global__ void
block_2d_core(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int BM = 128, BN = 128, BK = 8, TM = 8, TN = 8;
    const int THREADS = (BM / TM) * (BN / TN);  // 256
    __shared__ float A_tile[BM][BK];
    __shared__ float B_tile[BK][BN];

    // Origin of the block's tile of C; what this thread copies; what it computes.
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int a_row = threadIdx.x / BK, a_col = threadIdx.x % BK;
    const int b_row = threadIdx.x / BN, b_col = threadIdx.x % BN;
    const int c_row = threadIdx.x / (BN / TN) * TM;
    const int c_col = threadIdx.x % (BN / TN) * TN;

    float sum[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        // Global to shared: one element of some rows of A, and of B.
        for (int i = a_row; i < BM; i += THREADS / BK)
            A_tile[i][a_col] = A[(m0 + i) * K + k0 + a_col];
        for (int i = b_row; i < BK; i += THREADS / BN)
            B_tile[i][b_col] = B[(k0 + i) * N + n0 + b_col];
        __syncthreads();  // both tiles are complete

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            // Shared to registers: TM elements of A and TN of B.
            float a_frag[TM], b_frag[TN];
            for (int i = 0; i < TM; ++i) a_frag[i] = A_tile[c_row + i][k];
            for (int j = 0; j < TN; ++j) b_frag[j] = B_tile[k][c_col + j];

            // Registers only: their outer product.
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j)
                    sum[i][j] += a_frag[i] * b_frag[j];
        }
        __syncthreads();  // everyone has read them: they may be overwritten
    }
    for (int i = 0; i < TM; ++i)  // registers to global
        for (int j = 0; j < TN; ++j)
            C[(m0 + c_row + i) * N + n0 + c_col + j] = sum[i][j];
}
