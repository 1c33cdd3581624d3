// Hopper, step 1: one thread copies, four warps multiply straight from shared
// memory.
//
// A block is one warpgroup and computes a BM x BN tile of C. For each BK steps of k
// a single thread asks the copy engine (TMA) for the tiles of A and B; when their
// bytes have landed, the four warps issue wgmma, which reads both from shared
// memory and adds to sums in registers.
// New since 20_mma_tma.cu: wgmma in place of mma.sync, so no thread holds an
// element of A or B in a register any more. The ring and the roles are left out, to
// come back in 21_2_ring.cu.
//
// A is M x K, B is K x N, C is M x N, all row-major, of bfloat16 (or half); sums
// are FP32. A_map, B_map describe A and B in boxes of 64 x 64; rows of A and B
// start at 16-byte addresses.
// A_tile is (BM, BK) as BM / 64 boxes one below the other, B_tile is (BK, BN) as BN
// / 64 boxes side by side; box after box in memory.
// Block: 128 threads. Grid: cdiv(N, BN) x cdiv(M, BM).
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

using T = ELEMENT;

constexpr int BK = BOX;  // steps of k between barriers: one box
constexpr int A_TILE = BM * BK;
constexpr int B_TILE = BK * BN;
constexpr int TILE_BYTES = (A_TILE + B_TILE) * sizeof(T);

static_assert(sizeof(T) == 2, "a swizzled row is 64 elements of two bytes");
static_assert(BM % MMA_M == 0, "wgmma takes 64 rows");
static_assert(BN == 128 || BN == 256, "wgmma.cuh holds the shapes n128 and n256");
static_assert(BM / MMA_M * BN <= 256,
              "the sums of a thread must fit in its registers");

extern "C" __global__ void __launch_bounds__(WARPGROUP)
    wgmma_tma(const __grid_constant__ TensorMap A_map,
              const __grid_constant__ TensorMap B_map, T* C, int M, int N, int K)
{
    extern __shared__ unsigned char shared[];
    T* A_tile = reinterpret_cast<T*>(swizzle_aligned(shared));
    T* B_tile = A_tile + A_TILE;
    __shared__ Barrier landed;  // the tiles of this step are complete

    const int m0 = blockIdx.y * BM;  // origin of the block's tile of C
    const int n0 = blockIdx.x * BN;
    const bool copies = threadIdx.x == 0;

    if (copies) {
        barrier_init(&landed, 1);
        barrier_init_fence();
    }
    __syncthreads();

    float sum[BM / MMA_M][BN / 2];
    unsigned parity = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        // Global to shared: one thread announces the bytes and asks for the boxes.
        if (copies) {
            barrier_arrive_expect(&landed, TILE_BYTES);
            for (int m = 0; m < BM; m += BOX) {
                tma_load(A_tile + m * BK, &A_map, &landed, m0 + m, k0);
            }
            for (int n = 0; n < BN; n += BOX) {
                tma_load(B_tile + n * BK, &B_map, &landed, k0, n0 + n);
            }
        }
        barrier_wait(&landed, parity);
        parity ^= 1;

        // Shared to registers, through the Tensor Cores. The first product
        // overwrites the sums.
        wgmma_fence();
        #pragma unroll
        for (int k = 0; k < BK; k += MMA_K) {
            const auto b = describe_b(B_tile + k * BOX);
            #pragma unroll
            for (int i = 0; i < BM / MMA_M; ++i) {
                wgmma<T>(sum[i], describe_a(A_tile + i * MMA_M * BK + k), b,
                         k0 + k > 0);
            }
        }
        wgmma_commit();
        wgmma_finish(sum);
        // All four warps are done with the tiles: they may be overwritten.
        __syncthreads();
    }

    // Registers to global.
    #pragma unroll
    for (int i = 0; i < BM / MMA_M; ++i) {
        wgmma_store(C, M, N, m0 + i * MMA_M, n0, sum[i]);
    }
}
