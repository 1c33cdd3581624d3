__device__ __noinline__ float element(const float* x, int ld, int r, int c, int rows, int cols) {
    return (unsigned)r < (unsigned)rows && (unsigned)c < (unsigned)cols ? x[r * ld + c] : 0.0f;
}
__device__ __noinline__ void accumulate(float* into, float a, float b) { *into += a * b; }
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    const int m = blockIdx.y * 8 + threadIdx.y, n = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < K; ++k)
        accumulate(&sum, element(A, K, m, k, M, K), element(B, N, k, n, K, N));
    if (m < M && n < N) C[m * N + n] = sum;
}
