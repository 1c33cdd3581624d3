// Blackwell, step 3: two blocks multiply as one, and each fetches half of B.
//
// A pair of blocks, neighbours in a cluster, computes a 256 x BN tile of C. Each
// holds 128 rows of A and of the sums; of B each holds half the columns, and the
// Tensor Cores of both read both halves. One thread of the first block issues for
// both. So a block fetches BN / 2 columns of B for 128 rows of A, where it fetched
// BN of them before.
// New since 24_2_roles.cu: the pair. The copies of both blocks count at the first
// one's barriers, and the products arrive at the barriers of both.
//
// A is M x K, B is K x N, C is M x N, all row-major, of bfloat16 (or half); sums
// are FP32. A_map, B_map describe A and B in boxes of 64 x 64; rows of A and B
// start at 16-byte addresses.
// Block: 192 threads. Grid: 2 cdiv(M, 256) x cdiv(N, BN); clusters of 2 x 1.
#include "common/cluster.cuh"
#include "common/tcgen05.cuh"

#ifndef ELEMENT
#define ELEMENT __nv_bfloat16  // or half
#endif
#ifndef BN
#define BN 256  // columns of C a pair
#endif
#ifndef STAGES
#define STAGES 6  // tiles of A and B in the ring
#endif

using T = ELEMENT;

constexpr int PAIR = 2;
constexpr int BM = TILE_LANES;  // rows of C a block
constexpr int BK = BOX;         // steps of k a stage: one box
constexpr int HALF_N = BN / PAIR;  // columns of B a block holds
constexpr int STORES = 4;  // warps 0 to 3: a warpgroup, all lanes of tensor memory
constexpr int COPIES = 4, MULTIPLIES = 5;  // the warps whose first thread does
constexpr int THREADS = 192;
constexpr unsigned short BOTH = 3;  // blocks, a bit each

struct Stage {
    T A_tile[BM * BK];
    T B_tile[BK * HALF_N];
};

static_assert(sizeof(T) == 2, "a swizzled row is 64 elements of two bytes");
static_assert(BN == 128 || BN == 256, "whole boxes in each block, a power of two");
static_assert(STAGES >= 2, "one stage is used while another is filled");
static_assert(STAGES * sizeof(Stage) <= MOST_BUFFERS,
              "a block has 227 KB of shared memory");

// A box to this block; its bytes count at the barrier of the pair's first block.
__device__ __forceinline__ void load_for_pair(void* box, const TensorMap* map,
                                              Barrier* barrier, int row, int col)
{
    asm volatile(
        "{\n"
        ".reg .b32 first;\n"
        "mapa.shared::cluster.u32 first, %2, 0;\n"
        "cp.async.bulk.tensor.2d.cta_group::2.shared::cluster.global"
        ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [first];\n"
        "}\n" ::"r"(to_shared(box)),
        "l"(map), "r"(to_shared(barrier)), "r"(col), "r"(row)
        : "memory");
}

// Fills stage after stage of this block's ring. The first block announces the bytes
// of both.
__device__ void produce(Stage* ring, Barrier* full, Barrier* empty,
                        const TensorMap* A_map, const TensorMap* B_map, bool first,
                        int m0, int n0, int K)
{
    RingPlace<STAGES> at;
    for (int k0 = 0; k0 < K; k0 += BK) {
        // At once in the first round.
        barrier_wait(&empty[at.stage], at.parity ^ 1);
        Stage& stage = ring[at.stage];
        Barrier* here = &full[at.stage];
        if (first) {
            barrier_arrive_expect(here, PAIR * sizeof(Stage));
        }
        for (int m = 0; m < BM; m += BOX) {
            load_for_pair(stage.A_tile + m * BK, A_map, here, m0 + m, k0);
        }
        for (int n = 0; n < HALF_N; n += BOX) {
            load_for_pair(stage.B_tile + n * BK, B_map, here, k0, n0 + n);
        }
        at.advance();
    }
}

// Multiplies stage after stage of both blocks. The first product overwrites the
// sums.
__device__ void multiply(Stage* ring, Barrier* full, Barrier* empty,
                         Barrier* complete, unsigned sums, int K)
{
    RingPlace<STAGES> at;
    for (int k0 = 0; k0 < K; k0 += BK) {
        barrier_wait(&full[at.stage], at.parity);
        tensor_fence_after();
        Stage& stage = ring[at.stage];
        for (int k = 0; k < BK; k += MMA_K) {
            tensor_mma<PAIR>(sums, describe_a(stage.A_tile + k),
                             describe_b(stage.B_tile + k * BOX),
                             instruction<T>(PAIR * BM, BN), k0 + k > 0);
        }
        tensor_commit_pair(&empty[at.stage], BOTH);
        at.advance();
    }
    tensor_commit_pair(complete, BOTH);
}

extern "C" __global__ void __cluster_dims__(PAIR, 1, 1) __launch_bounds__(THREADS)
    tensor_pair(const __grid_constant__ TensorMap A_map,
                const __grid_constant__ TensorMap B_map, T* C, int M, int N, int K)
{
    extern __shared__ unsigned char shared[];
    Stage* ring = reinterpret_cast<Stage*>(swizzle_aligned(shared));
    __shared__ Barrier full[STAGES];  // the first block's are used
    __shared__ Barrier empty[STAGES];
    __shared__ Barrier complete;  // all products of the tile
    __shared__ unsigned columns;  // where the sums lie in tensor memory

    const int rank = cluster_rank();
    const int m0 = blockIdx.x * BM;  // of this block's rows of C
    const int n0 = blockIdx.y * BN;  // of the pair's columns
    const int warp = threadIdx.x / 32;

    if (warp == 0) {
        tensor_alloc<BN, PAIR>(&columns);
    }
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            // The first block's producer, and the bytes that it announces.
            barrier_init(&full[s], 1);
            barrier_init(&empty[s], 1);  // the products that read it
        }
        barrier_init(&complete, 1);
        barrier_init_fence();
    }
    tensor_fence_before();
    cluster_sync();
    tensor_fence_after();
    const unsigned sums = columns;

    if (threadIdx.x == COPIES * 32) {
        produce(ring, full, empty, &A_map, &B_map, rank == 0, m0,
                n0 + rank * HALF_N, K);
    } else if (threadIdx.x == MULTIPLIES * 32 && rank == 0) {
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
    cluster_sync();
    if (warp == 0) {
        tensor_free<BN, PAIR>(sums);
    }
}
