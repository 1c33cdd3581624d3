// wgmma: four warps multiply a 64 x 16 by a 16 x N tile straight from shared memory
// (sm_90a).
//
// A warpgroup (warps 4i to 4i + 3) issues wgmma together; the products run on their
// own while it goes on. Groups of them are closed by commit and awaited like
// asynchronous copies. The sums stay in registers: warp w of the group holds rows
// 16w to 16w + 15, and with g = lane / 4, t = lane % 4
//
//   sum[4j], sum[4j + 1]       row 16w + g,      columns 8j + 2t, 8j + 2t + 1
//   sum[4j + 2], sum[4j + 3]   row 16w + g + 8,  the same columns
//
// A is K-major in shared memory (a row holds neighbouring k), B is N-major (a row
// holds neighbouring n), both as the swizzled boxes of tma.cuh. Source: PTX ISA,
// "Asynchronous Warpgroup Level Matrix Instructions".
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common/tma.cuh"

constexpr int WARPGROUP = 128;  // threads
constexpr int MMA_M = 64;       // rows of C an instruction
constexpr int MMA_K = 16;       // steps of k an instruction

// Where an operand lies and how: address, two strides and the 128-byte swizzle, in
// units of 16 bytes. Eight swizzled rows (1024 bytes) are the unit that both
// layouts repeat. In a cluster the upper bits of an address name the block: only
// the place within the block's memory is wanted.
__device__ __forceinline__ unsigned long long describe(const void* start,
                                                       int leading_bytes,
                                                       int stride_bytes)
{
    constexpr unsigned long long SWIZZLE_128 = 1ull << 62;
    constexpr unsigned WITHIN_BLOCK = (1u << 18) - 1;
    return SWIZZLE_128 | static_cast<unsigned long long>(stride_bytes >> 4) << 32 |
           static_cast<unsigned long long>(leading_bytes >> 4) << 16 |
           (to_shared(start) & WITHIN_BLOCK) >> 4;
}

// 64 x 16 of A: a box holds 64 values of k a row, so its groups of eight rows
// follow each other. The next 16 values of k start 32 bytes further on.
__device__ __forceinline__ unsigned long long describe_a(const void* start) {
    return describe(start, 16, SWIZZLE_BYTES);
}

// 16 x N of B: a box holds 64 values of n a row; the next 64 are in the next box,
// and the next eight rows of k follow in the same box. The next 16 values of k
// start 16 rows further on.
__device__ __forceinline__ unsigned long long describe_b(const void* start) {
    return describe(start, BOX_BYTES, SWIZZLE_BYTES);
}

// Registers move between warpgroups: one that copies gives up what those that
// multiply take. The numbers are a thread's, multiples of 8; every warp of the
// warpgroup must execute it.
template <int registers>
__device__ __forceinline__ void registers_decrease() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(registers));
}

template <int registers>
__device__ __forceinline__ void registers_increase() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(registers));
}

// Registers that wgmma will use have been written; needed before the first of a row
// of them.
__device__ __forceinline__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}

__device__ __forceinline__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}

// Waits until at most `pending` groups of products are still running.
template <int pending>
__device__ __forceinline__ void wgmma_wait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(pending) : "memory");
}

// Waits until all of them are complete, and only then lets the compiler read their
// sums.
template <int tiles, int sums>
__device__ __forceinline__ void wgmma_finish(float (&sum)[tiles][sums]) {
    wgmma_wait<0>();
    #pragma unroll
    for (int i = 0; i < tiles * sums; ++i) {
        asm volatile("" : "+f"(sum[i / sums][i % sums])::"memory");
    }
}

#define ACC_8(i)                                                                  \
    "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]),           \
        "+f"(sum[i + 4]),                                                         \
        "+f"(sum[i + 5]), "+f"(sum[i + 6]), "+f"(sum[i + 7])
#define ACC_32(i) ACC_8(i), ACC_8(i + 8), ACC_8(i + 16), ACC_8(i + 24)

// sum = A B + (accumulate ? sum : 0). N is twice the number of sums a thread.
template <typename T, int sums>
__device__ __forceinline__ void wgmma(float (&sum)[sums], unsigned long long a,
                                      unsigned long long b, bool accumulate);

// The last two figures say how the operands lie: A K-major (0), B N-major (1).
#define DEFINE_WGMMA_128(T, TYPE)                                                 \
    template <>                                                                   \
    __device__ __forceinline__ void wgmma<T, 64>(float (&sum)[64],                \
        unsigned long long a,                                                     \
        unsigned long long b, bool accumulate) {                                  \
        asm volatile(                                                             \
            "{\n"                                                                 \
            ".reg .pred add;\n"                                                   \
            "setp.ne.b32 add, %66, 0;\n"                                          \
            "wgmma.mma_async.sync.aligned.m64n128k16.f32." TYPE "." TYPE " {"     \
            "%0, %1, %2, %3, %4, %5, %6, %7, "                                    \
            "%8, %9, %10, %11, %12, %13, %14, %15, "                              \
            "%16, %17, %18, %19, %20, %21, %22, %23, "                            \
            "%24, %25, %26, %27, %28, %29, %30, %31, "                            \
            "%32, %33, %34, %35, %36, %37, %38, %39, "                            \
            "%40, %41, %42, %43, %44, %45, %46, %47, "                            \
            "%48, %49, %50, %51, %52, %53, %54, %55, "                            \
            "%56, %57, %58, %59, %60, %61, %62, %63}, "                           \
            "%64, %65, add, 1, 1, 0, 1;\n"                                        \
            "}\n"                                                                 \
            : ACC_32(0), ACC_32(32)                                               \
            : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));                 \
    }
DEFINE_WGMMA_128(__nv_bfloat16, "bf16")
DEFINE_WGMMA_128(half, "f16")

#define DEFINE_WGMMA_256(T, TYPE)                                                 \
    template <>                                                                   \
    __device__ __forceinline__ void wgmma<T, 128>(float (&sum)[128],              \
        unsigned long long a,                                                     \
        unsigned long long b, bool accumulate) {                                  \
        asm volatile(                                                             \
            "{\n"                                                                 \
            ".reg .pred add;\n"                                                   \
            "setp.ne.b32 add, %130, 0;\n"                                         \
            "wgmma.mma_async.sync.aligned.m64n256k16.f32." TYPE "." TYPE " {"     \
            "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, "                  \
            "%12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, "        \
            "%24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, "        \
            "%36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "        \
            "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, "        \
            "%60, %61, %62, %63, %64, %65, %66, %67, %68, %69, %70, %71, "        \
            "%72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, "        \
            "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "        \
            "%96, %97, %98, %99, %100, %101, "                                    \
            "%102, %103, %104, %105, %106, %107, "                                \
            "%108, %109, %110, %111, %112, %113, "                                \
            "%114, %115, %116, %117, %118, %119, "                                \
            "%120, %121, %122, %123, %124, %125, %126, %127}, "                   \
            "%128, %129, add, 1, 1, 0, 1;\n"                                      \
            "}\n"                                                                 \
            : ACC_32(0), ACC_32(32), ACC_32(64), ACC_32(96)                       \
            : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));                 \
    }
DEFINE_WGMMA_256(__nv_bfloat16, "bf16")
DEFINE_WGMMA_256(half, "f16")

#undef DEFINE_WGMMA_128
#undef DEFINE_WGMMA_256
#undef ACC_32
#undef ACC_8

// Issues the products of BOX steps of k as one group: A_rows is 64 * tiles rows of
// A, B_tile is 2 * sums columns of B, both box after box. A warpgroup may use the
// sums only after a wait.
template <typename T, int tiles, int sums>
__device__ __forceinline__ void wgmma_boxes(float (&sum)[tiles][sums],
                                            const T* A_rows, const T* B_tile,
                                            bool accumulate)
{
    wgmma_fence();
    #pragma unroll
    for (int k = 0; k < BOX; k += MMA_K) {
        const auto b = describe_b(B_tile + k * BOX);
        #pragma unroll
        for (int i = 0; i < tiles; ++i) {
            wgmma<T>(sum[i], describe_a(A_rows + i * MMA_M * BOX + k), b,
                     accumulate || k > 0);
        }
    }
    wgmma_commit();
}

// Two neighbouring sums as two packed elements of C, the first in the low half.
__device__ __forceinline__ unsigned pack(float first, float second, __nv_bfloat16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return reinterpret_cast<const unsigned&>(pair);
}
__device__ __forceinline__ unsigned pack(float first, float second, half) {
    const half2 pair = __floats2half2_rn(first, second);
    return reinterpret_cast<const unsigned&>(pair);
}

// All sums, rounded to T and packed: pairs[i][j] holds sums 2j and 2j + 1 of tile
// i.
template <typename T, int tiles, int sums>
__device__ __forceinline__ void wgmma_pack(unsigned (&pairs)[tiles][sums / 2],
                                           const float (&sum)[tiles][sums]) {
    #pragma unroll
    for (int i = 0; i < tiles; ++i) {
        #pragma unroll
        for (int j = 0; j < sums / 2; ++j) {
            pairs[i][j] = pack(sum[i][2 * j], sum[i][2 * j + 1], T());
        }
    }
}

// Registers to global: this thread's part of the 64-row tile of C at (m0, n0),
// rounded to T. Two neighbours are one store where N is even.
template <typename T, int sums>
__device__ __forceinline__ void wgmma_store(T* C, int M, int N, int m0, int n0,
                                            const float (&sum)[sums]) {
    const int lane = threadIdx.x % 32;
    const int row0 = m0 + threadIdx.x % WARPGROUP / 32 * 16 + lane / 4;
    const int col0 = n0 + lane % 4 * 2;
    #pragma unroll
    for (int i = 0; i < sums; i += 2) {
        const int row = row0 + i / 2 % 2 * 8;
        const int col = col0 + i / 4 * 8;
        if (row >= M || col >= N) {
            continue;
        }
        T* to = C + static_cast<size_t>(row) * N + col;
        if (N % 2 == 0) {
            *reinterpret_cast<unsigned*>(to) = pack(sum[i], sum[i + 1], T());
        } else {
            to[0] = T(sum[i]);
            if (col + 1 < N) {
                to[1] = T(sum[i + 1]);
            }
        }
    }
}
