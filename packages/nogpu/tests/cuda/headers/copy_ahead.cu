// Rows of both tiles are copied one step ahead, each by the 16 lanes that own the row.
extern "C" __global__ void copy_ahead(const float* A, const float* B, float* C, int M, int N, int K) {
    constexpr int T = 16;
    __shared__ float a_tile[2][T][T], b_tile[2][T][T];
    auto block = cg::this_thread_block();
    auto row = cg::tiled_partition<T>(block);
    int r = threadIdx.y, c = threadIdx.x, m = blockIdx.y * T + r, n0 = blockIdx.x * T;
    auto fetch = [&](int s, int k0) {
        int ka = m < M ? min(K - k0, T) : 0, nb = k0 + r < K ? min(N - n0, T) : 0;
        if (c >= ka) a_tile[s][r][c] = 0;
        if (c >= nb) b_tile[s][r][c] = 0;
        cg::memcpy_async(row, a_tile[s][r], A + (ka ? m * K + k0 : 0), sizeof(float) * ka);
        cg::memcpy_async(row, b_tile[s][r], B + (nb ? (k0 + r) * N + n0 : 0), sizeof(float) * nb);
    };
    fetch(0, 0);
    float sum = 0;
    for (int k0 = 0, s = 0; k0 < K; k0 += T, s ^= 1) {
        if (k0 + T < K) {
            fetch(s ^ 1, k0 + T);
            cg::wait_prior<2>(row);
        } else {
            cg::wait(row);
        }
        block.sync();
        for (int k = 0; k < T; ++k) sum += a_tile[s][r][k] * b_tile[s][k][c];
        block.sync();  // before this half is filled again
    }
    if (m < M && n0 + c < N) C[m * N + n0 + c] = sum;
}
