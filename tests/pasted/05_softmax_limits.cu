#include <cfloat>
#include <cmath>
#include <cstdint>
#include <cuda_runtime.h>

__device__ __forceinline__ float warp_max(float v) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) v = fmaxf(v, __shfl_xor_sync(0xffffffff, v, mask, 32));
  return v;
}
__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
  for (int mask = 16; mask > 0; mask >>= 1) v += __shfl_xor_sync(0xffffffff, v, mask, 32);
  return v;
}

// one warp, one row
__global__ void softmax_rows(const float *__restrict__ in, float *__restrict__ out, int64_t cols) {
  const float *row = in + blockIdx.x * cols;
  float m = -FLT_MAX;
  for (int c = threadIdx.x; c < cols; c += 32) m = max(m, row[c]);
  m = warp_max(m);
  float s = 0.f;
  for (int c = threadIdx.x; c < cols; c += 32) s += expf(row[c] - m);
  s = warp_sum(s);
  for (int c = threadIdx.x; c < cols; c += 32) out[blockIdx.x * cols + c] = expf(row[c] - m) / s;
}

static float host_reference(const float *row, int n) {
  float m = -INFINITY;
  for (int i = 0; i < n; i++) m = fmaxf(m, row[i]);
  return m;
}
