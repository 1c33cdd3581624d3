extern "C" __global__ void __launch_bounds__(128)
k(const __grid_constant__ Map A, const __grid_constant__ Map B, SUM* C, int K)
{
    __shared__ __align__(1024) unsigned char a[64 * 32], b[16 * 32];
    __shared__ u64 bar;
    if (threadIdx.x == 0) { bar_init(&bar, 1); bars_ready(); }
    __syncthreads();
    REG d[8] = {};
    for (int k = 0, i = 0; k < K; k += 32 / SIZE, ++i) {
        if (threadIdx.x == 0) {
            bar_tx(&bar, sizeof a + sizeof b);
            tma3(a, &A, &bar, k, 0, blockIdx.y);
            tma3(b, &B, &bar, k, 0, blockIdx.y);
        }
        bar_wait(&bar, i & 1);
        mma_begin();
        multiply(d, tile_at(a, 16, 256, 3), tile_at(b, 16, 256, 3), 1);
        mma_end();
        __syncthreads();
    }
    for (int j = 0; j < 8; ++j) C[(blockIdx.y * 64 + sum_row(j)) * 16 + sum_col(j)] = d[j];
}
