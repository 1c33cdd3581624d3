extern "C" __global__ void __launch_bounds__(128) __cluster_dims__(2, 1, 1)
k(const __grid_constant__ Map A, const __grid_constant__ Map B, float* C, float* total)
{
    __shared__ __align__(1024) unsigned char a[64 * 128], b[32 * 128];
    __shared__ u64 bar;
    __shared__ float column[32];
    cg::cluster_group cluster = cg::this_cluster();
    const int rank = cluster.block_rank();
    if (threadIdx.x == 0) { bar_init(&bar, 1); bars_ready(); }
    if (threadIdx.x < 32) column[threadIdx.x] = 0;
    cluster.sync();
    if (threadIdx.x == 0) {
        bar_tx(&bar, sizeof a + sizeof b);
        tma2(a, &A, &bar, 0, blockIdx.x * 64);
        asm volatile(TMA(2) ".multicast::cluster [%0], [%1, {%3, %4}], [%2], %5;"
            :: "r"(SMEM(b + rank * 2048)), "l"(&B), "r"(SMEM(&bar)), "r"(0), "r"(rank * 16), "h"((short)3) : "memory");
    }
    bar_wait(&bar, 0);
    float d[16] = {};
    mma_begin();
    for (int k = 0; k < 128; k += 32) mma_32(d, tile_at(a + k, 16, 1024, 1), tile_at(b + k, 16, 1024, 1), 1);
    mma_end();
    for (int j = 0; j < 16; ++j) {
        C[(blockIdx.x * 64 + sum_row(j)) * 32 + sum_col(j)] = d[j];
        atomicAdd(column + sum_col(j), d[j]);
    }
    cluster.sync();  // sums are there
    if (rank == 0 && threadIdx.x < 32) {
        const float* peer = cluster.map_shared_rank(column, 1);
        total[blockIdx.x / 2 * 32 + threadIdx.x] = column[threadIdx.x] + peer[threadIdx.x];
    }
    cluster.sync();  // nobody leaves before
}
