// The copy engine without a tensor map: neighbouring bytes, as they lie (sm_90).
#pragma once

#include "common/mbarrier.cuh"

// Global to shared: `bytes` bytes, which count towards the barrier's phase. Both
// addresses and the number are multiples of 16. Source: PTX ISA, "cp.async.bulk".
__device__ __forceinline__ void bulk_load(void* to, const void* from, int bytes,
                                          Barrier* barrier)
{
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        "[%0], [%1], %2, [%3];" ::"r"(to_shared(to)),
        "l"(from), "r"(bytes), "r"(to_shared(barrier))
        : "memory");
}
