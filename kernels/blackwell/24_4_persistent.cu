// Blackwell, step 4: a pair stays, takes over the next tile itself, and multiplies
// it while the last one leaves.
//
// The grid has a pair of blocks for every tile, as before. But a pair that is done
// with its own asks the hardware for one that has not started, and computes that
// one's tile in its place: who is quick takes more. Tensor memory has room for two
// tiles of sums, so the products of the next begin while the warps that store read
// the last.
// New since 24_3_pair.cu: the warp that asks, its answers, and the second tile of
// sums.
//
// A is M x K, B is K x N, C is M x N, all row-major, of bfloat16 (or half); sums
// are FP32. A_map, B_map describe A and B in boxes of 64 x 64; rows of A and B
// start at 16-byte addresses.
// Block: 224 threads. Grid: 2 cdiv(M, 256) x cdiv(N, BN); clusters of 2 x 1.
#include "common/cluster.cuh"
#include "common/launch_control.cuh"
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
// The warps whose first thread does.
constexpr int COPIES = 4, MULTIPLIES = 5, ASKS = 6;
constexpr int THREADS = 224;
constexpr int TILES = 2;  // of sums in tensor memory
// Who reads an answer: the first block's warps that copy, multiply and store, the
// second's that copy, ask and store.
constexpr int READERS = 2 * (2 + STORES);
constexpr unsigned short BOTH = 3;  // blocks, a bit each

struct Stage {
    T A_tile[BM * BK];
    T B_tile[BK * HALF_N];
};

static_assert(sizeof(T) == 2, "a swizzled row is 64 elements of two bytes");
static_assert(BN == 128 || BN == 256, "whole boxes in each block, a power of two");
static_assert(TILES * BN <= 512, "tensor memory has 512 columns");
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

// Where a block's tile lies, one after the other: first its own, then those of
// clusters that have not started.
struct Queue {
    Answer* answers;
    Barrier *answered, *taken;
    int rank;
    Work work;
    RingPlace<TILES> at;

    __device__ Queue(Answer* answers, Barrier* answered, Barrier* taken)
        : answers(answers), answered(answered), taken(taken), rank(cluster_rank()),
          work{static_cast<int>(blockIdx.x) - rank, static_cast<int>(blockIdx.y),
               true}
    {
    }

    __device__ int m0() const { return (work.x + rank) * BM; }
    __device__ int n0() const { return work.y * BN; }

    // Waits for the next answer and reads it; leader: this thread says so, for its
    // warp, to the thread that asks.
    __device__ void next(bool leader)
    {
        barrier_wait(&answered[at.stage], at.parity);
        work = read_work(&answers[at.stage]);
        tma_store_fence();  // the next answer comes by another way to memory
        __syncwarp(__activemask());
        if (leader) {
            barrier_arrive_remote(&taken[at.stage], 0);
        }
        at.advance();
    }
};

// Fills stage after stage of this block's ring. The first block announces the bytes
// of both.
__device__ void produce(Stage* ring, Barrier* full, Barrier* empty, Queue queue,
                        const TensorMap* A_map, const TensorMap* B_map, int K)
{
    RingPlace<STAGES> at;
    for (; queue.work.more; queue.next(true)) {
        const int n0 = queue.n0() + queue.rank * HALF_N;
        for (int k0 = 0; k0 < K; k0 += BK) {
            // At once in the first round.
            barrier_wait(&empty[at.stage], at.parity ^ 1);
            Stage& stage = ring[at.stage];
            Barrier* here = &full[at.stage];
            if (queue.rank == 0) {
                barrier_arrive_expect(here, PAIR * sizeof(Stage));
            }
            for (int m = 0; m < BM; m += BOX) {
                load_for_pair(stage.A_tile + m * BK, A_map, here, queue.m0() + m,
                              k0);
            }
            for (int n = 0; n < HALF_N; n += BOX) {
                load_for_pair(stage.B_tile + n * BK, B_map, here, k0, n0 + n);
            }
            at.advance();
        }
    }
}

// Multiplies stage after stage of both blocks. The first product of a tile
// overwrites the sums.
__device__ void multiply(Stage* ring, Barrier* full, Barrier* empty, Queue queue,
                         Barrier* complete, Barrier* stored, unsigned sums, int K)
{
    RingPlace<STAGES> at;
    RingPlace<TILES> tile;
    for (; queue.work.more; queue.next(true)) {
        // At once for the first tiles.
        barrier_wait(&stored[tile.stage], tile.parity ^ 1);
        for (int k0 = 0; k0 < K; k0 += BK) {
            barrier_wait(&full[at.stage], at.parity);
            tensor_fence_after();
            Stage& stage = ring[at.stage];
            for (int k = 0; k < BK; k += MMA_K) {
                tensor_mma<PAIR>(sums + tile.stage * BN,
                                 describe_a(stage.A_tile + k),
                                 describe_b(stage.B_tile + k * BOX),
                                 instruction<T>(PAIR * BM, BN), k0 + k > 0);
            }
            tensor_commit_pair(&empty[at.stage], BOTH);
            at.advance();
        }
        tensor_commit_pair(&complete[tile.stage], BOTH);
        tile.advance();
    }
}

// Asks for one tile more than there is work for, and so does the thread in its
// place in the second block, which only waits: an answer goes to both.
__device__ void ask(Queue queue)
{
    RingPlace<TILES> at;
    while (queue.work.more) {
        if (queue.rank == 0) {
            // At once in the first round.
            barrier_wait(&queue.taken[at.stage], at.parity ^ 1);
        }
        barrier_arrive_expect(&queue.answered[at.stage], sizeof(Answer));
        if (queue.rank == 0) {
            ask_for_work(&queue.answers[at.stage], &queue.answered[at.stage]);
        }
        at.advance();
        queue.next(queue.rank != 0);
    }
}

// Tensor memory to registers to global, tile after tile.
__device__ void store(T* C, int M, int N, Queue queue, Barrier* complete,
                      Barrier* stored, unsigned sums)
{
    const bool leader = threadIdx.x % 32 == 0;
    RingPlace<TILES> tile;
    for (; queue.work.more; queue.next(leader)) {
        barrier_wait(&complete[tile.stage], tile.parity);
        tensor_fence_after();
        for (int n = 0; n < BN; n += 32) {
            float sum[32];
            tensor_load(sum, sums + tile.stage * BN + n);
            tensor_load_wait();
            store_sums(C, M, N, queue.m0() + threadIdx.x, queue.n0() + n, sum);
        }
        tensor_fence_before();
        __syncwarp();
        if (leader) {
            barrier_arrive_remote(&stored[tile.stage], 0);
        }
        tile.advance();
    }
}

extern "C" __global__ void __cluster_dims__(PAIR, 1, 1) __launch_bounds__(THREADS)
    tensor_persistent(const __grid_constant__ TensorMap A_map,
                      const __grid_constant__ TensorMap B_map, T* C, int M, int N,
                      int K)
{
    extern __shared__ unsigned char shared[];
    Stage* ring = reinterpret_cast<Stage*>(swizzle_aligned(shared));
    __shared__ Answer answers[TILES];
    __shared__ Barrier answered[TILES];
    __shared__ Barrier taken[TILES];  // the first block's are used
    __shared__ Barrier full[STAGES];  // and of these
    __shared__ Barrier empty[STAGES];
    __shared__ Barrier complete[TILES];  // all products of a tile
    // A tile's sums have been read; the first block's are used.
    __shared__ Barrier stored[TILES];
    __shared__ unsigned columns;         // where the sums lie in tensor memory

    const int warp = threadIdx.x / 32;

    if (warp == 0) {
        tensor_alloc<TILES * BN, PAIR>(&columns);
    }
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            // The first block's producer, and the bytes that it announces.
            barrier_init(&full[s], 1);
            barrier_init(&empty[s], 1);  // the products that read it
        }
        for (int t = 0; t < TILES; ++t) {
            barrier_init(&answered[t], 1);
            barrier_init(&taken[t], READERS);
            barrier_init(&complete[t], 1);
            barrier_init(&stored[t], PAIR * STORES);
        }
        barrier_init_fence();
    }
    tensor_fence_before();
    cluster_sync();
    tensor_fence_after();
    const unsigned sums = columns;
    const Queue queue(answers, answered, taken);

    if (threadIdx.x == COPIES * 32) {
        produce(ring, full, empty, queue, &A_map, &B_map, K);
    } else if (threadIdx.x == MULTIPLIES * 32 && queue.rank == 0) {
        multiply(ring, full, empty, queue, complete, stored, sums, K);
    } else if (threadIdx.x == ASKS * 32) {
        ask(queue);
    } else if (warp < STORES) {
        store(C, M, N, queue, complete, stored, sums);
    }
    cluster_sync();
    if (warp == 0) {
        tensor_free<TILES * BN, PAIR>(sums);
    }
}
