// A pipeline of the whole block with two stages.
extern "C" __global__ void two_stages(const float* A, const float* B, float* C, int M, int N, int K) {
    constexpr int T = 16;
    __shared__ float a_tile[2][T][T], b_tile[2][T][T];
    __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
    auto pipe = cuda::make_pipeline(cg::this_thread_block(), &state);
    int r = threadIdx.y, c = threadIdx.x, m = blockIdx.y * T + r, n = blockIdx.x * T + c;
    auto one = cuda::aligned_size_t<4>(4);
    auto fetch = [&](int k0) {
        int s = k0 / T % 2;
        pipe.producer_acquire();
        if (m < M && k0 + c < K) cuda::memcpy_async(&a_tile[s][r][c], A + m * K + k0 + c, one, pipe);
        else a_tile[s][r][c] = 0;
        if (k0 + r < K && n < N) cuda::memcpy_async(&b_tile[s][r][c], B + (k0 + r) * N + n, one, pipe);
        else b_tile[s][r][c] = 0;
        pipe.producer_commit();
    };
    fetch(0);
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += T) {
        if (k0 + T < K) fetch(k0 + T);
        pipe.consumer_wait();
        for (int k = 0; k < T; ++k) sum += a_tile[k0 / T % 2][r][k] * b_tile[k0 / T % 2][k][c];
        pipe.consumer_release();
    }
    if (m < M && n < N) C[m * N + n] = sum;
}
