// Hopper: the copy engine stores C.
//
// New since 22_4_cluster.cu: a finished tile leaves box by box, by stmatrix to
// shared memory and from there by the copy engine. Each warp stores its own rows
// and waits for no other, but begins the next tile when it has asked for its last
// box.
//
// A is M x K, B is K x N, C is M x N, all row-major, of bfloat16 (or half); sums
// are FP32. A_map, B_map describe A and B in boxes of 64 x 64, C_map describes C in
// boxes of 16 x 64; rows of all three start at 16-byte addresses.
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
#ifndef C_BUFFERS
#define C_BUFFERS 2  // boxes of C that a warp may have on their way
#endif
#ifndef SMS
#define SMS 132  // SMs to fill: the host starts at most this many blocks
#endif

using T = ELEMENT;

#include "common/leaving_tile.cuh"

// A thread; with the consumers' they must fit in.
constexpr int PRODUCER_REGISTERS = 40;
constexpr int CONSUMER_REGISTERS = 232;  // the 65536 of an SM

// A consumer warp: registers to shared to global, box after box of its rows of a
// complete tile, rounded and packed two elements a register.
__device__ __forceinline__ void store(const unsigned (&c)[WM / MMA_M][BN / 4],
                                      int m0, int n0,
                                      BoxBuffer (&buffers)[C_BUFFERS],
                                      const TensorMap* C_map)
{
    const int lane = threadIdx.x % 32;
    const int row = lane % C_ROWS;
    const int warp_row = threadIdx.x % WARPGROUP / 32 * C_ROWS;
    #pragma unroll
    for (int i = 0; i < C_BOXES; ++i) {
        const unsigned* pairs = c[i / C_COLS] + i % C_COLS * (BOX / 4);
        T* C_tile = buffers[i % C_BUFFERS];
        if (lane == 0) {
            // This buffer's last box has been read.
            tma_store_wait_read<C_BUFFERS - 1>();
        }
        __syncwarp();
        box_to_shared(C_tile, pairs, lane, row);

        // Shared to global: the copy engine leaves out what lies outside C.
        if (lane == 0) {
            tma_store(C_map, C_tile, m0 + i / C_COLS * MMA_M + warp_row,
                      n0 + i % C_COLS * BOX);
            tma_store_commit();
        }
    }
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1)
    __launch_bounds__(THREADS, 1)
        wgmma_box_store(const __grid_constant__ TensorMap A_map,
                        const __grid_constant__ TensorMap B_map,
                        const __grid_constant__ TensorMap C_map, int M, int N,
                        int K)
{
    extern __shared__ unsigned char shared[];
    auto& [ring, C_tile] = *reinterpret_cast<Shared*>(swizzle_aligned(shared));
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
        auto& buffers = C_tile[threadIdx.x / 32 - WARPGROUP / 32];
        for (int index = first; index < rows * cols; index += stride) {
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

            unsigned pairs[WM / MMA_M][BN / 4];
            wgmma_pack<T>(pairs, sum);
            const TileIndex tile = tile_at<GROUP_M>(index, rows, cols);
            store(pairs, (tile.row * CLUSTER_M + place.row) * BM + consumer * WM,
                  (tile.col * CLUSTER_N + place.col) * BN, buffers, &C_map);
        }
        // Shared memory stays until the copy engine has read it.
        tma_store_wait_read<0>();
    }
    cluster_sync();  // no block leaves while another may still copy into it
}
