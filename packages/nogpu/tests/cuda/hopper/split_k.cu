extern "C" __global__ void __launch_bounds__(128)
k(const __grid_constant__ Map A, const __grid_constant__ Map B, float* C, int slice)
{
    __shared__ __align__(128) unsigned char a[2048], b[512];
    __shared__ u64 bar;
    if (threadIdx.x == 0) { bar_init(&bar, 1); bars_ready(); }
    __syncthreads();
    float d[8] = {};
    for (int i = 0; i < slice / 16; ++i) {
        if (threadIdx.x / 32 == 1) {
            unsigned chosen;
            asm volatile("{ .reg .pred q; elect.sync _|q, 0xffffffff; selp.b32 %0, 1, 0, q; }" : "=r"(chosen));
            if (chosen) {
                bar_tx(&bar, 2560);
                for (int h = 0; h < 2; ++h) {
                    const int x = blockIdx.z * slice + i * 16 + h * 8;
                    tma2(a + h * 1024, &A, &bar, x, 0);
                    tma2(b + h * 256, &B, &bar, x, 0);
                }
            }
        }
        bar_wait(&bar, i & 1);
        mma_begin();
        mma_16(d, tile_at(a, 1024, 128, 0), tile_at(b, 256, 128, 0), 1);
        mma_end();
        __syncthreads();
    }
    for (int j = 0; j < 8; ++j) atomicAdd(C + sum_row(j) * 16 + sum_col(j), d[j]);
}
