__global__ void mm(const float* __restrict__ A, const float* __restrict__ B,
                   float* __restrict__ C, int M, int N, int K) {
    const int lane = threadIdx.x, n = blockIdx.x * 32 + lane, m = blockIdx.y * 4 + threadIdx.y;
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += 32) {
        const float mine = m < M && k0 + lane < K ? __ldg(&A[m * K + k0 + lane]) : 0.0f;
        const int stop = min(32, K - k0);
        for (int i = 0; i < stop; ++i) {
            const float a = __shfl_sync(~0u, mine, i);
            if (n < N) sum += a * __ldg(&B[(k0 + i) * N + n]);
        }
    }
    if (m < M && n < N) C[m * N + n] = sum;
}
