__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    const int n = threadIdx.x, m = blockIdx.y;
    float s = 0;
    for (int k = blockIdx.x * 20; k < min(K, int(blockIdx.x + 1) * 20); ++k) s += A[m * K + k] * B[k * N + n];
    C[m * N + n] += s;
}
