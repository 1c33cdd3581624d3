__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float sums[32];
    const int n = blockIdx.x * 32 + threadIdx.x, m = blockIdx.y;
    if (threadIdx.y == 0) sums[threadIdx.x] = 0;
    __syncthreads();
    if (n < N)
        for (int k = threadIdx.y; k < K; k += blockDim.y)
            atomicAdd(&sums[threadIdx.x], A[m * K + k] * B[k * N + n]);
    __syncthreads();
    if (threadIdx.y == 0 && n < N) C[m * N + n] = sums[threadIdx.x];
}
