// The fragments of a whole warp tile, from swizzled tiles of A and B to registers
// (sm_75 and later).
//
// A warp's tile of C is 16 * M_TILES rows by 16 * N_PAIRS columns: M_TILES
// fragments of A and N_PAIRS pairs of fragments of B for each 16 values of k. In a
// swizzled row (swizzle.cuh) whose length is a power of two, a step along it is one
// XOR with the lane's first address.
#pragma once

#include "ldmatrix.cuh"
#include "mma.cuh"
#include "swizzle.cuh"

constexpr int ELEMENT_BYTES = 2;

// The address this lane gives for the first fragment of A: rows of A_COLS elements,
// the warp's tile starting at row warp_m.
template <int A_COLS, typename T>
__device__ __forceinline__ unsigned a_address(const T* A_tile, int warp_m) {
    const int lane = threadIdx.x % 32;
    return shared_address(A_tile +
                          swizzled<A_COLS>(warp_m + lane % 16, lane / 16 * 8));
}

// The same for the first two fragments of B: rows of B_COLS elements, from column
// warp_n on.
template <int B_COLS, typename T>
__device__ __forceinline__ unsigned b_address(const T* B_tile, int warp_n) {
    const int lane = threadIdx.x % 32;
    return shared_address(B_tile +
                          swizzled<B_COLS>(lane % 16, warp_n + lane / 16 * 8));
}

// Shared to registers: the fragments for k, k + 1 ... k + 15 (k a multiple of 16).
template <int A_COLS, int B_COLS, int M_TILES, int N_PAIRS>
__device__ __forceinline__ void load_fragments(unsigned (&a_frag)[M_TILES][4],
                                               unsigned (&b_frag)[N_PAIRS][4],
                                               unsigned a_lane, unsigned b_lane,
                                               int k)
{
    static_assert((A_COLS & (A_COLS - 1)) == 0 && (N_PAIRS & (N_PAIRS - 1)) == 0,
                  "powers of two: XOR steps");
    #pragma unroll
    for (int i = 0; i < M_TILES; ++i) {
        ldmatrix_x4(a_frag[i],
                    (a_lane ^ k * ELEMENT_BYTES) + i * 16 * A_COLS * ELEMENT_BYTES);
    }
    #pragma unroll
    for (int j = 0; j < N_PAIRS; ++j) {
        ldmatrix_x4_trans(b_frag[j], (b_lane ^ j * 16 * ELEMENT_BYTES) +
                                         k * B_COLS * ELEMENT_BYTES);
    }
}

// Every fragment of A meets every fragment of B. DEPTH: values of k an instruction
// takes, 8 or 16.
template <typename T, int DEPTH, int M_TILES, int N_PAIRS>
__device__ __forceinline__ void multiply(float (&sum)[M_TILES][2 * N_PAIRS][4],
                                         const unsigned (&a_frag)[M_TILES][4],
                                         const unsigned (&b_frag)[N_PAIRS][4]) {
    static_assert(DEPTH == 8 || DEPTH == 16, "mma.sync takes 8 or 16 values of k");
    #pragma unroll
    for (int h = 0; h < 16 / DEPTH; ++h) {
        #pragma unroll
        for (int i = 0; i < M_TILES; ++i) {
            #pragma unroll
            for (int j = 0; j < 2 * N_PAIRS; ++j) {
                const unsigned* a = &a_frag[i][2 * h];
                const unsigned* b = &b_frag[j / 2][j % 2 * 2 + h];
                if constexpr (DEPTH == 8) {
                    mma_m16n8k8<T>(sum[i][j], a[0], a[1], b[0]);
                } else {
                    mma_m16n8k16<T>(sum[i][j], a, b);
                }
            }
        }
    }
}
