// One warp for each row of C; its lanes keep a piece of the row of A in shared memory.
extern "C" __global__ void group_rows(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float rows[4][32];
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    float* piece = rows[warp.meta_group_rank()];
    int m = blockIdx.x * warp.meta_group_size() + warp.meta_group_rank();
    if (m >= M) return;
    for (int n0 = 0; n0 < N; n0 += warp.size()) {
        int n = n0 + warp.thread_rank();
        float sum = 0;
        for (int k0 = 0; k0 < K; k0 += warp.size()) {
            int k = k0 + warp.thread_rank();
            warp.sync();  // the last piece has been read
            piece[warp.thread_rank()] = k < K ? A[m * K + k] : 0.f;
            warp.sync();  // the new one is there
            for (int i = 0; i < 32 && k0 + i < K; ++i)
                if (n < N) sum += piece[i] * B[(k0 + i) * N + n];
        }
        if (n < N) C[m * N + n] = sum;
    }
}
