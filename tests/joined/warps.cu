#define BM 64
#define BN 64
#define BK 16
#define WN 32
#define TM 4
#define TN 4
extern "C" __global__ void KERNEL(const float* A, const float* B, float* C, int n) {
  __shared__ float a_tile[BK][BM], b_tile[BK][BN];
  const int t = threadIdx.x, warp = t / 32, lane = t % 32;
  const int row = warp / (BN / WN) * 32 + lane / 8 * TM, col = warp % (BN / WN) * WN + lane % 8 * TN;
  float sum[2][TM][TN] = {}, a[2][TM], b[TN];
  for (int k0 = 0; k0 < n; k0 += BK) {
    for (int e = t; e < BM * BK; e += blockDim.x)
      a_tile[e % BK][e / BK] = A[(blockIdx.y * BM + e / BK) * n + k0 + e % BK];
    for (int e = t; e < BK * BN; e += blockDim.x)
      b_tile[e / BN][e % BN] = B[(k0 + e / BN) * n + blockIdx.x * BN + e % BN];
    __syncthreads();
#if UNROLL
#pragma unroll UNROLL
#endif
    for (int k = 0; k < BK; ++k) {
      for (int s = 0; s < 2; ++s)
        for (int i = 0; i < TM; ++i) a[s][i] = a_tile[k][row + s * 16 + i];
      for (int j = 0; j < TN; ++j) b[j] = b_tile[k][col + j];
      for (int s = 0; s < 2; ++s)
        for (int i = 0; i < TM; ++i)
          for (int j = 0; j < TN; ++j) sum[s][i][j] += a[s][i] * b[j];
    }
    __syncthreads();
  }
  for (int s = 0; s < 2; ++s)
    for (int i = 0; i < TM; ++i)
      for (int j = 0; j < TN; ++j)
        C[(blockIdx.y * BM + row + s * 16 + i) * n + blockIdx.x * BN + col + j] = sum[s][i][j];
}
