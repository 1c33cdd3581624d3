// A chunk (common/chunks.cuh) copied from global to shared memory by cp.async
// (sm_80 and later): the copy holds no register, and the thread goes on at once.
// Groups and waits: common/cp_async.cuh.
#pragma once

#include "chunks.cuh"
#include "cp_async.cuh"

// `to` is an address in the shared memory window; both addresses are multiples of
// 16. With inside == false nothing is read, and zeros are written. Source: PTX ISA,
// "cp.async"; .cg leaves the L1 cache out.
template <typename T>
__device__ __forceinline__ void copy_chunk(unsigned to, const T* from, bool inside)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to),
                 "l"(from), "r"(inside ? 16 : 0)
                 : "memory");
}
