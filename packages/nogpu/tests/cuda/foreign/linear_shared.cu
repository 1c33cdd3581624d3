__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    const int T = 8;
    __shared__ float pool[2 * T * T];
    float* left = pool;
    float* right = &pool[T * T];
    int t = threadIdx.x, i = t / T, j = t % T;
    int row = blockIdx.y * T + i, col = blockIdx.x * T + j;
    float v = 0.0f;
    for (int base = 0; base < K; base += T) {
        left[t] = row < M && base + j < K ? A[row * K + base + j] : 0.0f;
        right[t] = base + i < K && col < N ? B[(base + i) * N + col] : 0.0f;
        __syncthreads();
        #pragma unroll
        for (int x = 0; x < T; ++x) v = fmaf(left[i * T + x], right[x * T + j], v);
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = v;
}
