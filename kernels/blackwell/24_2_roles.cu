// Blackwell, step 2: warps with roles. One copies, one multiplies, four store.
//
// A ring of tiles lies between the warp that copies and the one that multiplies; of
// each only one thread works. Products let a stage go themselves: the barrier that
// says it is empty is the one at which they arrive.
// New since 24_1_tensor_memory.cu: the roles, and the ring. What 21_2_ring.cu had
// four warps for is one thread's work here.
//
// A is M x K, B is K x N, C is M x N, all row-major, of bfloat16 (or half); sums
// are FP32. A_map, B_map describe A and B in boxes of 64 x 64; rows of A and B
// start at 16-byte addresses.
// Block: 192 threads. Grid: cdiv(N, BN) x cdiv(M, 128).
#include "common/tcgen05.cuh"

#ifndef ELEMENT
#define ELEMENT __nv_bfloat16  // or half
#endif
#ifndef BN
#define BN 256  // columns of C a block
#endif
#ifndef STAGES
#define STAGES 4  // tiles of A and B in the ring
#endif

using T = ELEMENT;

constexpr int BM = TILE_LANES;
constexpr int BK = BOX;  // steps of k a stage: one box
constexpr int STORES = 4;  // warps 0 to 3: a warpgroup, all lanes of tensor memory
constexpr int COPIES = 4, MULTIPLIES = 5;  // the warps whose first thread does
constexpr int THREADS = 192;

// A tile of A, BM / 64 boxes one below the other, and one of B, BN / 64 boxes side
// by side.
struct Stage {
    T A_tile[BM * BK];
    T B_tile[BK * BN];
};

static_assert(sizeof(T) == 2, "a swizzled row is 64 elements of two bytes");
static_assert(BN == 64 || BN == 128 || BN == 256, "whole boxes, a power of two");
static_assert(STAGES >= 2, "one stage is used while another is filled");
static_assert(STAGES * sizeof(Stage) <= MOST_BUFFERS,
              "a block has 227 KB of shared memory");

// Fills stage after stage of the ring.
__device__ void produce(Stage* ring, Barrier* full, Barrier* empty,
                        const TensorMap* A_map, const TensorMap* B_map, int m0,
                        int n0, int K)
{
    RingPlace<STAGES> at;
    for (int k0 = 0; k0 < K; k0 += BK) {
        // At once in the first round.
        barrier_wait(&empty[at.stage], at.parity ^ 1);
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

// Multiplies stage after stage. The first product overwrites the sums.
__device__ void multiply(Stage* ring, Barrier* full, Barrier* empty,
                         Barrier* complete, unsigned sums, int K)
{
    RingPlace<STAGES> at;
    for (int k0 = 0; k0 < K; k0 += BK) {
        barrier_wait(&full[at.stage], at.parity);
        tensor_fence_after();
        Stage& stage = ring[at.stage];
        for (int k = 0; k < BK; k += MMA_K) {
            tensor_mma(sums, describe_a(stage.A_tile + k),
                       describe_b(stage.B_tile + k * BOX), instruction<T>(BM, BN),
                       k0 + k > 0);
        }
        tensor_commit(&empty[at.stage]);
        at.advance();
    }
    tensor_commit(complete);
}

extern "C" __global__ void __launch_bounds__(THREADS)
    tensor_roles(const __grid_constant__ TensorMap A_map,
                 const __grid_constant__ TensorMap B_map, T* C, int M, int N, int K)
{
    extern __shared__ unsigned char shared[];
    Stage* ring = reinterpret_cast<Stage*>(swizzle_aligned(shared));
    __shared__ Barrier full[STAGES];
    __shared__ Barrier empty[STAGES];
    __shared__ Barrier complete;  // all products of the tile
    __shared__ unsigned columns;  // where the sums lie in tensor memory

    const int m0 = blockIdx.y * BM;  // origin of the block's tile of C
    const int n0 = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;

    if (warp == 0) {
        tensor_alloc<BN>(&columns);
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
        produce(ring, full, empty, &A_map, &B_map, m0, n0, K);
    } else if (threadIdx.x == MULTIPLIES * 32) {
        multiply(ring, full, empty, &complete, sums, K);
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
        tensor_free<BN>(sums);
    }
}
