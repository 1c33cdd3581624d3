// Lab 6: C = A B, as fast as you can. This one is right for every shape, and slow.
// Blocks have THREADS threads; there is one for each BM x BN elements of C. These three
// constants are yours, and so is everything else.
const int BM = 32, BN = 32, BK = 32, THREADS = 256;

extern "C" __global__ void
lab6(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float A_tile[BM][BK + 1];
    __shared__ float B_tile[BK][BN + 1];
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int c_col = threadIdx.x % BN, c_row = threadIdx.x / BN;

    float sum[BM * BN / THREADS] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int e = threadIdx.x; e < BM * BK; e += THREADS) {
            const int i = e % BM, k = e / BM;
            const bool inside = m0 + i < M && k0 + k < K;
            A_tile[i][k] = inside ? A[(k0 + k) * M + m0 + i] : 0.0f;
        }
        for (int e = threadIdx.x; e < BK * BN; e += THREADS) {
            const int k = e / BN, j = e % BN;
            const bool inside = k0 + k < K && n0 + j < N;
            B_tile[k][j] = inside ? B[(k0 + k) * N + n0 + j] : 0.0f;
        }
        __syncthreads();  // both tiles are complete
        for (int k = 0; k < BK; ++k)
            for (int i = 0; i < BM * BN / THREADS; ++i)
                sum[i] += A_tile[c_row + i * (THREADS / BN)][k] * B_tile[k][c_col];
        __syncthreads();  // everyone has read them: they may be overwritten
    }

    for (int i = 0; i < BM * BN / THREADS; ++i) {
        const int row = m0 + c_row + i * (THREADS / BN), col = n0 + c_col;
        if (row < M && col < N) C[row * N + col] = sum[i];
    }
}
