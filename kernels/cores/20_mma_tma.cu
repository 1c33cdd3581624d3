// The core of 20_mma_tma.cu: one thread asks for boxes, eight warps multiply them.
// Whole tiles only: M is a multiple of 128, N of 256, K of 64.
#include "common/fragments.cuh"
#include "common/tile_order.cuh"
#include "common/tma.cuh"

using T = __half;

extern "C" __global__ void __launch_bounds__(384, 1)
mma_tma_core(const __grid_constant__ TensorMap A_map,
             const __grid_constant__ TensorMap B_map, float* C, int M, int N, int K)
{
    const int BM = 128, BN = 256, BK = BOX, WM = 64, WN = 64, STAGES = 4;
    const int GROUP_M = 8, WARPGROUP = 128, WARPS = BM / WM * (BN / WN);
    const int M_TILES = WM / MMA_M, N_TILES = WN / MMA_N;
    struct Slot {
        T A_tile[BM * BK];
        T B_tile[BK * BN];
    };
    extern __shared__ unsigned char shared[];
    Slot* ring = reinterpret_cast<Slot*>(swizzle_aligned(shared));
    __shared__ Barrier full[STAGES], empty[STAGES];  // landed; may be filled again
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            barrier_init(&full[s], 1);       // the thread that asks
            barrier_init(&empty[s], WARPS);  // a lane of each warp that reads
        }
        barrier_init_fence();
    }
    __syncthreads();
    const int rows = M / BM, cols = N / BN;
    RingPlace<STAGES> place;

    if (threadIdx.x < WARPGROUP) {  // the producer: one thread asks
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        for (int tile = blockIdx.x; tile < rows * cols; tile += gridDim.x) {
            const TileIndex at = tile_at<GROUP_M>(tile, rows, cols);
            for (int k0 = 0; threadIdx.x == 0 && k0 < K; k0 += BK) {
                barrier_wait(&empty[place.stage], place.parity ^ 1);
                Slot& slot = ring[place.stage];
                barrier_arrive_expect(&full[place.stage], sizeof(Slot));
                for (int m = 0; m < BM; m += BOX)
                    tma_load(slot.A_tile + m * BK, &A_map, &full[place.stage],
                             at.row * BM + m, k0);
                for (int n = 0; n < BN; n += BOX)
                    tma_load(slot.B_tile + n * BK, &B_map, &full[place.stage], k0,
                             at.col * BN + n);
                place.advance();
            }
        }
        return;
    }

    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");  // those that multiply
    const int warp = threadIdx.x / 32 - 4, lane = threadIdx.x % 32;
    const int warp_m = warp / (BN / WN) * WM, warp_n = warp % (BN / WN) * WN;
    for (int tile = blockIdx.x; tile < rows * cols; tile += gridDim.x) {
        const TileIndex at = tile_at<GROUP_M>(tile, rows, cols);
        float sum[M_TILES][N_TILES][4] = {};
        for (int k0 = 0; k0 < K; k0 += BK) {
            barrier_wait(&full[place.stage], place.parity);
            const Slot& slot = ring[place.stage];
            const unsigned a_lane = a_address<BOX>(slot.A_tile, warp_m);
            const unsigned b_lane = b_address<BOX>(slot.B_tile + warp_n * BK, 0);
            #pragma unroll
            for (int k = 0; k < BK; k += 16) {
                // Shared to registers; then all of A's fragments meet all of B's.
                unsigned a_frag[M_TILES][4], b_frag[N_TILES / 2][4];
                load_fragments<BOX, BOX>(a_frag, b_frag, a_lane, b_lane, k);
                multiply<T, 16>(sum, a_frag, b_frag);
            }
            __syncwarp();  // all lanes have their values in registers
            if (lane == 0)
                barrier_arrive(&empty[place.stage]);
            place.advance();
        }
        for (int i = 0; i < M_TILES; ++i)  // registers to global
            for (int j = 0; j < N_TILES; ++j)
                mma_store(C, M, N, at.row * BM + warp_m + i * MMA_M,
                          at.col * BN + warp_n + j * MMA_N, sum[i][j], true);
    }
}
