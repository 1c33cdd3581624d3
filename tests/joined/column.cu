#define BM 64
#define BN 64
#define BK 8
#define TM 8
extern "C" __global__ void column(const float* A, const float* B, float* C, int n) {
  __shared__ float a_tile[BM * BK];
  __shared__ float b_tile[BK * BN];
  const int t = threadIdx.x, col = t % BN, row = t / BN;
  A += blockIdx.y * BM * n;
  B += blockIdx.x * BN;
  float sum[TM] = {0};
  for (int k0 = 0; k0 < n; k0 += BK) {
    a_tile[t] = A[t / BK * n + t % BK];
    b_tile[t] = B[t / BN * n + t % BN];
    __syncthreads();
    A += BK;
    B += BK * n;
    for (int k = 0; k < BK; ++k) {
      const float b = b_tile[k * BN + col];
      for (int i = 0; i < TM; ++i) sum[i] += a_tile[(row * TM + i) * BK + k] * b;
    }
    __syncthreads();
  }
  for (int i = 0; i < TM; ++i)
    C[(blockIdx.y * BM + row * TM + i) * n + blockIdx.x * BN + col] = sum[i];
}
