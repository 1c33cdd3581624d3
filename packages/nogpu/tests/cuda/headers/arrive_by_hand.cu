// The C functions: copies arrive at a barrier of their own accord.
extern "C" __global__ void arrive_by_hand(const float* A, const float* B, float* C,
                                          int M, int N, int K) {
    constexpr int T = 16;
    __shared__ float a_tile[T][T], b_tile[T][T];
    __shared__ __mbarrier_t bar;
    int r = threadIdx.y, c = threadIdx.x, m = blockIdx.y * T + r, n = blockIdx.x * T + c;
    if (r == 0 && c == 0) __mbarrier_init(&bar, T * T);
    __syncthreads();
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += T) {
        bool a = m < M && k0 + c < K, b = k0 + r < K && n < N;
        __pipeline_memcpy_async(&a_tile[r][c], a ? A + m * K + k0 + c : A, 4, a ? 0 : 4);
        __pipeline_memcpy_async(&b_tile[r][c], b ? B + (k0 + r) * N + n : B, 4, b ? 0 : 4);
        __pipeline_arrive_on(&bar);
        auto token = __mbarrier_arrive(&bar);
        while (!__mbarrier_test_wait(&bar, token)) {}
        for (int k = 0; k < T; ++k) sum += a_tile[r][k] * b_tile[k][c];
        __syncthreads();
    }
    if (m < M && n < N) C[m * N + n] = sum;
}
