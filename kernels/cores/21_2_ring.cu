// The core of 21_2_ring.cu: one warp copies, four multiply, with a ring between.
// Whole tiles only: M is a multiple of 128, N of 128, K of 64.
#include "common/wgmma.cuh"

using T = __nv_bfloat16;

extern "C" __global__ void
wgmma_ring_core(const __grid_constant__ TensorMap A_map,
                const __grid_constant__ TensorMap B_map, T* C, int M, int N, int K)
{
    const int BM = 128, BN = 128, BK = BOX, STAGES = 3;
    struct Stage {
        T A_tile[BM * BK];
        T B_tile[BK * BN];
    };
    extern __shared__ unsigned char shared[];
    Stage* ring = reinterpret_cast<Stage*>(swizzle_aligned(shared));
    __shared__ Barrier full[STAGES], empty[STAGES];  // landed; may be filled again
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            barrier_init(&full[s], 1);   // the producer, and the bytes it announces
            barrier_init(&empty[s], 1);  // one thread for the consumers
        }
        barrier_init_fence();
    }
    __syncthreads();
    RingPlace<STAGES> at;

    if (threadIdx.x >= WARPGROUP) {  // the producer: one thread of the last warp
        if (threadIdx.x > WARPGROUP)
            return;
        for (int k0 = 0; k0 < K; k0 += BK) {
            barrier_wait(&empty[at.stage], at.parity ^ 1);  // at once in round one
            Stage& stage = ring[at.stage];
            // Global to shared: announce the bytes and ask for the boxes.
            barrier_arrive_expect(&full[at.stage], sizeof(Stage));
            for (int m = 0; m < BM; m += BOX)
                tma_load(stage.A_tile + m * BK, &A_map, &full[at.stage], m0 + m,
                         k0);
            for (int n = 0; n < BN; n += BOX)
                tma_load(stage.B_tile + n * BK, &B_map, &full[at.stage], k0,
                         n0 + n);
            at.advance();
        }
        return;
    }

    float sum[BM / MMA_M][BN / 2];  // the consumers: a warpgroup
    for (int k0 = 0; k0 < K; k0 += BK) {
        barrier_wait(&full[at.stage], at.parity);
        // Shared to registers, through the Tensor Cores.
        wgmma_boxes(sum, ring[at.stage].A_tile, ring[at.stage].B_tile, k0 > 0);
        wgmma_finish(sum);  // the products no longer read the stage
        if (threadIdx.x == 0)
            barrier_arrive(&empty[at.stage]);
        at.advance();
    }
    for (int i = 0; i < BM / MMA_M; ++i)  // registers to global
        wgmma_store(C, M, N, m0 + i * MMA_M, n0, sum[i]);
}
