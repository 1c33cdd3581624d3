// Blackwell, step 5: elements of four bits, and a scale for every 16 of them.
//
// e2m1 knows 0, 1/2, 1, 3/2, 2, 3, 4, 6 and their negatives. What makes a matrix
// of them useful is a scale, e4m3, for each 16 neighbours along k (NVFP4): the
// Tensor Core multiplies by the scales of A and B itself. It reads them from tensor
// memory, where the thread that multiplies has them copied from shared memory, 128
// rows of four at a time.
// New since 24_2_roles.cu: four bits, B by its columns, the scales.
//
// A is M x K, B is given as N x K (four bits are K-major alone), two elements a
// byte, the first in the low half, rows at 16-byte addresses. Of the scales of A,
// those of 128 rows by 64 values of k are 512 neighbouring bytes, in which row r's
// four lie from byte 16 (r % 32) + 4 (r / 32) on; such blocks follow each other
// along k, filled up to a multiple of 256, then along M, filled up to 128; those of
// B likewise. C is M x N of bfloat16, row-major; sums are FP32. A_map, B_map
// describe bytes in boxes of 64 x 128.
// Block: 192 threads. Grid: cdiv(N, BN) x cdiv(M, 128).
#include "common/bulk.cuh"
#include "common/tcgen05.cuh"

#ifndef BN
#define BN 256  // columns of C a block
#endif
#ifndef STAGES
#define STAGES 4  // tiles of A and B in the ring
#endif

using T = __nv_bfloat16;  // of C

constexpr int BM = TILE_LANES;
constexpr int ROW_BYTES = 128;     // of a box, a swizzled row
constexpr int BK = 2 * ROW_BYTES;  // steps of k a stage
constexpr int STEP_K = 64;         // of them an instruction takes
constexpr int STEP_BYTES = STEP_K / 2;
constexpr int STEPS = BK / STEP_K;
constexpr int SCALES_BYTES = 512;  // of 128 rows for one instruction
constexpr int SCALES_COLUMNS = 4;  // of tensor memory, that these take
constexpr int A_COLUMNS = STEPS * SCALES_COLUMNS;
constexpr int B_BLOCKS = BN / 128;
constexpr int B_COLUMNS = B_BLOCKS * A_COLUMNS;
constexpr int COLUMNS = 512;
constexpr int STORES = 4;  // warps 0 to 3: a warpgroup, all lanes of tensor memory
constexpr int COPIES = 4, MULTIPLIES = 5;  // the warps whose first thread does
constexpr int THREADS = 192;

// Tiles, boxes of 64 rows one below the other, and their scales.
struct Stage {
    unsigned char A_tile[BM * ROW_BYTES];
    unsigned char B_tile[BN * ROW_BYTES];
    unsigned char A_scales[STEPS * SCALES_BYTES];
    unsigned char B_scales[B_BLOCKS * STEPS * SCALES_BYTES];
};

static_assert(BN == 128 || BN == 256, "scales come for 128 columns at once");
static_assert(STAGES >= 2, "one stage is used while another is filled");
static_assert(sizeof(Stage) % SWIZZLE_BYTES == 0, "each stage's boxes are aligned");
static_assert(STAGES * sizeof(Stage) <= MOST_BUFFERS,
              "a block has 227 KB of shared memory");
static_assert(BN + STAGES * (A_COLUMNS + B_COLUMNS) <= COLUMNS,
              "sums and scales must fit in tensor memory");

// What is multiplied: e2m1 by e2m1, scales of e4m3.
constexpr unsigned WHAT = 1u << 7 | 1u << 10 | BN / 8u << 17 | BM / 128u << 27;

// 32 rows of 16 bytes to all four quarters of the lanes, at once, in four columns.
__device__ __forceinline__ void copy_scales(unsigned to, const void* from) {
    const unsigned long long rows = describe(from, 16, 128) & ~(7ull << 61);
    asm volatile("tcgen05.cp.cta_group::1.32x128b.warpx4 [%0], %1;" ::"r"(to),
                 "l"(rows)
                 : "memory");
}

// sums = A B + (accumulate ? sums : 0), each row of A and column of B times its
// scales.
__device__ __forceinline__ void scaled_mma(unsigned sums, unsigned long long a,
                                           unsigned long long b, unsigned a_scales,
                                           unsigned b_scales, bool accumulate)
{
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %6, 0;\n"
        "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale.scale_vec::4X "
        "[%0], %1, %2, %3, [%4], [%5], add;\n"
        "}\n" ::"r"(sums),
        "l"(a), "l"(b), "r"(WHAT), "r"(a_scales), "r"(b_scales),
        "r"(static_cast<int>(accumulate))
        : "memory");
}

// Fills stage after stage of the ring. steps: of the padded k, for the scales.
__device__ void produce(Stage* ring, Barrier* full, Barrier* empty,
                        const TensorMap* A_map, const TensorMap* B_map,
                        const unsigned char* A_scales,
                        const unsigned char* B_scales, int m0, int n0, int rounds)
{
    RingPlace<STAGES> at;
    const size_t row_of_blocks = static_cast<size_t>(rounds) * STEPS * SCALES_BYTES;
    for (int round = 0; round < rounds; ++round) {
        // At once in the first round.
        barrier_wait(&empty[at.stage], at.parity ^ 1);
        Stage& stage = ring[at.stage];
        Barrier* here = &full[at.stage];
        barrier_arrive_expect(here, sizeof(Stage));
        for (int m = 0; m < BM; m += BOX) {
            tma_load(stage.A_tile + m * ROW_BYTES, A_map, here, m0 + m,
                     round * ROW_BYTES);
        }
        for (int n = 0; n < BN; n += BOX) {
            tma_load(stage.B_tile + n * ROW_BYTES, B_map, here, n0 + n,
                     round * ROW_BYTES);
        }
        const size_t along = static_cast<size_t>(round) * STEPS * SCALES_BYTES;
        bulk_load(stage.A_scales, A_scales + m0 / 128 * row_of_blocks + along,
                  sizeof(stage.A_scales), here);
        for (int b = 0; b < B_BLOCKS; ++b) {
            bulk_load(stage.B_scales + b * STEPS * SCALES_BYTES,
                      B_scales + (n0 / 128 + b) * row_of_blocks + along,
                      STEPS * SCALES_BYTES, here);
        }
        at.advance();
    }
}

// Multiplies stage after stage. The first product overwrites the sums.
__device__ void multiply(Stage* ring, Barrier* full, Barrier* empty,
                         Barrier* complete, unsigned sums, int rounds)
{
    RingPlace<STAGES> at;
    for (int round = 0; round < rounds; ++round) {
        barrier_wait(&full[at.stage], at.parity);
        tensor_fence_after();
        Stage& stage = ring[at.stage];
        // This stage's own columns: products of others may still read theirs.
        const unsigned a_scales = sums + BN + at.stage * (A_COLUMNS + B_COLUMNS);
        const unsigned b_scales = a_scales + A_COLUMNS;
        for (int step = 0; step < STEPS; ++step) {
            const int from = step * SCALES_BYTES;
            copy_scales(a_scales + step * SCALES_COLUMNS, stage.A_scales + from);
            for (int b = 0; b < B_BLOCKS; ++b) {
                copy_scales(b_scales + (step * B_BLOCKS + b) * SCALES_COLUMNS,
                            stage.B_scales + b * STEPS * SCALES_BYTES + from);
            }
        }
        for (int step = 0; step < STEPS; ++step) {
            scaled_mma(sums, describe_a(stage.A_tile + step * STEP_BYTES),
                       describe_a(stage.B_tile + step * STEP_BYTES),
                       a_scales + step * SCALES_COLUMNS,
                       b_scales + step * B_BLOCKS * SCALES_COLUMNS,
                       round + step > 0);
        }
        tensor_commit(&empty[at.stage]);
        at.advance();
    }
    tensor_commit(complete);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    tensor_scaled(const __grid_constant__ TensorMap A_map,
                  const __grid_constant__ TensorMap B_map,
                  const unsigned char* A_scales, const unsigned char* B_scales,
                  T* C, int M, int N, int K)
{
    extern __shared__ unsigned char shared[];
    Stage* ring = reinterpret_cast<Stage*>(swizzle_aligned(shared));
    __shared__ Barrier full[STAGES];
    __shared__ Barrier empty[STAGES];
    __shared__ Barrier complete;  // all products of the tile
    __shared__ unsigned columns;  // where the sums lie in tensor memory

    const int m0 = blockIdx.y * BM;  // origin of the block's tile of C
    const int n0 = blockIdx.x * BN;
    const int rounds = (K + BK - 1) / BK;
    const int warp = threadIdx.x / 32;

    if (warp == 0) {
        tensor_alloc<COLUMNS>(&columns);
    }
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            // The producer, and the bytes that it announces.
            barrier_init(&full[s], 1);
            barrier_init(&empty[s], 1);  // the products that read it
        }
        barrier_init(&complete, 1);
        barrier_init_fence();
    }
    tensor_fence_before();
    __syncthreads();
    tensor_fence_after();
    const unsigned sums = columns;

    if (threadIdx.x == COPIES * 32) {
        produce(ring, full, empty, &A_map, &B_map, A_scales, B_scales, m0, n0,
                rounds);
    } else if (threadIdx.x == MULTIPLIES * 32) {
        multiply(ring, full, empty, &complete, sums, rounds);
    } else if (warp < STORES) {
        barrier_wait(&complete, 0);
        tensor_fence_after();
        for (int n = 0; n < BN; n += 32) {
            float sum[32];
            tensor_load(sum, sums + n);
            tensor_load_wait();
            store_sums(C, M, N, m0 + threadIdx.x, n0 + n, sum);
        }
        tensor_fence_before();
    }
    __syncthreads();
    if (warp == 0) {
        tensor_free<COLUMNS>(sums);
    }
}
