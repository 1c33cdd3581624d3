// Warpgroups of several blocks that have parts of the same tile add them up in
// global memory, each a share of it.
//
// A tile falls into boxes, of 64 columns and the 16 rows of a warp. Each part's
// worker leaves the boxes that others own, and counts itself. Each owner waits
// until all parts are counted, then adds the others' sums to its own, in the order
// of k: so the result is the same in every run. Who is the last to leave sets the
// count to zero again.
#pragma once

#include "common/stream_k.cuh"
#include "common/wgmma.cuh"

constexpr int BOX_SUMS = BOX / 2;  // of a thread, in a box of its warp

// The threads of one warpgroup meet; barrier 0 is that of __syncthreads.
__device__ __forceinline__ void warpgroup_sync() {
    __syncwarp();  // the barrier counts warps, and each must come whole
    asm volatile("bar.sync %0, %1;" ::"r"(1 + threadIdx.x / WARPGROUP),
                 "n"(WARPGROUP)
                 : "memory");
}

// Of this warp's boxes in the warpgroup's tile at (m0, n0), `cols` of them side by
// side, those with elements of C: a bit each.
template <int cols, int boxes>
__device__ __forceinline__ unsigned boxes_inside(int m0, int n0, int M, int N) {
    const int warp_row = threadIdx.x % WARPGROUP / 32 * 16;
    unsigned inside = 0;
    #pragma unroll
    for (int i = 0; i < boxes; ++i) {
        if (m0 + i / cols * MMA_M + warp_row < M && n0 + i % cols * BOX < N) {
            inside |= 1u << i;
        }
    }
    return inside;
}

// Registers to global: the boxes whose bits are set. A slot has four sums of each
// thread side by side, so that a warp's accesses are whole lines.
template <int tiles, int sums>
__device__ __forceinline__ void leave(const float (&sum)[tiles][sums], float4* slot,
                                      unsigned boxes)
{
    #pragma unroll
    for (int i = 0; i < tiles * sums; i += 4) {
        if (boxes >> i / BOX_SUMS & 1) {
            const float* four = sum[i / sums] + i % sums;
            __stcg(slot + i / 4 * WARPGROUP + threadIdx.x % WARPGROUP,
                   make_float4(four[0], four[1], four[2], four[3]));
        }
    }
}

// Global to registers: sum += what another part's worker left.
template <int tiles, int sums>
__device__ __forceinline__ void add(float (&sum)[tiles][sums], const float4* slot,
                                    unsigned boxes)
{
    #pragma unroll
    for (int i = 0; i < tiles * sums; i += 4) {
        if (boxes >> i / BOX_SUMS & 1) {
            const float4 v =
                __ldcg(slot + i / 4 * WARPGROUP + threadIdx.x % WARPGROUP);
            float* four = sum[i / sums] + i % sums;
            four[0] += v.x, four[1] += v.y, four[2] += v.z, four[3] += v.w;
        }
    }
}

// One part of `sharers.parts`, number `part`. boxes: those of this warp that have
// elements of C. slot(i) is where part i leaves its sums; arrived counts the parts
// of this tile. Returns the boxes that are now complete here and are to be stored.
template <int tiles, int sums, typename Slot>
__device__ __forceinline__ unsigned add_up(float (&sum)[tiles][sums],
                                           const Sharers& sharers, int part,
                                           unsigned boxes, int* arrived,
                                           const Slot& slot)
{
    constexpr int BOXES = tiles * sums / BOX_SUMS;
    constexpr int WARPS = WARPGROUP / 32;
    const int warp = threadIdx.x % WARPGROUP / 32;
    unsigned owned = 0;
    #pragma unroll
    for (int i = 0; i < BOXES; ++i) {
        if ((i * WARPS + warp) * sharers.owners / (BOXES * WARPS) == part) {
            owned |= 1u << i;
        }
    }
    leave(sum, slot(part), boxes & ~owned);
    __threadfence();  // the sums are visible before the count
    warpgroup_sync();
    const bool speaks = threadIdx.x % WARPGROUP == 0;
    if (speaks) {
        atomicAdd(arrived, 1);
    }
    if (part >= sharers.owners) {
        return 0;
    }
    if (speaks) {
        while (atomicAdd(arrived, 0) < sharers.parts) {
            __nanosleep(20);
        }
        __threadfence();
    }
    warpgroup_sync();
    // One copy of the loop: its loads fill the registers.
    #pragma unroll 1
    for (int other = 0; other < sharers.parts; ++other) {
        if (other != part) {
            add(sum, slot(other), boxes & owned);
        }
    }
    warpgroup_sync();
    if (speaks &&
        atomicAdd(arrived, 1) == sharers.parts + sharers.owners - 1) {
        atomicExch(arrived, 0);  // all owners have read
    }
    return boxes & owned;
}
