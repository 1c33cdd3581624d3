// Four warps copy, four multiply; two barriers for each stage pass it back and forth.
extern "C" __global__ void copy_and_multiply(const float* A, const float* B, float* C,
                                             int M, int N, int K) {
    constexpr int T = 16, HALF = 128;
    using barrier = cuda::barrier<cuda::thread_scope_block>;
    __shared__ float a_tile[2][T][T], b_tile[2][T][T];
    __shared__ barrier full[2], empty[2];
    if (threadIdx.x < 2) {
        init(&full[threadIdx.x], 2 * HALF);
        init(&empty[threadIdx.x], 2 * HALF);
    }
    __syncthreads();  // the barriers are set up
    int t = threadIdx.x % HALF, m0 = blockIdx.y * T, n0 = blockIdx.x * T, steps = (K + T - 1) / T;
    if (threadIdx.x >= HALF) {
        for (int i = 0; i < steps; ++i) {
            int s = i % 2, k0 = i * T;
            if (i >= 2) empty[s].arrive_and_wait();  // it has been used
            for (int e = t; e < T * T; e += HALF) {
                int r = e / T, c = e % T;
                auto one = cuda::aligned_size_t<4>(4);
                if (m0 + r < M && k0 + c < K)
                    cuda::memcpy_async(&a_tile[s][r][c], A + (m0 + r) * K + k0 + c, one, full[s]);
                else a_tile[s][r][c] = 0;
                if (k0 + r < K && n0 + c < N)
                    cuda::memcpy_async(&b_tile[s][r][c], B + (k0 + r) * N + n0 + c, one, full[s]);
                else b_tile[s][r][c] = 0;
            }
            (void)full[s].arrive();
        }
    } else {
        float sum[2] = {};
        for (int i = 0; i < steps; ++i) {
            int s = i % 2;
            full[s].arrive_and_wait();  // it has been filled
            for (int e = 0; e < 2; ++e)
                for (int k = 0; k < T; ++k)
                    sum[e] += a_tile[s][t / T + 8 * e][k] * b_tile[s][k][t % T];
            if (i + 2 < steps) (void)empty[s].arrive();
        }
        for (int e = 0; e < 2; ++e) {
            int m = m0 + t / T + 8 * e, n = n0 + t % T;
            if (m < M && n < N) C[m * N + n] = sum[e];
        }
    }
}
