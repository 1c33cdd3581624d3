__device__ int locks[64];
extern "C" __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    int row = blockIdx.y * 8 + threadIdx.y, col = blockIdx.x * 8 + threadIdx.x;
    int step = (K + gridDim.z - 1) / gridDim.z, z = blockIdx.z;
    int* lock = &locks[blockIdx.y * gridDim.x + blockIdx.x];
    bool first = threadIdx.x == 0 && threadIdx.y == 0;
    float sum = part_of(A, B, row, col, z * step, (z + 1) * step, M, N, K);
    if (first) {
        while (atomicCAS(lock, 0, 1) != 0) __nanosleep(32);
        __threadfence();
    }
    __syncthreads();
    if (row < M && col < N) C[row * N + col] += sum;
    __syncthreads();
    if (first) {
        __threadfence();
        atomicExch(lock, 0);
    }
}
