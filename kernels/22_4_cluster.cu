// Hopper, step 4: neighbouring blocks fetch shared tiles once, for all of them.
//
// A cluster of CLUSTER_M x CLUSTER_N blocks, guaranteed to run at the same time on
// neighbouring SMs, computes as many neighbouring tiles of C. Each block fetches
// one part of every tile that it shares with others, and the copy engine delivers
// that part to all of them (multicast).
// New since 21_3_persistent.cu: the cluster, and the multicast (cluster_tiles.cuh).
// A stage counts as empty only when the consumers of every block that it is copied
// to are done with it.
//
// A is M x K, B is K x N, C is M x N, all row-major, of bfloat16 (or half); sums
// are FP32. A_map, B_map describe A and B in boxes of 64 x 64; rows of A and B
// start at 16-byte addresses.
// Block: 384 threads. Grid: whole clusters, at most one block an SM.
#include "common/cluster.cuh"
#include "common/tile_order.cuh"
#include "common/wgmma.cuh"

#ifndef ELEMENT
#define ELEMENT __nv_bfloat16  // or half
#endif
#ifndef BM
#define BM 128  // rows of C a block
#endif
#ifndef BN
#define BN 256  // columns of C a block
#endif
#ifndef STAGES
#define STAGES 4  // tiles of A and B in the ring
#endif
#ifndef CLUSTER_M
#define CLUSTER_M 2  // blocks of a cluster, one below the other
#endif
#ifndef CLUSTER_N
#define CLUSTER_N 1  // and side by side
#endif
#ifndef GROUP_M
#define GROUP_M 8  // rows of clusters in a band of the walk
#endif
#ifndef SMS
#define SMS 132  // SMs to fill: the host starts at most this many blocks
#endif

using T = ELEMENT;

#include "common/cluster_tiles.cuh"

// A thread; with the consumers' they must fit in.
constexpr int PRODUCER_REGISTERS = 40;
constexpr int CONSUMER_REGISTERS = 232;  // the 65536 of an SM

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1)
    __launch_bounds__(THREADS, 1)
        wgmma_cluster(const __grid_constant__ TensorMap A_map,
                      const __grid_constant__ TensorMap B_map, T* C, int M, int N,
                      int K)
{
    extern __shared__ unsigned char shared[];
    Stage* ring = reinterpret_cast<Stage*>(swizzle_aligned(shared));
    __shared__ Barrier full[STAGES];
    __shared__ Barrier empty[STAGES];

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            // The producer, and the bytes.
            barrier_init(&full[s], 1);
            // One thread of each consumer.
            barrier_init(&empty[s], CONSUMERS * PEERS);
        }
        barrier_init_fence();
    }
    cluster_sync();  // no block copies into another whose barriers are not ready

    const Place place;
    // Clusters over C.
    const int rows = (M + CLUSTER_M * BM - 1) / (CLUSTER_M * BM);
    const int cols = (N + CLUSTER_N * BN - 1) / (CLUSTER_N * BN);
    const int steps = (K + BK - 1) / BK;
    const int first = blockIdx.x / CLUSTER;
    const int stride = gridDim.x / CLUSTER;
    const int warpgroup = threadIdx.x / WARPGROUP;
    RingPlace<STAGES> at;

    if (warpgroup == 0) {
        registers_decrease<PRODUCER_REGISTERS>();
        if (threadIdx.x == 0) {
            for (int index = first; index < rows * cols; index += stride) {
                const TileIndex tile = tile_at<GROUP_M>(index, rows, cols);
                const int m0 = (tile.row * CLUSTER_M + place.row) * BM;
                const int n0 = (tile.col * CLUSTER_N + place.col) * BN;
                for (int step = 0; step < steps; ++step) {
                    barrier_wait(&empty[at.stage], at.parity ^ 1);
                    fill(ring[at.stage], &full[at.stage], &A_map, &B_map, place, m0,
                         n0, step * BK);
                    at.advance();
                }
            }
        }
    } else {
        registers_increase<CONSUMER_REGISTERS>();
        const int consumer = warpgroup - 1;
        const int speaker = threadIdx.x % WARPGROUP;
        for (int index = first; index < rows * cols; index += stride) {
            const TileIndex tile = tile_at<GROUP_M>(index, rows, cols);
            const int m0 = (tile.row * CLUSTER_M + place.row) * BM + consumer * WM;
            const int n0 = (tile.col * CLUSTER_N + place.col) * BN;
            float sum[WM / MMA_M][BN / 2];
            // Of the stage whose products are still running.
            Barrier* in_use = nullptr;
            for (int step = 0; step < steps; ++step) {
                barrier_wait(&full[at.stage], at.parity);
                const Stage& stage = ring[at.stage];
                wgmma_boxes(sum, stage.A_tile + consumer * WM * BK, stage.B_tile,
                            step > 0);

                // Those of the step before are complete: its stage may be filled
                // again.
                wgmma_wait<1>();
                if (step > 0) {
                    place.arrive_at_peers(in_use, speaker);
                }
                in_use = &empty[at.stage];
                at.advance();
            }
            wgmma_finish(sum);
            place.arrive_at_peers(in_use, speaker);

            // Registers to global.
            #pragma unroll
            for (int i = 0; i < WM / MMA_M; ++i) {
                wgmma_store(C, M, N, m0 + i * MMA_M, n0, sum[i]);
            }
        }
    }
    cluster_sync();  // no block leaves while another may still copy into it
}
