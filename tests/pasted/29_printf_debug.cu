#include <cstdio>
#include <cuda_runtime.h>

__global__ void hello(int *out) {
    if (threadIdx.x == 0) printf("block %d says hello\n", blockIdx.x);
    out[blockIdx.x * blockDim.x + threadIdx.x] = threadIdx.x;
}

int main() {
    hello<<<2, 4>>>(nullptr);
    cudaDeviceSynchronize();
    printf("done\n");
    return 0;
}
