// The core of 21_3_persistent.cu: blocks that stay, and products always in flight.
// Whole tiles only: M is a multiple of 128, N of 256, K of 64.
#include "common/tile_order.cuh"
#include "common/wgmma.cuh"

using T = __nv_bfloat16;

extern "C" __global__ void __launch_bounds__(384, 1)
wgmma_persistent_core(const __grid_constant__ TensorMap A_map,
                      const __grid_constant__ TensorMap B_map, T* C, int M, int N,
                      int K)
{
    const int BM = 128, BN = 256, BK = BOX, STAGES = 4, GROUP_M = 16;
    const int CONSUMERS = 2, WM = BM / CONSUMERS;  // rows of C a consumer warpgroup
    struct Stage {
        T A_tile[BM * BK];
        T B_tile[BK * BN];
    };
    extern __shared__ unsigned char shared[];
    Stage* ring = reinterpret_cast<Stage*>(swizzle_aligned(shared));
    __shared__ Barrier full[STAGES], empty[STAGES];  // landed; may be filled again
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            barrier_init(&full[s], 1);
            barrier_init(&empty[s], CONSUMERS);  // one thread of each consumer
        }
        barrier_init_fence();
    }
    __syncthreads();
    const int rows = M / BM, cols = N / BN;
    RingPlace<STAGES> at;

    if (threadIdx.x < WARPGROUP) {  // the producer: one thread copies
        registers_decrease<40>();
        for (int index = blockIdx.x; index < rows * cols; index += gridDim.x) {
            const TileIndex tile = tile_at<GROUP_M>(index, rows, cols);
            for (int k0 = 0; threadIdx.x == 0 && k0 < K; k0 += BK) {
                barrier_wait(&empty[at.stage], at.parity ^ 1);
                Stage& stage = ring[at.stage];
                barrier_arrive_expect(&full[at.stage], sizeof(Stage));
                for (int m = 0; m < BM; m += BOX)
                    tma_load(stage.A_tile + m * BK, &A_map, &full[at.stage],
                             tile.row * BM + m, k0);
                for (int n = 0; n < BN; n += BOX)
                    tma_load(stage.B_tile + n * BK, &B_map, &full[at.stage], k0,
                             tile.col * BN + n);
                at.advance();
            }
        }
        return;
    }

    registers_increase<232>();  // the consumers: each warpgroup half of the rows
    const int consumer = threadIdx.x / WARPGROUP - 1;
    for (int index = blockIdx.x; index < rows * cols; index += gridDim.x) {
        const TileIndex tile = tile_at<GROUP_M>(index, rows, cols);
        float sum[WM / MMA_M][BN / 2];
        Barrier* in_use = nullptr;  // of the stage whose products are still running
        for (int k0 = 0; k0 < K; k0 += BK) {
            barrier_wait(&full[at.stage], at.parity);
            const Stage& stage = ring[at.stage];
            wgmma_boxes(sum, stage.A_tile + consumer * WM * BK, stage.B_tile,
                        k0 > 0);
            wgmma_wait<1>();  // those of the step before are complete
            if (threadIdx.x % WARPGROUP == 0 && k0 > 0)
                barrier_arrive(in_use);
            in_use = &empty[at.stage];
            at.advance();
        }
        wgmma_finish(sum);
        if (threadIdx.x % WARPGROUP == 0)
            barrier_arrive(in_use);
        wgmma_store(C, M, N, tile.row * BM + consumer * WM, tile.col * BN, sum[0]);
    }
}
