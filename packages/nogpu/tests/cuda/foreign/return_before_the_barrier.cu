__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[16][16], b[16][16];
    const int m = blockIdx.y * 16 + threadIdx.y, n = blockIdx.x * 16 + threadIdx.x;
    if (m >= M || n >= N) return;
    float sum = 0;
    for (int k = 0; k < K; k += 16) {
        a[threadIdx.y][threadIdx.x] = k + threadIdx.x < K ? A[m * K + k + threadIdx.x] : 0;
        b[threadIdx.y][threadIdx.x] = k + threadIdx.y < K ? B[(k + threadIdx.y) * N + n] : 0;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += a[threadIdx.y][i] * b[i][threadIdx.x];
        __syncthreads();
    }
    C[m * N + n] = sum;
}
