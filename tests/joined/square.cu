#define TILE 32
extern "C" __global__ void square(const float* A, const float* B, float* C, int n) {
  __shared__ float a_tile[TILE * TILE], b_tile[TILE * TILE];
  const int x = threadIdx.x % TILE, y = threadIdx.x / TILE;
  A += blockIdx.y * TILE * n;
  B += blockIdx.x * TILE;
  float sum = 0.0f;
  for (int k0 = 0; k0 < n; k0 += TILE, A += TILE, B += TILE * n) {
    a_tile[y * TILE + x] = A[y * n + x];
    b_tile[y * TILE + x] = B[y * n + x];
    __syncthreads();
    for (int k = 0; k < TILE; ++k) sum += a_tile[y * TILE + k] * b_tile[k * TILE + x];
    __syncthreads();
  }
  C[(blockIdx.y * TILE + y) * n + blockIdx.x * TILE + x] = sum;
}
