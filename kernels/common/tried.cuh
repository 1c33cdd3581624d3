// What was tried on hopper_5 and is in no kernel: another order of tiles, and hints to
// the L2 cache (sm_90). tools/tried_on_a_gpu.py puts it into that kernel and times it.
#pragma once

#include "tile_order.cuh"
#include "tma.cuh"

// The tile at place `index` of the Hilbert curve, where tiles make a square with a
// power of two on a side; else the walk in bands. Source: Hilbert, "Ueber die stetige
// Abbildung einer Linie auf ein Flaechenstueck", 1891.
template <int group>
__device__ __forceinline__ TileIndex hilbert_at(int index, int rows, int cols) {
    if (rows != cols || (rows & (rows - 1)) != 0) {
        return tile_at<group>(index, rows, cols);
    }
    int row = 0, col = 0;
    for (int side = 1; side < rows; side *= 2) {
        const int down = index / 2 & 1, right = (index ^ down) & 1;
        if (right == 0) {
            // The quarter is turned: one of the first two, or the last.
            const int kept = down ? side - 1 - row : row;
            row = down ? side - 1 - col : col;
            col = kept;
        }
        row += side * down;
        col += side * right;
        index /= 4;
    }
    return {row, col};
}

// Global memory to L2: a box that will be asked for.
__device__ __forceinline__ void prefetch_box(const TensorMap* map, int row, int col) {
    asm volatile("cp.async.bulk.prefetch.tensor.2d.L2.global [%0, {%2, %1}];" ::"l"(
                     map),
                 "r"(row), "r"(col)
                 : "memory");
}

// The same of a step: boxes below each other from (m0, k0) of A, side by side from
// (k0, n0) of B.
template <int a_rows, int b_cols>
__device__ __forceinline__ void prefetch_step(const TensorMap* A_map,
                                              const TensorMap* B_map, int m0, int n0,
                                              int k0)
{
    for (int i = 0; i < a_rows; i += BOX) {
        prefetch_box(A_map, m0 + i, k0);
    }
    for (int i = 0; i < b_cols; i += BOX) {
        prefetch_box(B_map, k0, n0 + i);
    }
}

// As tma_store: of what L2 holds, these bytes go first.
__device__ __forceinline__ void tma_store_first(const TensorMap* map, const void* box,
                                                int row, int col)
{
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;"
                 : "=l"(policy));
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group.L2::cache_hint "
        "[%0, {%2, %3}], [%1], %4;" ::"l"(map),
        "r"(to_shared(box)), "r"(col), "r"(row), "l"(policy)
        : "memory");
}

// As tma_load_shared of several blocks: of what L2 holds, these bytes go last.
template <int sharers>
__device__ __forceinline__ void tma_load_last(void* box, const TensorMap* map,
                                              Barrier* barrier, int row, int col,
                                              unsigned short blocks)
{
    unsigned long long policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;"
                 : "=l"(policy));
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global"
        ".mbarrier::complete_tx::bytes.multicast::cluster.L2::cache_hint "
        "[%0], [%1, {%3, %4}], [%2], %5, %6;" ::"r"(to_shared(box)),
        "l"(map), "r"(to_shared(barrier)), "r"(col), "r"(row), "h"(blocks), "l"(policy)
        : "memory");
}
