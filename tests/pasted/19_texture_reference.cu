#include <cuda_runtime.h>
#include <stdio.h>

__global__ void sample(cudaTextureObject_t tex, float *out, int w) {
    int x = blockIdx.x * blockDim.x + threadIdx.x;
    out[x] = tex2D<float>(tex, x + 0.5f, 0.5f);
}

int main() { sample<<<1, 32>>>(0, nullptr, 32); }
