extern "C" __global__ void __launch_bounds__(384)
k(const __grid_constant__ Map A, const __grid_constant__ Map B, float* C, int K, int N, int rounds)
{
    extern __shared__ __align__(1024) unsigned char ring[];  // [consumer][stage]: 4096 bytes of A, 2048 of B
    __shared__ u64 full[2][2], empty[2][2], turn[2];
    __shared__ float out[64 * 32];
    const int group = threadIdx.x / 128;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; ++i) { bar_init(&full[0][0] + i, 1); bar_init(&empty[0][0] + i, 128); }
        for (int c = 0; c < 2; ++c) bar_init(&turn[c], 128);
        bars_ready();
    }
    __syncthreads();
    const int steps = K / 32;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == 0) {
            for (int i = 0; i < rounds * steps; ++i) {
                for (int c = 0; c < 2; ++c) {
                    const int s = i % 2, x = i % steps * 32, tile = i / steps * 2 + c;
                    bar_wait(&empty[c][s], (i / 2 & 1) ^ 1);
                    bar_tx(&full[c][s], 6144);
                    unsigned char* to = ring + (c * 2 + s) * 6144;
                    tma2(to, &A, &full[c][s], x, blockIdx.x * 64);
                    tma2(to + 4096, &B, &full[c][s], x, tile * 32);
                }
            }
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
        const int c = group - 1;
        if (c == 1) bar_arrive(&turn[0]);
        int i = 0;
        for (int round = 0; round < rounds; ++round) {
            float d[16] = {};
            bar_wait(&turn[c], round & 1);
            for (int step = 0; step < steps; ++step, ++i) {
                const unsigned char* a = ring + (c * 2 + i % 2) * 6144;
                bar_wait(&full[c][i % 2], i / 2 & 1);
                mma_begin();
                for (int k = 0; k < 64; k += 32)
                    mma_32(d, tile_at(a + k, 16, 512, 2), tile_at(a + 4096 + k, 16, 512, 2), 1);
                mma_end();
                bar_arrive(&empty[c][i % 2]);
            }
            for (int j = 0; j < 16; ++j) out[sum_row(j) * 32 + sum_col(j)] = d[j];
            asm volatile("bar.sync %0, 128;" :: "r"(3 + c) : "memory");
            for (int j = threadIdx.x % 128; j < 64 * 32; j += 128)
                C[(blockIdx.x * 64 + j / 32) * N + (round * 2 + c) * 32 + j % 32] = out[j];
            bar_arrive(&turn[1 - c]);
        }
    }
}
