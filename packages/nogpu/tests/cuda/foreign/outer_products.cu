__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float column[16];
    __shared__ float line[16];
    const int m0 = blockIdx.y * 16, n0 = blockIdx.x * 16;
    float sum = 0;
    for (int k = 0; k < K; ++k) {
        if (threadIdx.y == 0) {
            column[threadIdx.x] = m0 + threadIdx.x < M ? A[(m0 + threadIdx.x) * K + k] : 0;
        } else if (threadIdx.y == 8) {
            line[threadIdx.x] = n0 + threadIdx.x < N ? B[k * N + n0 + threadIdx.x] : 0;
        }
        __syncthreads();
        sum += column[threadIdx.y] * line[threadIdx.x];
        __syncthreads();
    }
    const int m = m0 + threadIdx.y, n = n0 + threadIdx.x;
    if (m < M && n < N) C[m * N + n] = sum;
}
