// nvcuda::wmma: fragments of __half, __nv_bfloat16, 8-bit integers, tf32 and double.
#pragma once
#include <cuda_bf16.h>
#include <cuda_fp16.h>
namespace nvcuda {
namespace wmma {
struct matrix_a;
struct matrix_b;
struct accumulator;
struct row_major;
struct col_major;
enum layout_t { mem_row_major, mem_col_major };
namespace precision {
struct tf32;
}
template <typename L> constexpr int tile_columns = 0;
template <> constexpr int tile_columns<col_major> = 1;
template <typename T, int N> struct tile_fragment {
    static constexpr int num_elements = N, num_storage_elements = N;
    typedef T element_type;
    typedef T storage_element_type;
    T x[N];
};
template <typename Use, int M, int N, int K, typename T, typename Layout = void> struct fragment;
template <typename T, int N, typename V>
__device__ __forceinline__ void fill_fragment(tile_fragment<T, N>& f, const V& v) {
#pragma unroll
    for (int i = 0; i < N; ++i) f.x[i] = T(v);
}
__device__ __forceinline__ float __float_to_tf32(float a) {
    unsigned d;
    asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(d) : "f"(a));
    return __uint_as_float(d);
}

// One operand: the fragment and its load. The instruction's rows or columns are chosen at compile time.
// Whoever loads twice has two loads: the empty asm wants each.
#define TILE_LOAD(USE, M, N, K, TYPE, HELD, LENGTH, BUILTIN, WORD, POINTER)                        \
    template <typename L> struct fragment<USE, M, N, K, TYPE, L> : tile_fragment<HELD, LENGTH> {}; \
    template <typename L> __device__ __forceinline__ void load_matrix_sync(                        \
        fragment<USE, M, N, K, TYPE, L>& f, const POINTER* p, unsigned ld) {                       \
        if constexpr (tile_columns<L>) BUILTIN((WORD*)f.x, (const WORD*)p, ld, 1);                 \
        else BUILTIN((WORD*)f.x, (const WORD*)p, ld, 0);                                           \
        asm volatile("" ::"r"(((const int*)f.x)[0]) : "memory");                                   \
    }
#define TILE_SUMS(M, N, K, TYPE, LENGTH, LOAD, STORE, WORD)                                        \
    template <> struct fragment<accumulator, M, N, K, TYPE> : tile_fragment<TYPE, LENGTH> {};      \
    __device__ __forceinline__ void load_matrix_sync(                                              \
        fragment<accumulator, M, N, K, TYPE>& f, const TYPE* p, unsigned ld, layout_t layout) {    \
        if (layout == mem_row_major) LOAD((WORD*)f.x, (const WORD*)p, ld, 0);                      \
        else LOAD((WORD*)f.x, (const WORD*)p, ld, 1);                                              \
    }                                                                                              \
    __device__ __forceinline__ void store_matrix_sync(                                             \
        TYPE* p, const fragment<accumulator, M, N, K, TYPE>& f, unsigned ld, layout_t layout) {    \
        if (layout == mem_row_major) STORE((WORD*)p, (const WORD*)f.x, ld, 0);                     \
        else STORE((WORD*)p, (const WORD*)f.x, ld, 1);                                             \
    }
#define TILE_PRODUCT(M, N, K, TYPE, D, C, BUILTIN, WORD, DWORD, CWORD, ...)                        \
    template <typename LA, typename LB> __device__ __forceinline__ void mma_sync(                  \
        fragment<accumulator, M, N, K, D>& d, const fragment<matrix_a, M, N, K, TYPE, LA>& a,      \
        const fragment<matrix_b, M, N, K, TYPE, LB>& b,                                            \
        const fragment<accumulator, M, N, K, C>& c, bool = false) {                                \
        BUILTIN((DWORD*)d.x, (const WORD*)a.x, (const WORD*)b.x, (const CWORD*)c.x,                \
                2 * tile_columns<LA> + tile_columns<LB> __VA_OPT__(, ) __VA_ARGS__);               \
    }
#define TILE_HALF(M, N, K)                                                                         \
    TILE_LOAD(matrix_a, M, N, K, __half, __half, 16, __hmma_m##M##n##N##k##K##_ld_a, int, __half)  \
    TILE_LOAD(matrix_b, M, N, K, __half, __half, 16, __hmma_m##M##n##N##k##K##_ld_b, int, __half)  \
    TILE_SUMS(M, N, K, float, 8, __hmma_m##M##n##N##k##K##_ld_c_f32, __hmma_m##M##n##N##k##K##_st_c_f32, float) \
    TILE_SUMS(M, N, K, __half, 8, __hmma_m##M##n##N##k##K##_ld_c_f16, __hmma_m##M##n##N##k##K##_st_c_f16, int) \
    TILE_PRODUCT(M, N, K, __half, float, float, __hmma_m##M##n##N##k##K##_mma_f32f32, int, float, float, 0) \
    TILE_PRODUCT(M, N, K, __half, __half, __half, __hmma_m##M##n##N##k##K##_mma_f16f16, int, int, int, 0) \
    TILE_PRODUCT(M, N, K, __half, float, __half, __hmma_m##M##n##N##k##K##_mma_f32f16, int, float, int, 0) \
    TILE_PRODUCT(M, N, K, __half, __half, float, __hmma_m##M##n##N##k##K##_mma_f16f32, int, int, float, 0)
TILE_HALF(16, 16, 16)
TILE_HALF(32, 8, 16)
TILE_HALF(8, 32, 16)
#if __CUDA_ARCH__ >= 720
#define TILE_BYTES(M, N, K, TYPE, LETTER, A, B)                                                    \
    TILE_LOAD(matrix_a, M, N, K, TYPE, TYPE, A, __imma_m##M##n##N##k##K##_ld_a_##LETTER, int, TYPE) \
    TILE_LOAD(matrix_b, M, N, K, TYPE, TYPE, B, __imma_m##M##n##N##k##K##_ld_b_##LETTER, int, TYPE) \
    TILE_PRODUCT(M, N, K, TYPE, int, int, __imma_m##M##n##N##k##K##_mma_##LETTER, int, int, int, 0)
#define TILE_INTEGERS(M, N, K, A, B)                                                               \
    TILE_SUMS(M, N, K, int, 8, __imma_m##M##n##N##k##K##_ld_c, __imma_m##M##n##N##k##K##_st_c_i32, int) \
    TILE_BYTES(M, N, K, signed char, s8, A, B)                                                     \
    TILE_BYTES(M, N, K, unsigned char, u8, A, B)
TILE_INTEGERS(16, 16, 16, 8, 8)
TILE_INTEGERS(32, 8, 16, 16, 4)
TILE_INTEGERS(8, 32, 16, 4, 16)
#endif
#if __CUDA_ARCH__ >= 800
#define TILE_BFLOAT(M, N, K, A, B)                                                                 \
    TILE_LOAD(matrix_a, M, N, K, __nv_bfloat16, __nv_bfloat16, A, __mma_bf16_m##M##n##N##k##K##_ld_a, int, __nv_bfloat16) \
    TILE_LOAD(matrix_b, M, N, K, __nv_bfloat16, __nv_bfloat16, B, __mma_bf16_m##M##n##N##k##K##_ld_b, int, __nv_bfloat16) \
    TILE_PRODUCT(M, N, K, __nv_bfloat16, float, float, __mma_bf16_m##M##n##N##k##K##_mma_f32, int, float, float, 0)
TILE_BFLOAT(16, 16, 16, 8, 8)
TILE_BFLOAT(32, 8, 16, 16, 4)
TILE_BFLOAT(8, 32, 16, 4, 16)
TILE_LOAD(matrix_a, 16, 16, 8, precision::tf32, float, 4, __mma_tf32_m16n16k8_ld_a, int, float)
TILE_LOAD(matrix_b, 16, 16, 8, precision::tf32, float, 4, __mma_tf32_m16n16k8_ld_b, int, float)
TILE_SUMS(16, 16, 8, float, 8, __mma_tf32_m16n16k8_ld_c, __mma_m16n16k8_st_c_f32, float)
TILE_PRODUCT(16, 16, 8, precision::tf32, float, float, __mma_tf32_m16n16k8_mma_f32, int, float, float, 0)
TILE_LOAD(matrix_a, 8, 8, 4, double, double, 1, __dmma_m8n8k4_ld_a, double, double)
TILE_LOAD(matrix_b, 8, 8, 4, double, double, 1, __dmma_m8n8k4_ld_b, double, double)
TILE_SUMS(8, 8, 4, double, 2, __dmma_m8n8k4_ld_c, __dmma_m8n8k4_st_c_f64, double)
TILE_PRODUCT(8, 8, 4, double, double, double, __dmma_m8n8k4_mma_f64, double, double, double, 0)
#endif
#undef TILE_LOAD
#undef TILE_SUMS
#undef TILE_PRODUCT
#undef TILE_HALF
}  // namespace wmma
}  // namespace nvcuda
