#include <stdio.h>
#include <assert.h>

inline cudaError_t checkCuda(cudaError_t result)
{
#if defined(DEBUG) || defined(_DEBUG)
  if (result != cudaSuccess) {
    fprintf(stderr, "CUDA Runtime Error: %s\n", cudaGetErrorString(result));
    assert(result == cudaSuccess);
  }
#endif
  return result;
}

const int mx = 64;
const int RADIUS = 3;

__global__ void derivative(const float *f, float *df, int n)
{
  __shared__ float s_f[mx + 2 * RADIUS];
  int i = blockIdx.x * mx + threadIdx.x;
  int si = threadIdx.x + RADIUS;
  s_f[si] = f[i];
  if (threadIdx.x < RADIUS) {
    s_f[si - RADIUS] = i - RADIUS >= 0 ? f[i - RADIUS] : 0.0f;
    s_f[si + mx] = i + mx < n ? f[i + mx] : 0.0f;
  }
  __syncthreads();
  float sum = 0.0f;
  for (int r = 1; r <= RADIUS; r++) sum += (s_f[si + r] - s_f[si - r]) / r;
  df[i] = sum;
}

void runTest(int dimension)
{
  float milliseconds;
  cudaEvent_t startEvent;
  checkCuda(cudaEventCreate(&startEvent));
  derivative<<<1, mx>>>(0, 0, 64);
}

int main(void)
{
  runTest(0);
  return 0;
}
