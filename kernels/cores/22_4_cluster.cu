// The core of 22_4_cluster.cu: two blocks share each tile of B by multicast.
// Whole tiles only: M is a multiple of 128, N of 256, K of 64.
#include "common/cluster.cuh"
#include "common/tile_order.cuh"
#include "common/wgmma.cuh"

using T = __nv_bfloat16;

extern "C" __global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)
wgmma_cluster_core(const __grid_constant__ TensorMap A_map,
                   const __grid_constant__ TensorMap B_map, T* C, int M, int N,
                   int K)
{
    const int BM = 128, BN = 256, BK = BOX, STAGES = 4, GROUP_M = 8;
    const int CLUSTER_M = 2, CLUSTER_N = 1;  // two blocks, one below the other
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
            barrier_init(&empty[s], CONSUMERS * CLUSTER_M);  // the peer's, too
        }
        barrier_init_fence();
    }
    cluster_sync();  // no block copies into another whose barriers are not ready
    const ClusterPlace<CLUSTER_M, CLUSTER_N> place;
    const int rows = (M / BM + CLUSTER_M - 1) / CLUSTER_M;  // of clusters
    const int cols = N / BN;
    const int first = blockIdx.x / CLUSTER_M, stride = gridDim.x / CLUSTER_M;
    RingPlace<STAGES> at;

    if (threadIdx.x < WARPGROUP) {  // the producer: one thread copies
        registers_decrease<40>();
        for (int index = first; index < rows * cols; index += stride) {
            const TileIndex tile = tile_at<GROUP_M>(index, rows, cols);
            const int m0 = (tile.row * CLUSTER_M + place.row) * BM;
            const int n0 = tile.col * BN;
            for (int k0 = 0; threadIdx.x == 0 && k0 < K; k0 += BK) {
                barrier_wait(&empty[at.stage], at.parity ^ 1);
                Stage& stage = ring[at.stage];
                barrier_arrive_expect(&full[at.stage], sizeof(Stage));
                for (int m = 0; m < BM; m += BOX)
                    tma_load(stage.A_tile + m * BK, &A_map, &full[at.stage],
                             m0 + m, k0);
                // This block's half of B's tile, into both blocks.
                for (int i = 0; i < BN / CLUSTER_M; i += BOX) {
                    const int n = place.row * BN / CLUSTER_M + i;
                    tma_load_multicast(stage.B_tile + n * BK, &B_map,
                                       &full[at.stage], k0, n0 + n, place.same_col);
                }
                at.advance();
            }
        }
    } else {  // the consumers: each warpgroup half of the rows
        registers_increase<232>();
        const int consumer = threadIdx.x / WARPGROUP - 1;
        for (int index = first; index < rows * cols; index += stride) {
            const TileIndex tile = tile_at<GROUP_M>(index, rows, cols);
            float sum[WM / MMA_M][BN / 2];
            Barrier* in_use = nullptr;  // of the stage whose products still run
            for (int k0 = 0; k0 < K; k0 += BK) {
                barrier_wait(&full[at.stage], at.parity);
                const Stage& stage = ring[at.stage];
                wgmma_boxes(sum, stage.A_tile + consumer * WM * BK, stage.B_tile,
                            k0 > 0);
                wgmma_wait<1>();  // those of the step before are complete
                if (k0 > 0)
                    place.arrive_at_peers(in_use, threadIdx.x % WARPGROUP);
                in_use = &empty[at.stage];
                at.advance();
            }
            wgmma_finish(sum);
            place.arrive_at_peers(in_use, threadIdx.x % WARPGROUP);
            wgmma_store(C, M, N,
                        (tile.row * CLUSTER_M + place.row) * BM + consumer * WM,
                        tile.col * BN, sum[0]);
        }
    }
    cluster_sync();  // no block leaves while its peer may still copy into it
}
