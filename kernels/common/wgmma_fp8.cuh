// wgmma of 8-bit floats: four warps multiply a 64 x 32 by a 32 x 128 tile (sm_90a).
//
// Elements are e4m3: a sign, four bits of exponent, three of fraction, up to 448.
// Of these wgmma takes both operands K-major alone, so B comes as its transpose, a
// row for each column of C. A swizzled row of 128 bytes is 128 of k. The sums lie
// as in wgmma.cuh, but the Tensor Core keeps fewer bits of them: whoever adds up
// more than a few hundred products does it elsewhere. Source: PTX ISA,
// "Asynchronous Warpgroup Level Matrix Instructions".
#pragma once

#include "common/wgmma.cuh"

using E4m3 = unsigned char;  // its bits

constexpr int FP8_K = 32;      // steps of k an instruction
constexpr int FP8_BOX_K = 128;  // and a box: a swizzled row

#define ACC_8(i)                                                                  \
    "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]),           \
        "+f"(sum[i + 4]),                                                         \
        "+f"(sum[i + 5]), "+f"(sum[i + 6]), "+f"(sum[i + 7])

// sum = A B + (accumulate ? sum : 0), of 64 x 32 by 32 x 128.
__device__ __forceinline__ void wgmma_e4m3(float (&sum)[64], unsigned long long a,
                                           unsigned long long b, bool accumulate)
{
    asm volatile(
        "{\n"
        ".reg .pred add;\n"
        "setp.ne.b32 add, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 {"
        "%0, %1, %2, %3, %4, %5, %6, %7, "
        "%8, %9, %10, %11, %12, %13, %14, %15, "
        "%16, %17, %18, %19, %20, %21, %22, %23, "
        "%24, %25, %26, %27, %28, %29, %30, %31, "
        "%32, %33, %34, %35, %36, %37, %38, %39, "
        "%40, %41, %42, %43, %44, %45, %46, %47, "
        "%48, %49, %50, %51, %52, %53, %54, %55, "
        "%56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, add, 1, 1;\n"
        "}\n"
        : ACC_8(0), ACC_8(8), ACC_8(16), ACC_8(24), ACC_8(32), ACC_8(40), ACC_8(48),
          ACC_8(56)
        : "l"(a), "l"(b), "r"(static_cast<int>(accumulate)));
}

#undef ACC_8

// Issues the products of a box of k as one group: A_rows is 64 rows of A, B_tile
// 128 columns of B, each its own row of k, both box below box.
__device__ __forceinline__ void wgmma_fp8_box(float (&sum)[64], const E4m3* A_rows,
                                              const E4m3* B_tile, bool accumulate)
{
    wgmma_fence();
    #pragma unroll
    for (int k = 0; k < FP8_BOX_K; k += FP8_K) {
        // K-major both, so that of A describes B too.
        wgmma_e4m3(sum, describe_a(A_rows + k), describe_a(B_tile + k),
                   accumulate || k > 0);
    }
    wgmma_commit();
}
