// One lane arrives for its warp: the others must be done before it does.
extern "C" __global__ void one_arrives(const float* A, const float* B, float* C, int M, int N, int K) {
    constexpr int T = 16;
    __shared__ float a_tile[T][T], b_tile[T][T];
    __shared__ cuda::barrier<cuda::thread_scope_block> bar;
    auto block = cg::this_thread_block();
    auto warp = cg::tiled_partition<32>(block);
    int r = threadIdx.y, c = threadIdx.x, m = blockIdx.y * T + r, n = blockIdx.x * T + c;
    if (block.thread_rank() == 0) init(&bar, warp.meta_group_size());
    block.sync();
    bool phase = false;
    auto everyone = [&] {
        warp.sync();  // all lanes are done
        if (warp.thread_rank() == 0) (void)bar.arrive();
        bar.wait_parity(phase);
        phase = !phase;
    };
    float sum = 0;
    for (int k0 = 0; k0 < K; k0 += T) {
        a_tile[r][c] = m < M && k0 + c < K ? A[m * K + k0 + c] : 0.f;
        b_tile[r][c] = k0 + r < K && n < N ? B[(k0 + r) * N + n] : 0.f;
        everyone();
        for (int k = 0; k < T; ++k) sum += a_tile[r][k] * b_tile[k][c];
        everyone();
    }
    if (m < M && n < N) C[m * N + n] = sum;
}
