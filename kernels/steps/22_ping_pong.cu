// Hopper: the two consumer warpgroups take turns (ping-pong).
//
// New since 21_3_persistent.cu: a tile of C belongs to one consumer warpgroup.
// While it stores its sums, the other multiplies the block's next tile, so the
// Tensor Cores have work at that time, too. The price: each consumer's products
// read their own tiles of A and B, and more bytes are copied for each multiply-add.
//
// A is M x K, B is K x N, C is M x N, all row-major, of bfloat16 (or half); sums
// are FP32. A_map, B_map describe A and B in boxes of 64 x 64; rows of A and B
// start at 16-byte addresses.
// Block: 384 threads. Grid: at most one block an SM.
#include "common/tile_order.cuh"
#include "common/wgmma.cuh"

#ifndef ELEMENT
#define ELEMENT __nv_bfloat16  // or half
#endif
#ifndef BM
#define BM 128  // rows of C a block
#endif
#ifndef BN
#define BN 128  // columns of C a block
#endif
#ifndef STAGES
#define STAGES 6  // tiles of A and B in the ring
#endif
#ifndef GROUP_M
#define GROUP_M 16  // rows of tiles in a band of the walk
#endif
#ifndef SMS
#define SMS 132  // SMs to fill: the host starts at most this many blocks
#endif

using T = ELEMENT;

constexpr int BK = BOX;  // steps of k a stage: one box
constexpr int CONSUMERS = 2;
constexpr int THREADS = (1 + CONSUMERS) * WARPGROUP;
// A thread; with the consumers' they must fit in.
constexpr int PRODUCER_REGISTERS = 40;
constexpr int CONSUMER_REGISTERS = 232;  // the 65536 of an SM

// A tile of A, BM / 64 boxes one below the other, and one of B, BN / 64 boxes side
// by side.
struct Stage {
    T A_tile[BM * BK];
    T B_tile[BK * BN];
};

static_assert(sizeof(T) == 2, "a swizzled row is 64 elements of two bytes");
static_assert(BM % MMA_M == 0, "wgmma takes 64 rows");
static_assert(BN == 128 || BN == 256, "wgmma.cuh holds the shapes n128 and n256");
static_assert(BM / MMA_M * BN <= 256,
              "the sums of a thread must fit in its registers");
static_assert(SMS >= 1, "some block must run");
static_assert(STAGES >= 2, "one stage is used while another is filled");
static_assert(STAGES * sizeof(Stage) <= MOST_BUFFERS,
              "a block has 227 KB of shared memory");

// The producer's one thread: the boxes of one step of k, into one stage.
__device__ __forceinline__ void fill(Stage& stage, Barrier* full,
                                     const TensorMap* A_map, const TensorMap* B_map,
                                     int m0, int n0, int k0)
{
    barrier_arrive_expect(full, sizeof(Stage));
    for (int m = 0; m < BM; m += BOX) {
        tma_load(stage.A_tile + m * BK, A_map, full, m0 + m, k0);
    }
    for (int n = 0; n < BN; n += BOX) {
        tma_load(stage.B_tile + n * BK, B_map, full, k0, n0 + n);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    wgmma_ping_pong(const __grid_constant__ TensorMap A_map,
                    const __grid_constant__ TensorMap B_map, T* C, int M, int N,
                    int K)
{
    extern __shared__ unsigned char shared[];
    Stage* ring = reinterpret_cast<Stage*>(swizzle_aligned(shared));
    __shared__ Barrier full[STAGES];
    __shared__ Barrier empty[STAGES];
    __shared__ Barrier turn[CONSUMERS];  // the other has issued its products

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            // The producer, and the bytes that it announces.
            barrier_init(&full[s], 1);
            barrier_init(&empty[s], 1);  // one thread of the consumer
        }
        for (int c = 0; c < CONSUMERS; ++c) {
            barrier_init(&turn[c], 1);
        }
        barrier_init_fence();
    }
    __syncthreads();

    const int rows = (M + BM - 1) / BM;  // tiles of C
    const int cols = (N + BN - 1) / BN;
    const int steps = (K + BK - 1) / BK;
    const int warpgroup = threadIdx.x / WARPGROUP;
    RingPlace<STAGES> at;

    if (warpgroup == 0) {
        registers_decrease<PRODUCER_REGISTERS>();
        if (threadIdx.x == 0) {
            for (int index = blockIdx.x; index < rows * cols; index += gridDim.x) {
                const TileIndex tile = tile_at<GROUP_M>(index, rows, cols);
                for (int step = 0; step < steps; ++step) {
                    barrier_wait(&empty[at.stage], at.parity ^ 1);
                    fill(ring[at.stage], &full[at.stage], &A_map, &B_map,
                         tile.row * BM, tile.col * BN, step * BK);
                    at.advance();
                }
            }
        }
    } else {
        registers_increase<CONSUMER_REGISTERS>();
        const int consumer = warpgroup - 1;
        const bool speaks = threadIdx.x % WARPGROUP == 0;
        unsigned turn_parity = consumer ^ 1;  // the first goes on at once
        int place = consumer * steps;         // in the producer's order
        for (int index = blockIdx.x + consumer * gridDim.x; index < rows * cols;
             index += CONSUMERS * gridDim.x) {
            const TileIndex tile = tile_at<GROUP_M>(index, rows, cols);
            float sum[BM / MMA_M][BN / 2];
            // Of the stage whose products are still running.
            Barrier* in_use = nullptr;
            at = {place % STAGES, unsigned(place / STAGES % 2)};
            // No stage of this tile is waited for before the other has waited for
            // all of its own: a parity tells two rounds apart, not three.
            barrier_wait(&turn[consumer], turn_parity);
            for (int step = 0; step < steps; ++step) {
                barrier_wait(&full[at.stage], at.parity);
                const Stage& stage = ring[at.stage];
                wgmma_boxes(sum, stage.A_tile, stage.B_tile, step > 0);

                // Those of the step before are complete: its stage may be filled
                // again.
                wgmma_wait<1>();
                if (speaks && step > 0) {
                    barrier_arrive(in_use);
                }
                in_use = &empty[at.stage];
                at.advance();
            }
            if (speaks) {
                barrier_arrive(&turn[consumer ^ 1]);
            }
            turn_parity ^= 1;
            place += CONSUMERS * steps;
            wgmma_finish(sum);
            if (speaks) {
                barrier_arrive(in_use);
            }

            // Registers to global, while the other multiplies.
            #pragma unroll
            for (int i = 0; i < BM / MMA_M; ++i) {
                wgmma_store(C, M, N, tile.row * BM + i * MMA_M, tile.col * BN,
                            sum[i]);
            }
        }
    }
}
