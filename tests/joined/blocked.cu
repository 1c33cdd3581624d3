#define BM 64
#define BN 64
#define BK 8
#define TM 8
#define TN 8
extern "C" __global__ void KERNEL(const float* A, const float* B, float* C, int n) {
  __shared__ float a_tile[A_SIZE];
  __shared__ float b_tile[BK * BN];
  const int t = threadIdx.x, row = t / (BN / TN) * TM, col = t % (BN / TN) * TN;
  const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
  float sum[TM][TN] = {}, a[TM], b[TN];
  for (int k0 = 0; k0 < n; k0 += BK) {
    for (int e = t; e < BM * BK; e += blockDim.x)
      a_tile[A_AT(e / BK, e % BK)] = A[(m0 + e / BK) * n + k0 + e % BK];
    for (int e = t; e < BK * BN; e += blockDim.x) b_tile[e] = B[(k0 + e / BN) * n + n0 + e % BN];
    __syncthreads();
#if UNROLL
#pragma unroll UNROLL
#endif
    for (int k = 0; k < BK; ++k) {
      for (int i = 0; i < TM; ++i) a[i] = VOLATILE a_tile[A_AT(row + i, k)];
      for (int j = 0; j < TN; ++j) b[j] = b_tile[k * BN + col + j];
      for (int i = 0; i < TM; ++i)
        for (int j = 0; j < TN; ++j) sum[i][j] += a[i] * b[j];
    }
    __syncthreads();
  }
  for (int i = 0; i < TM; ++i)
    for (int j = 0; j < TN; ++j) C[(m0 + row + i) * n + n0 + col + j] = sum[i][j];
}
