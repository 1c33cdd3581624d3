// tcgen05: one thread has the Tensor Cores multiply, and the sums stay in tensor
// memory (sm_100a).
//
// Tensor memory is 128 lanes by 512 columns of 32 bits an SM, allocated in columns.
// An address has the lane in its upper half, the column in its lower. Row r of a
// tile of 128 rows lies in lane r, its column n in column n from the tile's first.
// A warp reads the 32 lanes that its place in the warpgroup gives it.
//
// A is K-major in shared memory, B is N-major, both as the swizzled boxes of
// tma.cuh; a product takes 16 values of k. `blocks` is 1, or 2 where two blocks of
// a cluster hold half of A, half of B and half of the sums each. Source: PTX ISA,
// "TensorCore 5th Generation Instructions".
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common/tma.cuh"

constexpr int MMA_K = 16;      // steps of k an instruction
constexpr int TILE_LANES = 128;  // rows of C a block: all lanes
constexpr int WARPGROUP = 128;

// One warp allocates `columns`, a power of two from 32 to 512, and gives back the
// permit: nobody of the block allocates again. The address is stored to shared
// memory.
template <int columns, int blocks = 1>
__device__ __forceinline__ void tensor_alloc(unsigned* address) {
    if constexpr (blocks == 1) {
        asm volatile(
            "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], %1;\n"
            "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;" ::"r"(
                to_shared(address)),
            "n"(columns)
            : "memory");
    } else {
        asm volatile(
            "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], %1;\n"
            "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;" ::"r"(
                to_shared(address)),
            "n"(columns)
            : "memory");
    }
}

// The warp that allocated frees.
template <int columns, int blocks = 1>
__device__ __forceinline__ void tensor_free(unsigned address) {
    if constexpr (blocks == 1) {
        asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, %1;" ::"r"(
                         address),
                     "n"(columns));
    } else {
        asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, %1;" ::"r"(
                         address),
                     "n"(columns));
    }
}

// Around a barrier between threads: what was issued before comes first, what is
// issued after comes later.
__device__ __forceinline__ void tensor_fence_before() {
    asm volatile("tcgen05.fence::before_thread_sync;" ::: "memory");
}
__device__ __forceinline__ void tensor_fence_after() {
    asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
}

// Where an operand lies and how: address, two strides and the 128-byte swizzle, in
// units of 16 bytes, and the bit that tcgen05 wants. In a cluster the upper bits of
// an address name the block: only the place within its memory is wanted.
__device__ __forceinline__ unsigned long long describe(const void* start,
                                                       int leading_bytes,
                                                       int stride_bytes)
{
    constexpr unsigned long long SWIZZLE_128 = 2ull << 61;
    constexpr unsigned long long FIXED = 1ull << 46;
    constexpr unsigned WITHIN_BLOCK = (1u << 18) - 1;
    return SWIZZLE_128 | FIXED |
           static_cast<unsigned long long>(stride_bytes >> 4) << 32 |
           static_cast<unsigned long long>(leading_bytes >> 4) << 16 |
           (to_shared(start) & WITHIN_BLOCK) >> 4;
}

// A: a box holds 64 values of k a row, so its groups of eight rows follow each
// other. The next 16 values of k start 32 bytes further on.
__device__ __forceinline__ unsigned long long describe_a(const void* start) {
    return describe(start, 16, SWIZZLE_BYTES);
}

// B: a box holds 64 values of n a row; the next 64 are in the next box, and the
// next eight rows of k follow in the same box. The next 16 values of k start 16
// rows further on.
__device__ __forceinline__ unsigned long long describe_b(const void* start) {
    return describe(start, BOX_BYTES, SWIZZLE_BYTES);
}

// What is multiplied: m rows by n columns, of bfloat16 or half, sums of FP32, A
// K-major and B N-major.
template <typename T>
__device__ constexpr unsigned instruction(int m, int n);
template <>
__device__ constexpr unsigned instruction<__nv_bfloat16>(int m, int n) {
    return 1u << 4 | 1u << 7 | 1u << 10 | 1u << 16 | n / 8u << 17 | m / 16u << 24;
}
template <>
__device__ constexpr unsigned instruction<half>(int m, int n) {
    return 1u << 4 | 1u << 16 | n / 8u << 17 | m / 16u << 24;
}

// sums = A B + (accumulate ? sums : 0), issued by one thread; it goes on at once.
template <int blocks = 1>
__device__ __forceinline__ void tensor_mma(unsigned sums, unsigned long long a,
                                           unsigned long long b, unsigned what,
                                           bool accumulate)
{
    if constexpr (blocks == 1) {
        asm volatile(
            "{\n"
            ".reg .pred add;\n"
            "setp.ne.b32 add, %4, 0;\n"
            "tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %2, %3, add;\n"
            "}\n" ::"r"(sums),
            "l"(a), "l"(b), "r"(what), "r"(static_cast<int>(accumulate))
            : "memory");
    } else {
        asm volatile(
            "{\n"
            ".reg .pred add;\n"
            "setp.ne.b32 add, %4, 0;\n"
            "tcgen05.mma.cta_group::2.kind::f16 [%0], %1, %2, %3, add;\n"
            "}\n" ::"r"(sums),
            "l"(a), "l"(b), "r"(what), "r"(static_cast<int>(accumulate))
            : "memory");
    }
}

// The products that this thread has issued arrive at a barrier when all of them are
// complete.
__device__ __forceinline__ void tensor_commit(Barrier* barrier) {
    asm volatile(
        "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 "
        "[%0];" ::"r"(to_shared(barrier))
        : "memory");
}

// The same at the barriers of both blocks of a pair.
__device__ __forceinline__ void tensor_commit_pair(Barrier* barrier,
                                                   unsigned short blocks)
{
    asm volatile(
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster"
        ".multicast::cluster.b64 [%0], %1;" ::"r"(to_shared(barrier)),
        "h"(blocks)
        : "memory");
}

#define SUM_8(i)                                                                  \
    "=f"(sum[i]), "=f"(sum[i + 1]), "=f"(sum[i + 2]), "=f"(sum[i + 3]),           \
        "=f"(sum[i + 4]), "=f"(sum[i + 5]), "=f"(sum[i + 6]), "=f"(sum[i + 7])

// 32 columns of the lane that this thread stands for; the warp's lanes are added to
// the address here.
__device__ __forceinline__ void tensor_load(float (&sum)[32], unsigned address) {
    const unsigned lanes = threadIdx.x / 32 % 4 * 32 << 16;
    asm volatile(
        "tcgen05.ld.sync.aligned.32x32b.x32.b32 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, "
        "%30, %31}, [%32];"
        : SUM_8(0), SUM_8(8), SUM_8(16), SUM_8(24)
        : "r"(address + lanes));
}

// This thread's loads are complete: what they read may be overwritten.
__device__ __forceinline__ void tensor_load_wait() {
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
}

// 32 neighbouring sums of one row to C, rounded, at (row, col).
template <typename T>
__device__ __forceinline__ void store_sums(T* C, int M, int N, int row, int col,
                                           const float (&sum)[32])
{
    if (row >= M) return;
    T* to = C + static_cast<size_t>(row) * N + col;
    #pragma unroll
    for (int j = 0; j < 32; ++j) {
        if (col + j < N) to[j] = T(sum[j]);
    }
}
