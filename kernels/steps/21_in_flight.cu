// Hopper: one group of wgmma is always in flight.
//
// New since 21_2_ring.cu: the consumers issue the next stage's products before
// those of the last one are complete, and hand that one back a step later, so the
// Tensor Cores need not wait for the thread that speaks.
//
// A is M x K, B is K x N, C is M x N, all row-major, of bfloat16 (or half); sums
// are FP32. A_map, B_map describe A and B in boxes of 64 x 64; rows of A and B
// start at 16-byte addresses.
// Block: 160 threads. Grid: cdiv(N, BN) x cdiv(M, BM).
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
#define STAGES 3  // tiles of A and B in the ring
#endif

using T = ELEMENT;

constexpr int BK = BOX;  // steps of k a stage: one box
constexpr int THREADS = WARPGROUP + 32;

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
static_assert(STAGES >= 2, "one stage is used while another is filled");
static_assert(STAGES * sizeof(Stage) <= MOST_BUFFERS,
              "a block has 227 KB of shared memory");

// The producer's one thread: fills stage after stage of the ring.
__device__ void produce(Stage* ring, Barrier* full, Barrier* empty,
                        const TensorMap* A_map, const TensorMap* B_map, int m0,
                        int n0, int K)
{
    RingPlace<STAGES> at;
    for (int k0 = 0; k0 < K; k0 += BK) {
        // At once in the first round.
        barrier_wait(&empty[at.stage], at.parity ^ 1);

        // Global to shared: announce the bytes and ask for the boxes.
        Stage& stage = ring[at.stage];
        barrier_arrive_expect(&full[at.stage], sizeof(Stage));
        for (int m = 0; m < BM; m += BOX) {
            tma_load(stage.A_tile + m * BK, A_map, &full[at.stage], m0 + m, k0);
        }
        for (int n = 0; n < BN; n += BOX) {
            tma_load(stage.B_tile + n * BK, B_map, &full[at.stage], k0, n0 + n);
        }
        at.advance();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
    wgmma_in_flight(const __grid_constant__ TensorMap A_map,
                    const __grid_constant__ TensorMap B_map, T* C, int M, int N,
                    int K)
{
    extern __shared__ unsigned char shared[];
    Stage* ring = reinterpret_cast<Stage*>(swizzle_aligned(shared));
    __shared__ Barrier full[STAGES];
    __shared__ Barrier empty[STAGES];

    const int m0 = blockIdx.y * BM;  // origin of the block's tile of C
    const int n0 = blockIdx.x * BN;

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            // The producer, and the bytes that it announces.
            barrier_init(&full[s], 1);
            barrier_init(&empty[s], 1);  // one thread for the consumers
        }
        barrier_init_fence();
    }
    __syncthreads();

    if (threadIdx.x >= WARPGROUP) {
        if (threadIdx.x == WARPGROUP) {
            produce(ring, full, empty, &A_map, &B_map, m0, n0, K);
        }
        return;
    }

    float sum[BM / MMA_M][BN / 2];
    Barrier* in_use = nullptr;  // of the stage whose products are still running
    RingPlace<STAGES> at;
    for (int k0 = 0; k0 < K; k0 += BK) {
        barrier_wait(&full[at.stage], at.parity);
        const Stage& stage = ring[at.stage];
        wgmma_boxes(sum, stage.A_tile, stage.B_tile, k0 > 0);

        // Those of the step before are complete: its stage may be filled again.
        wgmma_wait<1>();
        if (threadIdx.x == 0 && k0 > 0) {
            barrier_arrive(in_use);
        }
        in_use = &empty[at.stage];
        at.advance();
    }
    wgmma_finish(sum);

    // Registers to global.
    #pragma unroll
    for (int i = 0; i < BM / MMA_M; ++i) {
        wgmma_store(C, M, N, m0 + i * MMA_M, n0, sum[i]);
    }
}
