// Lab 4: C = A B, each thread a 4 x 4 patch of C in registers. It is right for every shape
// and its loads are coalesced, but everything moves one float at a time, and lanes meet in banks.
// Blocks have 256 threads; there is one for each 64 x 64 elements of C.
const int BM = 64, BN = 64, BK = 16, TM = 4, TN = 4, THREADS = 256;

extern "C" __global__ void
lab4(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float A_tile[BM][BK];
    __shared__ float B_tile[BK][BN];

    const int m0 = blockIdx.y * BM;  // origin of the block's tile of C
    const int n0 = blockIdx.x * BN;
    const int c_row = threadIdx.x / (BN / TN) * TM;  // the thread's patch within it
    const int c_col = threadIdx.x % (BN / TN) * TN;

    float sum[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        // Global to shared; zero where a tile leaves the matrix.
        for (int e = threadIdx.x; e < BM * BK; e += THREADS) {
            const int i = e % BM, k = e / BM;
            const bool inside = m0 + i < M && k0 + k < K;
            A_tile[i][k] = inside ? A[(k0 + k) * M + m0 + i] : 0.0f;
        }
        for (int e = threadIdx.x; e < BK * BN; e += THREADS) {
            const int k = e % BK, j = e / BK;
            const bool inside = k0 + k < K && n0 + j < N;
            B_tile[k][j] = inside ? B[(n0 + j) * K + k0 + k] : 0.0f;
        }
        __syncthreads();  // both tiles are complete

        for (int k = 0; k < BK; ++k) {
            float a_frag[TM], b_frag[TN];  // shared to registers
            for (int i = 0; i < TM; ++i) a_frag[i] = A_tile[c_row + i][k];
            for (int j = 0; j < TN; ++j) b_frag[j] = B_tile[k][c_col + j];
            for (int i = 0; i < TM; ++i)
                for (int j = 0; j < TN; ++j) sum[i][j] += a_frag[i] * b_frag[j];
        }
        __syncthreads();  // everyone has read them: they may be overwritten
    }

    for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) {
            const int row = m0 + c_row + i, col = n0 + c_col + j;
            if (row < M && col < N) C[row * N + col] = sum[i][j];
        }
}
