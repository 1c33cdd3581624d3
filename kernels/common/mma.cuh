// Tensor Core instructions as functions: one warp adds a 16 x K times K x 8 product
// to a 16 x 8 accumulator.
//
// The 32 lanes hold the matrices between them. With g = lane / 4 and t = lane % 4:
//
//   A, 16 x 16   a[0]   row g,          columns 2t, 2t+1
//                a[1]   row g + 8,      columns 2t, 2t+1
//                a[2]   row g,          columns 2t+8, 2t+9
//                a[3]   row g + 8,      columns 2t+8, 2t+9
//   B, 16 x 8    b[0]   rows 2t, 2t+1,  column g
//                b[1]   rows 2t+8, 2t+9, column g
//   C, 16 x 8    sum[0], sum[1]   row g,      columns 2t, 2t+1
//                sum[2], sum[3]   row g + 8,  columns 2t, 2t+1
//
// A register of A or B packs two 2-byte elements, the first in the low half. The
// left halves of A and B alone (a[0], a[1], b[0]) are the operands of m16n8k8.
// Source: PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type"
// (and m16n8k8).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

constexpr int MMA_M = 16;
constexpr int MMA_N = 8;

template <typename T>
constexpr bool is_bfloat16 = false;
template <>
constexpr bool is_bfloat16<__nv_bfloat16> = true;

// sum += A B over 8 values of k. FP16 from sm_75 on, BF16 from sm_80 on.
template <typename T>
__device__ __forceinline__ void mma_m16n8k8(float (&sum)[4], unsigned a0,
                                            unsigned a1, unsigned b0)
{
    if constexpr (is_bfloat16<T>) {
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32 "
            "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a0), "r"(a1), "r"(b0));
    } else {
        asm volatile(
            "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a0), "r"(a1), "r"(b0));
    }
}

// sum += A B over 16 values of k, in one instruction from sm_80 on, in two on
// sm_75.
template <typename T>
__device__ __forceinline__ void mma_m16n8k16(float (&sum)[4], const unsigned* a,
                                             const unsigned* b) {
#if __CUDA_ARCH__ >= 800
    if constexpr (is_bfloat16<T>) {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    } else {
        asm volatile(
            "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
            "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
            : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
    }
#else
    mma_m16n8k8<T>(sum, a[0], a[1], b[0]);
    mma_m16n8k8<T>(sum, a[2], a[3], b[1]);
#endif
}

// Registers to global: this lane's four elements of the 16 x 8 tile at (row0, col0)
// of C, which is M x N. With pairs (N even, C a multiple of 8 bytes) two neighbours
// are one 8-byte store.
__device__ __forceinline__ void mma_store(float* C, int M, int N, int row0,
                                          int col0, const float (&sum)[4],
                                          bool pairs)
{
    const int lane = threadIdx.x % 32;
    const int col = col0 + lane % 4 * 2;
    #pragma unroll
    for (int half = 0; half < 2; ++half) {
        const int row = row0 + lane / 4 + half * 8;
        if (row >= M || col >= N) {
            continue;
        }
        float* to = C + size_t(row) * N + col;
        if (pairs) {
            *reinterpret_cast<float2*>(to) =
                make_float2(sum[2 * half], sum[2 * half + 1]);
        } else {
            to[0] = sum[2 * half];
            if (col + 1 < N) {
                to[1] = sum[2 * half + 1];
            }
        }
    }
}
