// As in the lab on register blocking: a patch a thread, one float at a time.
const int BM = 128, BN = 128, BK = 16, TM = 8, TN = 8, THREADS = 256;

extern "C" __global__ void __launch_bounds__(THREADS)
lab6(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float A_tile[BK][BM];
    __shared__ float B_tile[BK][BN];
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int c_row = threadIdx.x / (BN / TN), c_col = threadIdx.x % (BN / TN);  // and every 16th on

    float sum[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int e = threadIdx.x; e < BM * BK; e += THREADS) {
            const int i = e % BM, k = e / BM;
            A_tile[k][i] = m0 + i < M && k0 + k < K ? A[(k0 + k) * M + m0 + i] : 0.0f;
        }
        for (int e = threadIdx.x; e < BK * BN; e += THREADS) {
            const int k = e / BN, j = e % BN;
            B_tile[k][j] = k0 + k < K && n0 + j < N ? B[(k0 + k) * N + n0 + j] : 0.0f;
        }
        __syncthreads();  // complete
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            float a_frag[TM], b_frag[TN];
            for (int i = 0; i < TM; ++i) a_frag[i] = A_tile[k][c_row + i * (BM / TM)];
            for (int j = 0; j < TN; ++j) b_frag[j] = B_tile[k][c_col + j * (BN / TN)];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) sum[i][j] += a_frag[i] * b_frag[j];
        }
        __syncthreads();  // read
    }

    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) {
            const int row = m0 + c_row + i * (BM / TM), col = n0 + c_col + j * (BN / TN);
            if (row < M && col < N) C[size_t(row) * N + col] = sum[i][j];
        }
}
