// The copy engine on a stack of matrices of one shape: a box of one of them, which
// is a slice of the stack (sm_90).
//
// A tensor map of three dimensions knows where each slice ends. What lies outside
// it arrives as zeros, and is not written on the way back, as in tma.cuh: so a box
// at the edge of a slice takes nothing from the next one, though its rows follow in
// memory. Source: PTX ISA, "cp.async.bulk.tensor".
#pragma once

#include "common/tma.cuh"

// Global to shared: the box at (row, col) of a slice, to every block of the cluster
// whose bit is set in `blocks` if `sharers` blocks need it, else to this one.
template <int sharers>
__device__ __forceinline__ void tma_load_slice(void* box, const TensorMap* map,
                                               Barrier* barrier, int slice, int row,
                                               int col, unsigned short blocks)
{
    if constexpr (sharers == 1) {
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global"
            ".mbarrier::complete_tx::bytes "
            "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to_shared(box)),
            "l"(map), "r"(to_shared(barrier)), "r"(col), "r"(row), "r"(slice)
            : "memory");
    } else {
        asm volatile(
            "cp.async.bulk.tensor.3d.shared::cluster.global"
            ".mbarrier::complete_tx::bytes.multicast::cluster "
            "[%0], [%1, {%3, %4, %5}], [%2], %6;" ::"r"(to_shared(box)),
            "l"(map), "r"(to_shared(barrier)), "r"(col), "r"(row), "r"(slice),
            "h"(blocks)
            : "memory");
    }
}

// Shared to global: the box at (row, col) of a slice.
__device__ __forceinline__ void tma_store_slice(const TensorMap* map,
                                                const void* box, int slice, int row,
                                                int col)
{
    asm volatile(
        "cp.async.bulk.tensor.3d.global.shared::cta.bulk_group "
        "[%0, {%2, %3, %4}], [%1];" ::"l"(map),
        "r"(to_shared(box)), "r"(col), "r"(row), "r"(slice)
        : "memory");
}
