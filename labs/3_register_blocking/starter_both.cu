// Lab 3: C = A B in tiles of shared memory; each thread computes TM x TN elements in registers.
// A block computes BM x BN elements of C, with (BM / TM) * (BN / TN) threads. Choose all five.
/* table
   BM, BN, BK, TM, TN, threads, shared, sectors, reads, blocks
   16, 16, 16,  1,  1,     256,   2048,     ...,   ...,    ...
*/
extern "C" __global__ void
lab3(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int BM = 16, BN = 16, BK = 16;
    const int TM = 1, TN = 1;
    const int THREADS = (BM / TM) * (BN / TN);
    __shared__ float A_tile[BK][BM];
    __shared__ float B_tile[BK][BN];
    const int t = threadIdx.x;
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;

    for (int k0 = 0; k0 < K; k0 += BK) {
        for (int e = t; e < BM * BK; e += THREADS) {
            const int k = e / BM, m = e % BM;  // neighbours along m, as A lies
            A_tile[k][m] = k0 + k < K && m0 + m < M ? A[(k0 + k) * M + m0 + m] : 0.0f;
        }
        for (int e = t; e < BN * BK; e += THREADS) {
            const int n = e / BK, k = e % BK;  // neighbours along k, as B lies
            B_tile[k][n] = k0 + k < K && n0 + n < N ? B[(n0 + n) * K + k0 + k] : 0.0f;
        }

        // Multiply: at each k, TM values of A_tile with TN values of B_tile.
    }

    // Store the patch.
}
