#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <c10/cuda/CUDAStream.h>

using bf16 = __nv_bfloat16;

__global__ void gemv(const bf16 *__restrict__ W, const bf16 *__restrict__ x, float *__restrict__ y, int n) {
    float sum = 0.0f;
    for (int i = threadIdx.x; i < n; i += warpSize)
        sum += __bfloat162float(W[blockIdx.x * n + i]) * __bfloat162float(x[i]);
    for (int o = warpSize / 2; o > 0; o >>= 1) sum += __shfl_down_sync(~0u, sum, o);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}
