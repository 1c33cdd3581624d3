// TMA, the copy engine of Hopper: one thread asks for a whole box of a matrix
// (sm_90).
//
// The host describes a matrix once (address, shape, row stride, box, shared layout)
// in a tensor map; a copy names only the map and the box's first column and row.
// What lies outside the matrix arrives as zeros, and is not written on the way
// back. Here every row of a box is 64 elements of two bytes, 128 bytes: all 32
// banks. In shared memory the copy engine swizzles it: the 16-byte chunk c of row r
// lies at chunk c ^ (r % 8), so a column of chunks covers all banks too. A buffer
// starts at a multiple of 1024 bytes, the length of eight rows, after which the
// pattern repeats. Source: PTX ISA, "Data Movement and Conversion Instructions:
// cp.async.bulk.tensor".
#pragma once

#include "common/mbarrier.cuh"

constexpr int BOX = 64;             // rows and columns of a box of A or B
constexpr int BOX_BYTES = 64 * 128;  // bytes of such a box
constexpr int SWIZZLE_BYTES = 1024;  // buffers start at multiples of this

// Shared memory that the buffers of a block may fill: of its 227 KB, one is kept
// for the barriers and one for the bytes up to the first multiple of SWIZZLE_BYTES.
constexpr int MOST_BUFFERS = 225 * 1024;

// The 128 bytes that cuTensorMapEncodeTiled fills, passed by value as a
// __grid_constant__.
struct alignas(64) TensorMap {
    unsigned long long opaque[16];
};

// The dynamic shared memory of a block starts anywhere; the first place where a
// buffer may start.
__device__ __forceinline__ unsigned char* swizzle_aligned(unsigned char* shared) {
    return shared + (-to_shared(shared) & (SWIZZLE_BYTES - 1));
}

// Global to shared: the box at (row, col). Its bytes count towards the barrier's
// phase.
__device__ __forceinline__ void tma_load(void* box, const TensorMap* map,
                                         Barrier* barrier, int row, int col)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global"
        ".mbarrier::complete_tx::bytes "
        "[%0], [%1, {%3, %4}], [%2];" ::"r"(to_shared(box)),
        "l"(map), "r"(to_shared(barrier)), "r"(col), "r"(row)
        : "memory");
}

// The same box, to the same address in every block of the cluster whose bit is set
// in `blocks`. It is fetched once; each receiver's own barrier counts the bytes.
__device__ __forceinline__ void tma_load_multicast(void* box, const TensorMap* map,
                                                   Barrier* barrier, int row,
                                                   int col, unsigned short blocks)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global"
        ".mbarrier::complete_tx::bytes.multicast::cluster "
        "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(to_shared(box)),
        "l"(map), "r"(to_shared(barrier)), "r"(col), "r"(row), "h"(blocks)
        : "memory");
}

// For a tile that `sharers` blocks of the cluster need: a multicast to `blocks` if
// that is several.
template <int sharers>
__device__ __forceinline__ void tma_load_shared(void* box, const TensorMap* map,
                                                Barrier* barrier, int row, int col,
                                                unsigned short blocks)
{
    if constexpr (sharers == 1) {
        tma_load(box, map, barrier, row, col);
    } else {
        tma_load_multicast(box, map, barrier, row, col, blocks);
    }
}

// Shared to global: the box at (row, col). tma_store_commit closes a group of such
// copies.
__device__ __forceinline__ void tma_store(const TensorMap* map, const void* box,
                                          int row, int col)
{
    asm volatile(
        "cp.async.bulk.tensor.2d.global.shared::cta.bulk_group "
        "[%0, {%2, %3}], [%1];" ::"l"(map),
        "r"(to_shared(box)), "r"(col), "r"(row)
        : "memory");
}

__device__ __forceinline__ void tma_store_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}

// Waits until at most `pending` of this thread's groups still read their shared
// memory.
template <int pending>
__device__ __forceinline__ void tma_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(pending) : "memory");
}

// What this thread wrote to shared memory with ordinary stores may now be read by
// the copy engine.
__device__ __forceinline__ void tma_store_fence() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
