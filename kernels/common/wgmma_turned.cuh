// wgmma with the operands' roles turned: its 64 rows are columns of C, its columns,
// 192 to 256 of them, are rows of C (sm_90a).
//
// Then a tile may have any multiple of eight rows and begin at any row of A: no box
// straddles two lines of 128 bytes, as one that begins at any column of B does.
#pragma once

#include "common/wgmma.cuh"

// The sums of as many columns as are twice their number.
#define SUMS_96                                                                   \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "                \
    "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, "      \
    "%28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, "      \
    "%42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, "      \
    "%56, %57, %58, %59, %60, %61, %62, %63, %64, %65, %66, %67, %68, %69, "      \
    "%70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, "      \
    "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define SUMS_100 SUMS_96 ", %96, %97, %98, %99"
#define SUMS_104 SUMS_100 ", %100, %101, %102, %103"
#define SUMS_108 SUMS_104 ", %104, %105, %106, %107"
#define SUMS_112 SUMS_108 ", %108, %109, %110, %111"
#define SUMS_116 SUMS_112 ", %112, %113, %114, %115"
#define SUMS_120 SUMS_116 ", %116, %117, %118, %119"
#define SUMS_124 SUMS_120 ", %120, %121, %122, %123"
#define SUMS_128 SUMS_124 ", %124, %125, %126, %127"

#define ACC_8(i)                                                                  \
    "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]),           \
        "+f"(sum[i + 4]),                                                         \
        "+f"(sum[i + 5]), "+f"(sum[i + 6]), "+f"(sum[i + 7])
#define ACC_32(i) ACC_8(i), ACC_8(i + 8), ACC_8(i + 16), ACC_8(i + 24)

// Issues the products of BOX steps of k as one group: the first `cols` columns of
// sum = a b + (accumulate ? sum : 0), where a describes 64 columns of B and b that
// many rows of A, of bfloat16. The next 16 steps of k lie 16 rows of B and 32 bytes
// of A further on.
template <int cols>
__device__ __forceinline__ void wgmma_turned(float (&sum)[128],
                                             unsigned long long a,
                                             unsigned long long b,
                                             bool accumulate);

// The last two figures say how the operands lie: a M-major (1), b K-major (0).
#define TURNED(COLS, SUMS, A, B, ADD)                                             \
    "wgmma.mma_async.sync.aligned.m64n" #COLS "k16.f32.bf16.bf16 {"               \
    SUMS "}, " A ", " B ", " ADD ", 1, 1, 1, 0;\n"

// Sums that are not named stay as they are.
#define DEFINE_TURNED(COLS, SUMS)                                                 \
    template <>                                                                   \
    __device__ __forceinline__ void wgmma_turned<COLS>(                           \
        float (&sum)[128], unsigned long long a, unsigned long long b,            \
        bool accumulate) {                                                        \
        asm volatile(                                                             \
            "{\n"                                                                 \
            ".reg .pred add, more;\n"                                             \
            ".reg .b64 a1, a2, a3, b1, b2, b3;\n"                                 \
            "setp.ne.b32 add, %130, 0;\n"                                         \
            "setp.eq.b32 more, %130, %130;\n"                                     \
            "add.s64 a1, %128, 128;\n"                                            \
            "add.s64 a2, %128, 256;\n"                                            \
            "add.s64 a3, %128, 384;\n"                                            \
            "add.s64 b1, %129, 2;\n"                                              \
            "add.s64 b2, %129, 4;\n"                                              \
            "add.s64 b3, %129, 6;\n"                                              \
            "wgmma.fence.sync.aligned;\n"                                         \
            TURNED(COLS, SUMS, "%128", "%129", "add")                             \
            TURNED(COLS, SUMS, "a1", "b1", "more")                                \
            TURNED(COLS, SUMS, "a2", "b2", "more")                                \
            TURNED(COLS, SUMS, "a3", "b3", "more")                                \
            "wgmma.commit_group.sync.aligned;\n"                                  \
            "}\n"                                                                 \
            : ACC_32(0), ACC_32(32), ACC_32(64), ACC_32(96)                       \
            : "l"(a), "l"(b), "r"(static_cast<int>(accumulate))                   \
            : "memory");                                                          \
    }
DEFINE_TURNED(192, SUMS_96)
DEFINE_TURNED(200, SUMS_100)
DEFINE_TURNED(208, SUMS_104)
DEFINE_TURNED(216, SUMS_108)
DEFINE_TURNED(224, SUMS_112)
DEFINE_TURNED(232, SUMS_116)
DEFINE_TURNED(240, SUMS_120)
DEFINE_TURNED(248, SUMS_124)
DEFINE_TURNED(256, SUMS_128)

#undef DEFINE_TURNED
#undef TURNED
#undef ACC_32
#undef ACC_8
