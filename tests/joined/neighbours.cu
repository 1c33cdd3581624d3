extern "C" __global__ void neighbours(const float* A, const float* B, float* C, int n) {
  __shared__ float row[256];
  __shared__ double pairs[256];
  __shared__ short small[256];
  const int t = threadIdx.x;
  for (int i = 0; i < 2; ++i) {
    row[2 * t + i] = A[blockIdx.x * n + t];
    pairs[2 * t + i] = B[blockIdx.x * n + t];
    small[2 * t + i] = i;
  }
  __syncthreads();
  const float first = row[2 * t];
  const float second = row[2 * t + 1];
  const double both = pairs[2 * t] - pairs[2 * t + 1];
  const float inner = t > 0 && t < 127 ? row[2 * t - 1] + row[2 * t] + row[2 * t + 1] : 0.0f;
  C[blockIdx.x * n + t] = first - second + (float)both + small[2 * t] - small[2 * t + 1] + inner;
}
