// The core of 22_5_overlapped.cu, without its clusters: a tile leaves later.
// Whole tiles only: M is a multiple of 128, N of 256, K of 64.
#include "common/stmatrix.cuh"
#include "common/tile_order.cuh"
#include "common/wgmma.cuh"

using T = __nv_bfloat16;

const int BM = 128, BN = 256, BK = BOX, STAGES = 4, GROUP_M = 8, C_BUFFERS = 2;
const int CONSUMERS = 2, WM = BM / CONSUMERS, C_ROWS = 16, C_BOXES = BN / BOX;

struct Packed {  // the tile before, two rounded elements a register
    unsigned pairs[1][BN / 4];
    int m0, n0;          // where this warp's rows of it go
    bool waits = false;  // it has still to leave
};

// One box of a warp: registers to shared to global.
__device__ void store(const Packed& c, int box,
                      T (&buffers)[C_BUFFERS][C_ROWS * BOX], const TensorMap* C_map)
{
    const int lane = threadIdx.x % 32, row = lane % C_ROWS;
    T* C_tile = buffers[box % C_BUFFERS];
    if (lane == 0)
        tma_store_wait_read<C_BUFFERS - 1>();  // this buffer's last box is read
    __syncwarp();
    #pragma unroll
    for (int i = 0; i < C_BOXES; ++i)  // registers have no index at run time
        for (int j = 0; i == box && j < BOX / 16; ++j) {
            const int chunk = (2 * j + lane / C_ROWS) ^ (row % 8);
            stmatrix_x4(C_tile + row * BOX + chunk * 8,
                        c.pairs[0] + i * (BOX / 4) + 4 * j);
        }
    tma_store_fence();  // what the lanes have stored, the engine may read
    __syncwarp();
    if (lane == 0) {
        tma_store(C_map, C_tile, c.m0, c.n0 + box * BOX);
        tma_store_commit();
    }
}

extern "C" __global__ void __launch_bounds__(384, 1)
wgmma_overlapped_core(const __grid_constant__ TensorMap A_map,
                      const __grid_constant__ TensorMap B_map,
                      const __grid_constant__ TensorMap C_map, int M, int N, int K)
{
    struct Shared {
        T A_tile[STAGES][BM * BK], B_tile[STAGES][BK * BN];
        T C_tile[4 * CONSUMERS][C_BUFFERS][C_ROWS * BOX];  // of each warp
    };
    extern __shared__ unsigned char shared[];
    auto& [A_tile, B_tile, C_tile] =
        *reinterpret_cast<Shared*>(swizzle_aligned(shared));
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
                Barrier* barrier = &full[at.stage];
                barrier_wait(&empty[at.stage], at.parity ^ 1);
                barrier_arrive_expect(barrier, (BM + BN) * BK * sizeof(T));
                for (int m = 0; m < BM; m += BOX)
                    tma_load(A_tile[at.stage] + m * BK, &A_map, barrier,
                             tile.row * BM + m, k0);
                for (int n = 0; n < BN; n += BOX)
                    tma_load(B_tile[at.stage] + n * BK, &B_map, barrier, k0,
                             tile.col * BN + n);
                at.advance();
            }
        }
        return;
    }

    registers_increase<232>();  // the consumers: each warpgroup half of the rows
    const int consumer = threadIdx.x / WARPGROUP - 1, warp = threadIdx.x / 32 - 4;
    Packed done;  // the tile before
    for (int index = blockIdx.x; index < rows * cols; index += gridDim.x) {
        const TileIndex tile = tile_at<GROUP_M>(index, rows, cols);
        float sum[1][BN / 2];
        Barrier* in_use = nullptr;  // of the stage whose products are still running
        for (int k0 = 0; k0 < K; k0 += BK) {
            barrier_wait(&full[at.stage], at.parity);
            wgmma_boxes(sum, A_tile[at.stage] + consumer * WM * BK,
                        B_tile[at.stage], k0 > 0);
            wgmma_wait<1>();  // those of the step before are complete
            if (threadIdx.x % WARPGROUP == 0 && k0 > 0)
                barrier_arrive(in_use);
            in_use = &empty[at.stage];
            at.advance();
            if (done.waits && k0 / BK < C_BOXES)  // a box leaves while these run
                store(done, k0 / BK, C_tile[warp], &C_map);
        }
        for (int box = K / BK; done.waits && box < C_BOXES; ++box)
            store(done, box, C_tile[warp], &C_map);  // what so few steps have left
        wgmma_finish(sum);
        if (threadIdx.x % WARPGROUP == 0)
            barrier_arrive(in_use);
        wgmma_pack<T>(done.pairs, sum);  // makes room for the next tile
        done.m0 = tile.row * BM + warp * C_ROWS, done.n0 = tile.col * BN;
        done.waits = true;
    }
    for (int box = 0; done.waits && box < C_BOXES; ++box)
        store(done, box, C_tile[warp], &C_map);
    tma_store_wait_read<0>();  // shared memory stays until the engine has read it
}
