// FP8 on Hopper: elements of one byte, a scale for every 128 of them along k, and
// sums that are promoted to FP32 as often.
//
// e4m3 holds 448 down to 2^-9, so whoever rounds to it divides by a scale first:
// one for 1 x 128 elements of A, one for 128 x 128 of B. Products of a stage, 128
// of k, share both. The Tensor Core adds these 128 with the few bits that it keeps
// for FP8; then FP32 units multiply by the scales and add to sums of their own,
// while it works for the other consumer.
// New since 21_3_persistent.cu: bytes, B by its columns, the scales, which come
// through the ring, and the second set of sums. It takes 64 registers of a thread,
// which is why a consumer's tiles of 64 rows take turns in it. C leaves by the copy
// engine, finished as in 22_epilogue.cu, but R comes straight from global memory.
//
// A is M x K, B is given as N x K (wgmma takes FP8 K-major alone), both of e4m3, a
// row filled with zeros up to a multiple of 16 bytes. A_scales is (K / 128) x M, so
// that a tile's are neighbours, its rows filled up to a multiple of BM; B_scales is
// (N / 128) x (K / 128), filled up to a multiple of 4; both FP32. C and R are M x N,
// bias is N, of bfloat16, rows at 16-byte addresses. All row-major. The copy engine
// does not look at what it moves: A_map, B_map describe pairs of elements, in boxes
// of 64 x 64 pairs; C_map describes C in boxes of 16 x 64.
// Block: 384 threads. Grid: at most one block an SM.
#include "common/box_store.cuh"
#include "common/bulk.cuh"
#include "common/elements.cuh"
#include "common/epilogue.cuh"
#include "common/tile_order.cuh"
#include "common/wgmma_fp8.cuh"

#ifndef BM
#define BM 256  // rows of C a block
#endif
#ifndef STAGES
#define STAGES 4  // tiles of A and B in the ring
#endif
#ifndef PROMOTE
#define PROMOTE 1  // stages that share a promotion, and so must share their scales
#endif
#ifndef GROUP_M
#define GROUP_M 8  // rows of tiles in a band of the walk
#endif
#ifndef C_BUFFERS
#define C_BUFFERS 1  // boxes of C that a warp may have on their way
#endif
#ifndef SMS
#define SMS 132  // SMs to fill: the host starts at most this many blocks
#endif

using T = E4m3;

// Columns of C a block, and steps of k a stage: those that share a scale of B.
constexpr int BN = 128;
constexpr int BK = FP8_BOX_K;
constexpr int PAIR = 2;  // elements that A_map and B_map take for one
constexpr int CONSUMERS = 2;
constexpr int WM = BM / CONSUMERS;  // rows of C a consumer warpgroup
constexpr int TILES = WM / MMA_M;   // of 64 rows, that take turns
constexpr int WARPS = CONSUMERS * WARPGROUP / 32;  // that consume
constexpr int THREADS = (1 + CONSUMERS) * WARPGROUP;
// A thread; with the consumers' they must fit in.
constexpr int PRODUCER_REGISTERS = 24;
constexpr int CONSUMER_REGISTERS = 240;  // the 65536 of an SM

// A tile of A and one of B, boxes of 64 rows one below the other.
struct Stage {
    T A_tile[BM * BK];
    T B_tile[BN * BK];
};

constexpr int B_AT_ONCE = 4;  // scales of B that one copy brings: 16 bytes

// What the sums of a stage are multiplied by.
struct alignas(16) Scales {
    float a[BM];
    float b[B_AT_ONCE];
};

using BoxBuffer = WarpBox<__nv_bfloat16>;

struct Shared {
    Stage ring[STAGES];
    BoxBuffer C_tile[WARPS][C_BUFFERS];  // of each warp
    Scales scales[STAGES];
};

static_assert(WM % MMA_M == 0, "wgmma takes 64 rows");
static_assert(TILES * BN / 2 <= 128,
              "the sums of a thread must fit in its registers");
static_assert(PROMOTE == 1 || TILES == 1,
              "sums that stay in the Tensor Core's form cannot take turns");
static_assert(SMS >= 1, "some block must run");
static_assert(STAGES >= 2, "one stage is used while another is filled");
static_assert(sizeof(Shared) <= MOST_BUFFERS,
              "a block has 227 KB of shared memory");

// The producer's one thread: the boxes of one step of k, into one stage. k0 counts
// pairs.
__device__ __forceinline__ void fill(Stage& stage, Barrier* full,
                                     const TensorMap* A_map, const TensorMap* B_map,
                                     int m0, int n0, int k0)
{
    barrier_arrive_expect(full, sizeof(Stage) + sizeof(Scales));
    for (int m = 0; m < BM; m += BOX) {
        tma_load(stage.A_tile + m * BK, A_map, full, m0 + m, k0);
    }
    for (int n = 0; n < BN; n += BOX) {
        tma_load(stage.B_tile + n * BK, B_map, full, n0 + n, k0);
    }
}

// Sums of the Tensor Core to FP32; scale holds those of this thread's two rows.
__device__ __forceinline__ void promote(float (&sum)[BN / 2],
                                        const float (&part)[BN / 2],
                                        const float (&scale)[2])
{
    #pragma unroll
    for (int i = 0; i < BN / 2; ++i) {
        sum[i] = fmaf(scale[i / 2 % 2], part[i], sum[i]);
    }
}

// A consumer warp: R, bias and GELU for its rows of a tile of 64, at (m0, n0).
__device__ __forceinline__ void finish(float (&sum)[BN / 2],
                                       const __nv_bfloat16* bias,
                                       const __nv_bfloat16* R, int m0, int n0, int M,
                                       int N)
{
    using Bf16 = __nv_bfloat16;
    const int row0 = m0 + threadIdx.x % 32 / 4;
    const int col0 = n0 + threadIdx.x % 4 * 2;
    const size_t R_row = (N + 7) / 8 * 8;
    #pragma unroll
    for (int i = 0; (BIAS || GELU || RESIDUAL) && i < BN / 2; i += 2) {
        // Global to registers: two neighbours of R, two of the bias.
        const int row = row0 + i / 2 % 2 * 8;
        const int col = col0 + i / 4 * 8;
        unsigned r = 0, b = 0;
        if (RESIDUAL && row < M && col < N) {
            r = *reinterpret_cast<const unsigned*>(R + row * R_row + col);
        }
        if (BIAS && col < N) {
            b = *reinterpret_cast<const unsigned*>(bias + col);
        }
        #pragma unroll
        for (int j = 0; j < 2; ++j) {
            const float x = sum[i + j];
            sum[i + j] = finished(RESIDUAL ? x + unpacked(r, j, Bf16()) : x,
                                  unpacked(b, j, Bf16()));
        }
    }
}

// The same warp: these sums, rounded, box by box.
__device__ __forceinline__ void store(const float (&sum)[BN / 2],
                                      BoxBuffer (&buffers)[C_BUFFERS],
                                      const TensorMap* C_map, int m0, int n0)
{
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int box = 0; box < BN / BOX; ++box) {
        __nv_bfloat16* C_tile = buffers[box % C_BUFFERS];
        if (lane == 0) {
            // This buffer's last box has been read.
            tma_store_wait_read<C_BUFFERS - 1>();
        }
        __syncwarp();
        unsigned pairs[BOX / 4];
        #pragma unroll
        for (int i = 0; i < BOX / 4; ++i) {
            const float* two = sum + box * BOX / 2 + 2 * i;
            pairs[i] = pack(two[0], two[1], __nv_bfloat16());
        }
        box_to_shared(C_tile, pairs, lane, lane % C_ROWS);
        // Shared to global: the copy engine leaves out what lies outside C.
        if (lane == 0) {
            tma_store(C_map, C_tile, m0, n0 + box * BOX);
            tma_store_commit();
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    wgmma_fp8(const __grid_constant__ TensorMap A_map,
              const __grid_constant__ TensorMap B_map,
              const __grid_constant__ TensorMap C_map, const float* A_scales,
              const float* B_scales, int M, int N, int K,
              const __nv_bfloat16* bias, const __nv_bfloat16* R)
{
    extern __shared__ unsigned char shared[];
    auto& [ring, C_tile, scales] =
        *reinterpret_cast<Shared*>(swizzle_aligned(shared));
    __shared__ Barrier full[STAGES];
    __shared__ Barrier empty[STAGES];

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            // The producer, and the bytes that it announces.
            barrier_init(&full[s], 1);
            barrier_init(&empty[s], WARPS);  // each has read its own scales
        }
        barrier_init_fence();
    }
    __syncthreads();

    const int rows = (M + BM - 1) / BM;  // tiles of C
    const int cols = (N + BN - 1) / BN;
    const int steps = (K + BK - 1) / BK;
    const int b_row = (steps + B_AT_ONCE - 1) / B_AT_ONCE * B_AT_ONCE;
    const int warpgroup = threadIdx.x / WARPGROUP;
    RingPlace<STAGES> at;

    if (warpgroup == 0) {
        registers_decrease<PRODUCER_REGISTERS>();
        if (threadIdx.x == 0) {
            for (int index = blockIdx.x; index < rows * cols; index += gridDim.x) {
                const TileIndex tile = tile_at<GROUP_M>(index, rows, cols);
                const float* a_scales = A_scales + tile.row * BM;
                const float* b_scales =
                    B_scales + static_cast<size_t>(tile.col) * b_row;
                for (int step = 0; step < steps; ++step) {
                    Barrier* here = &full[at.stage];
                    barrier_wait(&empty[at.stage], at.parity ^ 1);
                    fill(ring[at.stage], here, &A_map, &B_map, tile.row * BM,
                         tile.col * BN, step * BK / PAIR);
                    bulk_load(scales[at.stage].a,
                              a_scales + static_cast<size_t>(step) * rows * BM,
                              sizeof(Scales::a), here);
                    bulk_load(scales[at.stage].b,
                              b_scales + step / B_AT_ONCE * B_AT_ONCE,
                              sizeof(Scales::b), here);
                    at.advance();
                }
            }
        }
    } else {
        registers_increase<CONSUMER_REGISTERS>();
        const int consumer = warpgroup - 1;
        const int warp = threadIdx.x / 32 - WARPGROUP / 32;
        const int lane = threadIdx.x % 32;
        // Of a tile: this warp's first row, and this thread's (wgmma.cuh).
        const int warp_row = consumer * WM + warp % (WARPGROUP / 32) * C_ROWS;
        const int row = warp_row + lane / 4;
        for (int index = blockIdx.x; index < rows * cols; index += gridDim.x) {
            const TileIndex tile = tile_at<GROUP_M>(index, rows, cols);
            float sum[TILES][BN / 2] = {};
            float part[1][BN / 2];  // what the Tensor Core has added up
            for (int step = 0; step < steps; ++step) {
                barrier_wait(&full[at.stage], at.parity);
                const Stage& stage = ring[at.stage];
                const Scales& own = scales[at.stage];
                #pragma unroll
                for (int i = 0; i < TILES; ++i) {
                    wgmma_fp8_box(part[0],
                                  stage.A_tile + (consumer * WM + i * MMA_M) * BK,
                                  stage.B_tile, step % PROMOTE > 0);
                    // Shared to registers, while these products run.
                    const float b = own.b[step % B_AT_ONCE];
                    const float scale[2] = {own.a[row + i * MMA_M] * b,
                                            own.a[row + i * MMA_M + 8] * b};
                    wgmma_finish(part);
                    if (i == TILES - 1) {
                        __syncwarp();
                        if (lane == 0) {
                            barrier_arrive(&empty[at.stage]);
                        }
                    }
                    if (step % PROMOTE == PROMOTE - 1 || step == steps - 1) {
                        promote(sum[i], part[0], scale);
                    }
                }
                at.advance();
            }
            #pragma unroll
            for (int i = 0; i < TILES; ++i) {
                const int m0 = tile.row * BM + warp_row + i * MMA_M;
                finish(sum[i], bias, R, m0, tile.col * BN, M, N);
                store(sum[i], C_tile[warp], &C_map, m0, tile.col * BN);
            }
        }
        // Shared memory stays until the copy engine has read it.
        tma_store_wait_read<0>();
    }
}
