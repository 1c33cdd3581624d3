// The core of 08_block_1d.cu: a thread computes a column of TM elements of C.
// Whole tiles only: M and N are multiples of 64, K of 8.

extern "C" __global__ void
block_1d_core(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int BM = 64, BN = 64, BK = 8, TM = 8;  // 512 threads
    __shared__ float A_tile[BM][BK];
    __shared__ float B_tile[BK][BN];

    // Origin of the block's tile of C; what this thread copies; what it computes.
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int a_row = threadIdx.x / BK, a_col = threadIdx.x % BK;
    const int b_row = threadIdx.x / BN, b_col = threadIdx.x % BN;
    const int c_row = threadIdx.x / BN * TM, c_col = threadIdx.x % BN;

    float sum[TM] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        // Global to shared: one element of A and one of B.
        A_tile[a_row][a_col] = A[(m0 + a_row) * K + k0 + a_col];
        B_tile[b_row][b_col] = B[(k0 + b_row) * N + n0 + b_col];
        __syncthreads();  // both tiles are complete

        for (int k = 0; k < BK; ++k) {
            // Shared to registers: one element of B for TM of A.
            const float b_frag = B_tile[k][c_col];
            for (int i = 0; i < TM; ++i) {
                sum[i] += A_tile[c_row + i][k] * b_frag;
            }
        }
        __syncthreads();  // everyone has read them: they may be overwritten
    }
    for (int i = 0; i < TM; ++i) {
        C[(m0 + c_row + i) * N + n0 + c_col] = sum[i];  // registers to global
    }
}
