// Tiles of A and B in a ring, of which the blocks of a cluster fetch a part each
// (sm_90a).
//
// What comes in, from the file that includes this below its sizes: T, the type of
// an element, and the macros BM, BN, STAGES, CLUSTER_M, CLUSTER_N and SMS.
#pragma once

#include "common/cluster.cuh"
#include "common/wgmma.cuh"

constexpr int BK = BOX;  // steps of k a stage: one box
constexpr int CONSUMERS = 2;
constexpr int WM = BM / CONSUMERS;  // rows of C a consumer warpgroup
constexpr int THREADS = (1 + CONSUMERS) * WARPGROUP;
constexpr int CLUSTER = CLUSTER_M * CLUSTER_N;
// Blocks that share a tile with this one, and it.
constexpr int PEERS = CLUSTER_M + CLUSTER_N - 1;
// Rows of A_tile that this block fetches.
constexpr int A_PART = BM / CLUSTER_N;
constexpr int B_PART = BN / CLUSTER_M;  // columns of B_tile

// A tile of A, BM / 64 boxes one below the other, and one of B, BN / 64 boxes side
// by side.
struct Stage {
    T A_tile[BM * BK];
    T B_tile[BK * BN];
};

using Place = ClusterPlace<CLUSTER_M, CLUSTER_N>;

static_assert(sizeof(T) == 2, "a swizzled row is 64 elements of two bytes");
static_assert(WM % MMA_M == 0, "wgmma takes 64 rows");
static_assert(BN == 128 || BN == 256, "wgmma.cuh holds the shapes n128 and n256");
static_assert(WM / MMA_M * BN <= 256,
              "the sums of a thread must fit in its registers");
static_assert(STAGES >= 2, "one stage is used while another is filled");
static_assert(STAGES * sizeof(Stage) <= MOST_BUFFERS,
              "a block has 227 KB of shared memory");
static_assert(A_PART % BOX == 0 && B_PART % BOX == 0,
              "blocks share a tile in whole boxes");
static_assert(SMS >= CLUSTER, "some cluster must run");
static_assert(CLUSTER <= 8,
              "a cluster of more than 8 blocks does not run everywhere");

// The producer's one thread: this block's part of one step of k, into one stage of
// every block that needs it. The other parts come from those blocks; this block's
// barrier awaits them all.
__device__ __forceinline__ void fill(Stage& stage, Barrier* full,
                                     const TensorMap* A_map, const TensorMap* B_map,
                                     const Place& place, int m0, int n0, int k0)
{
    barrier_arrive_expect(full, sizeof(Stage));
    for (int i = 0; i < A_PART; i += BOX) {
        const int m = place.col * A_PART + i;
        tma_load_shared<CLUSTER_N>(stage.A_tile + m * BK, A_map, full, m0 + m, k0,
                                   place.same_row);
    }
    for (int i = 0; i < B_PART; i += BOX) {
        const int n = place.row * B_PART + i;
        tma_load_shared<CLUSTER_M>(stage.B_tile + n * BK, B_map, full, k0, n0 + n,
                                   place.same_col);
    }
}
