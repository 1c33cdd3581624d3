#include <cooperative_groups.h>
__global__ void k(int* y) { y[blockIdx.x] = cooperative_groups::this_cluster().num_blocks(); }
void run(int* y) {
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(4); config.blockDim = dim3(1);
    cudaLaunchAttribute given[2];
    given[0].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    given[0].val.programmaticStreamSerializationAllowed = 1;
    given[1].id = cudaLaunchAttributeClusterDimension;
    HOW
    config.attrs = given; config.numAttrs = 2;
    cudaLaunchKernelEx(&config, k, y);
}
int main() { int* y; cudaMalloc(&y, 4 * sizeof(int)); run(y); }
