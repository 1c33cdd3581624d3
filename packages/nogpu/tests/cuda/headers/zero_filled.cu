// The C functions of cp.async, filling with zeros beyond the edges.
extern "C" __global__ void zero_filled(const float* A, const float* B, float* C, int M, int N, int K) {
    constexpr int T = 16;
    __shared__ float a_tile[2][T][T], b_tile[2][T][T];
    int r = threadIdx.y, c = threadIdx.x, m = blockIdx.y * T + r, n = blockIdx.x * T + c;
    auto fetch = [&](int s, int k0) {
        bool a = m < M && k0 + c < K, b = k0 + r < K && n < N;
        __pipeline_memcpy_async(&a_tile[s][r][c], a ? A + m * K + k0 + c : A, 4, a ? 0 : 4);
        __pipeline_memcpy_async(&b_tile[s][r][c], b ? B + (k0 + r) * N + n : B, 4, b ? 0 : 4);
        __pipeline_commit();
    };
    fetch(0, 0);
    float sum = 0;
    for (int k0 = 0, s = 0; k0 < K; k0 += T, s ^= 1) {
        fetch(s ^ 1, k0 + T);  // beyond the end: zeros
        __pipeline_wait_prior(1);
        __syncthreads();
        for (int k = 0; k < T; ++k) sum += a_tile[s][r][k] * b_tile[s][k][c];
        __syncthreads();
    }
    if (m < M && n < N) C[m * N + n] = sum;
}
