#define T 8
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a0[T * T], a1[T * T], b0[T * T], b1[T * T];
    float *now_a = a0, *next_a = a1, *now_b = b0, *next_b = b1;
    const int x = threadIdx.x, y = threadIdx.y, at = y * T + x;
    const int row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    auto fetch = [&](float* a, float* b, int k) {
        a[at] = row < M && k + x < K ? A[row * K + k + x] : 0.0f;
        b[at] = k + y < K && col < N ? B[(k + y) * N + col] : 0.0f;
    };
    fetch(now_a, now_b, 0);
    __syncthreads();
    float sum = 0;
    for (int k = 0; k < K; k += T) {
        if (k + T < K) fetch(next_a, next_b, k + T);
        for (int i = 0; i < T; ++i) sum += now_a[y * T + i] * now_b[i * T + x];
        __syncthreads();
        float* swap = now_a; now_a = next_a; next_a = swap;
        swap = now_b; now_b = next_b; next_b = swap;
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
