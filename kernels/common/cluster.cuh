// Clusters: neighbouring blocks that run at the same time and reach into each
// other's shared memory (sm_90).
//
// A cluster of rows x cols blocks computes as many neighbouring tiles of C. Blocks
// side by side need the same tile of A, blocks above each other the same tile of B:
// peers.
#pragma once

#include "common/mbarrier.cuh"

// All threads of all blocks of the cluster meet.
__device__ __forceinline__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release;\n"
                 "barrier.cluster.wait.acquire;\n" ::
                     : "memory");
}

__device__ __forceinline__ int cluster_rank() {
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// This block's place in its cluster; its peers, and itself, as bit masks.
template <int rows, int cols>
struct ClusterPlace {
    int row = cluster_rank() / cols;
    int col = cluster_rank() % cols;
    // They need the same tile of A.
    unsigned short same_row = ((1 << cols) - 1) << row * cols;
    // And the same tile of B.
    unsigned short same_col = every_row() << col;

    static __device__ constexpr unsigned every_row() {
        unsigned mask = 0;
        for (int i = 0; i < rows; ++i) {
            mask |= 1u << i * cols;
        }
        return mask;
    }

    // Thread `lane` arrives at the barrier of block `lane`, if that is a peer (or
    // this block).
    __device__ __forceinline__ void arrive_at_peers(Barrier* barrier,
                                                    int lane) const
    {
        if (lane < rows * cols && ((same_row | same_col) >> lane & 1)) {
            barrier_arrive_remote(barrier, lane);
        }
    }
};
