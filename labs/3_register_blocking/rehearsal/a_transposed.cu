/* table
   BM, BN, BK, TM, TN, threads, shared, sectors, reads, blocks
   64, 64, 16,  8,  8,      64,   8192,   0.125,  0.25,      8
  128, 64, 16,  8,  8,     128,  12288,   0.094,  0.25,      4
   32, 64, 16,  8,  8,      32,   6144,   0.188,  0.25,     10
*/
extern "C" __global__ void
lab3(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int BM = 64, BN = 64, BK = 16;
    const int TM = 8, TN = 8;
    const int ROWS = BM / TM, COLS = BN / TN;  // threads of a block, down and across
    __shared__ float A_tile[BK][BM];
    __shared__ float B_tile[BK][BN];
    const int t = threadIdx.x;
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int ty = t / COLS, tx = t % COLS;

    float sum[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int e = t; e < BM * BK; e += ROWS * COLS) {
            const int k = e / BM, m = e % BM;  // neighbours along m, as A lies
            A_tile[k][m] = k0 + k < K && m0 + m < M ? A[(k0 + k) * M + m0 + m] : 0.0f;
        }
        for (int e = t; e < BN * BK; e += ROWS * COLS) {
            const int k = e / BN, n = e % BN;  // neighbours along n, as B lies
            B_tile[k][n] = k0 + k < K && n0 + n < N ? B[(k0 + k) * N + n0 + n] : 0.0f;
        }
        __syncthreads();  // complete
        for (int k = 0; k < BK; ++k) {
            float a_frag[TM], b_frag[TN];
            for (int i = 0; i < TM; ++i) a_frag[i] = A_tile[k][ty + i * ROWS];
            for (int j = 0; j < TN; ++j) b_frag[j] = B_tile[k][tx + j * COLS];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) sum[i][j] += a_frag[i] * b_frag[j];
        }
        __syncthreads();  // read
    }

    for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; ++j) {
            const int row = m0 + ty + i * ROWS, col = n0 + tx + j * COLS;
            if (row < M && col < N) C[row * N + col] = sum[i][j];
        }
    }
}
