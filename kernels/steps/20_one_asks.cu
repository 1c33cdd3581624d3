// Hopper, before wgmma: one of the threads that multiply asks the copy engine.
//
// New since 19_mma_pipelined.cu: TMA in place of cp.async. One thread asks for
// whole boxes of A and B, STAGES - 1 slots ahead; a barrier in shared memory says
// when a slot's bytes have landed. Who has read a slot still waits for the others.
//
// A is M x K, B is K x N of 2-byte elements, C is M x N of floats, all row-major.
// A_map, B_map describe A and B in boxes of 64 x 64; rows of A and B start at
// 16-byte addresses.
// Block: BM/WM * BN/WN warps.
// Grid: cdiv(M, BM) * cdiv(N, BN).
#include "common/fragments.cuh"
#include "common/tile_order.cuh"
#include "common/tma.cuh"

#ifndef ELEMENT
#define ELEMENT __half  // element type of A and B: __half or __nv_bfloat16
#endif
#ifndef BM
#define BM 128  // rows of C of a block
#endif
#ifndef BN
#define BN 256  // columns of C of a block
#endif
#ifndef WM
#define WM 64  // rows of C of a warp
#endif
#ifndef WN
#define WN 64  // columns of C of a warp
#endif
#ifndef STAGES
#define STAGES 4  // slots of the ring
#endif
#ifndef GROUP_M
#define GROUP_M 8  // tile rows of C that are walked together
#endif

using T = ELEMENT;

constexpr int BK = BOX;  // steps of k in a slot: one box
constexpr int MMA_K = 16;
constexpr int STEPS = BK / MMA_K;
constexpr int WARPS_N = BN / WN;
constexpr int WARPS = BM / WM * WARPS_N;
constexpr int THREADS = WARPS * 32;
constexpr int M_TILES = WM / MMA_M;  // accumulators of a warp, down
constexpr int N_TILES = WN / MMA_N;  // and across

// A tile of A, BM / 64 boxes one below the other, and one of B, BN / 64 boxes side
// by side.
struct Slot {
    T A_tile[BM * BK];
    T B_tile[BK * BN];
};

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles must cover the block tile");
static_assert(BM % BOX == 0 && BN % BOX == 0, "tiles are made of boxes of 64 x 64");
static_assert(WM % 16 == 0, "a warp tile is made of 16 x 16 pieces");
static_assert(WN == 16 || WN == 32 || WN == 64,
              "a warp's columns lie in one box, one XOR apart");
static_assert(WM * WN <= 4096,
              "a lane keeps WM * WN / 32 accumulators in registers: 128 at most");
static_assert(STAGES >= 2, "one slot is read while another is filled");
static_assert(STAGES * sizeof(Slot) <= MOST_BUFFERS,
              "a block has 227 KB of shared memory");

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    mma_one_asks(const __grid_constant__ TensorMap A_map,
                 const __grid_constant__ TensorMap B_map, float* C, int M, int N,
                 int K)
{
    extern __shared__ unsigned char shared[];
    Slot* ring = reinterpret_cast<Slot*>(swizzle_aligned(shared));
    __shared__ Barrier full[STAGES];  // a slot's bytes have landed

    const TileIndex at =
        tile_at<GROUP_M>(blockIdx.x, (M + BM - 1) / BM, (N + BN - 1) / BN);
    const int warp = threadIdx.x / 32;
    RingPlace<STAGES> place;

    if (threadIdx.x == 0) {
        for (int stage = 0; stage < STAGES; ++stage) {
            barrier_init(&full[stage], 1);
        }
        barrier_init_fence();
    }
    __syncthreads();  // the barriers are set up

    // Global to shared: one thread announces the bytes and asks for the boxes.
    const auto fill = [&](int index, int k0) {
        Slot& slot = ring[index];
        barrier_arrive_expect(&full[index], sizeof(Slot));
        for (int m = 0; m < BM; m += BOX) {
            tma_load(slot.A_tile + m * BK, &A_map, &full[index], at.row * BM + m,
                     k0);
        }
        for (int n = 0; n < BN; n += BOX) {
            tma_load(slot.B_tile + n * BK, &B_map, &full[index], k0,
                     at.col * BN + n);
        }
    };
    if (threadIdx.x == 0) {
        for (int ahead = 0; ahead < STAGES - 1 && ahead * BK < K; ++ahead) {
            fill(ahead, ahead * BK);
        }
    }

    // This lane's addresses in slot 0; the warp's columns of B lie in one box of
    // 64.
    const int warp_m = warp / WARPS_N * WM;  // the warp's tile inside the block's
    const int warp_n = warp % WARPS_N * WN;
    const unsigned a_lane = a_address<BOX>(ring->A_tile, warp_m);
    const unsigned b_lane =
        b_address<BOX>(ring->B_tile + warp_n / BOX * BOX * BK, warp_n % BOX);
    const bool pairs = N % 2 == 0 && reinterpret_cast<size_t>(C) % 8 == 0;

    unsigned a_frag[2][M_TILES][4];
    unsigned b_frag[2][N_TILES / 2][4];  // two fragments of B each
    barrier_wait(&full[0], 0);
    load_fragments<BOX, BOX>(a_frag[0], b_frag[0], a_lane, b_lane, 0);

    float sum[M_TILES][N_TILES][4] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        const int stage = place.stage;
        place.advance();
        // The slot that everyone has left one step ago.
        if (threadIdx.x == 0 && k0 + (STAGES - 1) * BK < K) {
            fill((stage + STAGES - 1) % STAGES, k0 + (STAGES - 1) * BK);
        }
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            // Shared to registers: the fragments of the next step, the last time of
            // the next slot.
            const bool last = step == STEPS - 1;
            const bool more = !last || k0 + BK < K;
            if (last && more) {
                barrier_wait(&full[place.stage], place.parity);
            }
            const unsigned from =
                (last ? place.stage : stage) * unsigned(sizeof(Slot));
            if (more) {  // beyond the last slot nothing has landed
                load_fragments<BOX, BOX>(a_frag[(step + 1) % 2],
                                         b_frag[(step + 1) % 2], a_lane + from,
                                         b_lane + from,
                                         last ? 0 : (step + 1) * MMA_K);
            }
            multiply<T, MMA_K>(sum, a_frag[step % 2], b_frag[step % 2]);
        }
        // The slot's last values are in everyone's registers.
        __syncthreads();
    }

    // Registers to global.
    #pragma unroll
    for (int i = 0; i < M_TILES; ++i) {
        #pragma unroll
        for (int j = 0; j < N_TILES; ++j) {
            mma_store(C, M, N, at.row * BM + warp_m + i * MMA_M,
                      at.col * BN + warp_n + j * MMA_N, sum[i][j], pairs);
        }
    }
}
