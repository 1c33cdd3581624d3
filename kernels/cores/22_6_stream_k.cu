// The core of 22_6_stream_k.cu, without its clusters: tiles are cut along k.
// Whole tiles only: M is a multiple of 128, N of 256, K of 64.
#include "common/hand_over.cuh"
#include "common/stmatrix.cuh"
#include "common/stream_k.cuh"
#include "common/wgmma.cuh"

using T = __nv_bfloat16;

const int BM = 128, BN = 256, BK = BOX, STAGES = 4, GROUP_M = 8, C_BUFFERS = 2;
const int CONSUMERS = 2, WM = BM / CONSUMERS, C_ROWS = 16, C_BOXES = BN / BOX;

// Those of a warp's boxes whose bits are set: registers to shared to global.
__device__ void store(const unsigned* pairs, unsigned boxes, int m0, int n0,
                      T (&buffers)[C_BUFFERS][C_ROWS * BOX], const TensorMap* C_map)
{
    const int lane = threadIdx.x % 32, row = lane % C_ROWS;
    #pragma unroll
    for (int i = 0; i < C_BOXES; ++i) {
        if (boxes >> i & 1) {
            T* C_tile = buffers[i % C_BUFFERS];
            tma_store_wait_read<0>();  // any buffer may be the next
            __syncwarp();
            for (int j = 0; j < BOX / 16; ++j) {  // swizzled as the engine reads
                const int chunk = (2 * j + lane / C_ROWS) ^ (row % 8);
                stmatrix_x4(C_tile + row * BOX + chunk * 8,
                            pairs + i * (BOX / 4) + 4 * j);
            }
            tma_store_fence();  // what the lanes have stored, the engine may read
            __syncwarp();
            if (lane == 0) {
                tma_store(C_map, C_tile, m0, n0 + i * BOX);
                tma_store_commit();
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(384, 1)
wgmma_stream_k_core(const __grid_constant__ TensorMap A_map,
                    const __grid_constant__ TensorMap B_map,
                    const __grid_constant__ TensorMap C_map, float4* partial,
                    int* arrived, int whole, int ranges, int M, int N, int K)
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
    const int rows = M / BM, cols = N / BN, steps = K / BK;
    StreamK walk(blockIdx.x, gridDim.x, rows * cols, steps, whole, ranges);
    Piece piece;  // steps of k of one tile
    RingPlace<STAGES> at;

    if (threadIdx.x < WARPGROUP) {  // the producer: one thread copies
        registers_decrease<40>();
        while (threadIdx.x == 0 && walk.take(piece, steps)) {
            const TileIndex tile = tile_at<GROUP_M>(piece.tile, rows, cols);
            #pragma unroll 1
            for (int step = piece.begin; step < piece.end; ++step) {
                Barrier* barrier = &full[at.stage];
                barrier_wait(&empty[at.stage], at.parity ^ 1);
                barrier_arrive_expect(barrier, (BM + BN) * BK * sizeof(T));
                for (int m = 0; m < BM; m += BOX)
                    tma_load(A_tile[at.stage] + m * BK, &A_map, barrier,
                             tile.row * BM + m, step * BK);
                for (int n = 0; n < BN; n += BOX)
                    tma_load(B_tile[at.stage] + n * BK, &B_map, barrier, step * BK,
                             tile.col * BN + n);
                at.advance();
            }
        }
        return;
    }

    registers_increase<232>();  // the consumers: each warpgroup half of the rows
    const int consumer = threadIdx.x / WARPGROUP - 1, warp = threadIdx.x / 32 - 4;
    while (walk.take(piece, steps)) {
        float sum[1][BN / 2];
        Barrier* in_use = nullptr;  // of the stage whose products are still running
        for (int step = piece.begin; step < piece.end; ++step) {
            barrier_wait(&full[at.stage], at.parity);
            wgmma_boxes(sum, A_tile[at.stage] + consumer * WM * BK,
                        B_tile[at.stage], step > piece.begin);
            wgmma_wait<1>();  // those of the step before are complete
            if (threadIdx.x % WARPGROUP == 0 && step > piece.begin)
                barrier_arrive(in_use);
            in_use = &empty[at.stage];
            at.advance();
        }
        wgmma_finish(sum);
        if (threadIdx.x % WARPGROUP == 0)
            barrier_arrive(in_use);

        unsigned boxes = (1u << C_BOXES) - 1;  // those that are stored here: all,
        if (piece.end - piece.begin < steps) {  // or of a part of a tile, a share
            const Sharers sharers = walk.sharers(piece);
            const auto slot = [&](int part) {  // where it leaves what others store
                const int number = 2 * (sharers.first + part) + (part == 0);
                return partial + (number * CONSUMERS + consumer) * (WM * BN / 4);
            };
            boxes = add_up(sum, sharers, blockIdx.x - sharers.first, boxes,
                           arrived + sharers.first * CONSUMERS + consumer, slot);
        }
        unsigned pairs[1][BN / 4];
        wgmma_pack<T>(pairs, sum);
        const TileIndex tile = tile_at<GROUP_M>(piece.tile, rows, cols);
        store(pairs[0], boxes, tile.row * BM + warp * C_ROWS, tile.col * BN,
              C_tile[warp], &C_map);
    }
    tma_store_wait_read<0>();  // shared memory stays until the engine has read it
}
