// One warpgroup leaves its sums in global memory for a warpgroup of another block.
//
// Slot s of `partial` holds the sums of one warpgroup, four of each thread side by
// side, so that a warp's accesses are whole lines. Flag s of `ready` is 1 while the
// slot is full: the giver sets it, the taker clears it.
#pragma once

#include "common/wgmma.cuh"

// The threads of one warpgroup meet; barrier 0 is that of __syncthreads.
__device__ __forceinline__ void warpgroup_sync() {
    asm volatile("bar.sync %0, %1;" ::"r"(1 + threadIdx.x / WARPGROUP),
                 "n"(WARPGROUP)
                 : "memory");
}

template <int tiles, int sums>
__device__ __forceinline__ void hand_over(const float (&sum)[tiles][sums],
                                          float4* partial, int* ready, int slot)
{
    const int thread = threadIdx.x % WARPGROUP;
    float4* to = partial +
                 static_cast<size_t>(slot) * (tiles * sums / 4) * WARPGROUP +
                 thread;
    #pragma unroll
    for (int i = 0; i < tiles * sums; i += 4) {
        const float* four = sum[i / sums] + i % sums;
        __stcg(to + i / 4 * WARPGROUP,
               make_float4(four[0], four[1], four[2], four[3]));
    }
    __threadfence();  // the sums are visible before the flag
    warpgroup_sync();
    if (thread == 0) {
        atomicExch(ready + slot, 1);
    }
}

// sum += what the giver left. The giver waits for nobody, so the flag comes.
template <int tiles, int sums>
__device__ __forceinline__ void take_over(float (&sum)[tiles][sums],
                                          const float4* partial, int* ready,
                                          int slot)
{
    const int thread = threadIdx.x % WARPGROUP;
    if (thread == 0) {
        while (atomicCAS(ready + slot, 1, 0) != 1) {
            __nanosleep(100);
        }
        __threadfence();
    }
    warpgroup_sync();
    const float4* from =
        partial + static_cast<size_t>(slot) * (tiles * sums / 4) * WARPGROUP +
        thread;
    #pragma unroll
    for (int i = 0; i < tiles * sums; i += 4) {
        const float4 v = __ldcg(from + i / 4 * WARPGROUP);
        float* four = sum[i / sums] + i % sums;
        four[0] += v.x, four[1] += v.y, four[2] += v.z, four[3] += v.w;
    }
}
