extern "C" __global__ void __launch_bounds__(128)
k(const signed char* W, const __grid_constant__ Map X, const float* scale, float* Y, int K)
{
    __shared__ __align__(256) unsigned char x[512];
    __shared__ __align__(16) float scales[64];
    __shared__ u64 bar, rows;
    if (threadIdx.x == 0) { bar_init(&bar, 1); bar_init(&rows, 1); bars_ready(); }
    __syncthreads();
    if (threadIdx.x == 0) {
        bar_tx(&rows, sizeof scales);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
            :: "r"(SMEM(scales)), "l"(scale), "r"((int)sizeof scales), "r"(SMEM(&rows)) : "memory");
    }
    float d[8] = {};
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, col = threadIdx.x % 4 * 2;
    for (int k = 0; k < K; k += 16) {
        if (threadIdx.x == 0) { bar_tx(&bar, 512); tma2(x, &X, &bar, k, 0); }
        unsigned a[4];
        for (int i = 0; i < 4; ++i) {
            const char2 w = *reinterpret_cast<const char2*>(W + (row + i % 2 * 8) * K + k + col + i / 2 * 8);
            const __half2 h = __halves2half2(__int2half_rn(w.x), __int2half_rn(w.y));
            a[i] = *reinterpret_cast<const unsigned*>(&h);
        }
        bar_wait(&bar, k / 16 & 1);
        mma_begin();
        mma_rs(d, a, tile_at(x, 16, 256, 3), 1);
        mma_end();
        __syncthreads();
    }
    bar_wait(&rows, 0);
    for (int j = 0; j < 8; ++j) Y[sum_row(j) * 16 + sum_col(j)] = d[j] * scales[sum_row(j)];
}
