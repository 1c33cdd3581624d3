// Hopper, step 3: a tile of 128 x 256 for two consumer warpgroups, and blocks that
// stay.
//
// One block runs on each SM and computes tile after tile of C. Each consumer
// warpgroup owns 64 of the tile's rows, so both read the same B_tile; the third
// warpgroup gives its registers to them and one of its threads copies. While
// consumers store a tile, the producer already fills the ring for the next one.
// New since 21_2_ring.cu: the larger tile (fewer bytes copied for each
// multiply-add), setmaxnreg, the walk over tiles in bands that share operands in
// L2, and one group of wgmma always in flight: a stage is handed back when the next
// one's products have been issued.
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
#define BN 256  // columns of C a block
#endif
#ifndef STAGES
#define STAGES 4  // tiles of A and B in the ring
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
constexpr int WM = BM / CONSUMERS;  // rows of C a consumer warpgroup
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
static_assert(WM % MMA_M == 0, "wgmma takes 64 rows");
static_assert(BN == 128 || BN == 256, "wgmma.cuh holds the shapes n128 and n256");
static_assert(WM / MMA_M * BN <= 256,
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
    wgmma_persistent(const __grid_constant__ TensorMap A_map,
                     const __grid_constant__ TensorMap B_map, T* C, int M, int N,
                     int K)
{
    extern __shared__ unsigned char shared[];
    Stage* ring = reinterpret_cast<Stage*>(swizzle_aligned(shared));
    __shared__ Barrier full[STAGES];
    __shared__ Barrier empty[STAGES];

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            // The producer, and the bytes that it announces.
            barrier_init(&full[s], 1);
            barrier_init(&empty[s], CONSUMERS);  // one thread of each consumer
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
        for (int index = blockIdx.x; index < rows * cols; index += gridDim.x) {
            const TileIndex tile = tile_at<GROUP_M>(index, rows, cols);
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
                if (speaks && step > 0) {
                    barrier_arrive(in_use);
                }
                in_use = &empty[at.stage];
                at.advance();
            }
            wgmma_finish(sum);
            if (speaks) {
                barrier_arrive(in_use);
            }

            // Registers to global.
            #pragma unroll
            for (int i = 0; i < WM / MMA_M; ++i) {
                wgmma_store(C, M, N, tile.row * BM + consumer * WM + i * MMA_M,
                            tile.col * BN, sum[i]);
            }
        }
    }
}
