__constant__ float factor[4096];
__global__ void mm(const float* A, float* C, int M, int N, int K) {
    const int n = blockIdx.x * 32 + threadIdx.x, m = blockIdx.y * 4 + threadIdx.y;
    if (m >= M || n >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[m * K + k] * factor[k * N + n];
    C[m * N + n] = sum;
}
