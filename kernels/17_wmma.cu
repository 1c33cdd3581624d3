// The first Tensor Core kernel: one warp computes a 16 x 16 tile of C with WMMA.
//
// A fragment is a 16 x 16 tile that the 32 lanes of a warp hold between them;
// load_matrix_sync, mma_sync and store_matrix_sync are executed by the whole warp.
// As in document L, fragments come straight from global memory and a block is 32 x
// 32 threads: a row of 32 warps, side by side in C. Unlike there, any shape is
// right: a fragment that leaves its matrix, or lies in rows that wmma cannot
// address, is put together in shared memory first.
//
// A is M x K, B is K x N of 2-byte elements, C is M x N of floats, all row-major.
// Block: 32 x 32 threads. Grid: cdiv(M, 16) x cdiv(N, 16 * 32). Document L starts
// cdiv(N, 16) blocks in y: as a block holds 32 warps, 31 of 32 have nothing to do.

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "common/wmma_store.cuh"

#ifndef ELEMENT
#define ELEMENT __half  // of A and B: __half, or __nv_bfloat16 from sm_80 on
#endif

using namespace nvcuda;
using T = ELEMENT;
using AFragment =
    wmma::fragment<wmma::matrix_a, FRAG, FRAG, FRAG, T, wmma::row_major>;
using BFragment =
    wmma::fragment<wmma::matrix_b, FRAG, FRAG, FRAG, T, wmma::row_major>;

constexpr int WARPS = 32;  // of a block: blockDim.y

// Whether wmma can load fragments of a matrix with rows of `cols` elements from
// global memory: rows must be multiples of 16 bytes, a fragment must start at a
// multiple of 32 bytes.
__device__ __forceinline__ bool loadable(const T* matrix, int cols) {
    return cols % 8 == 0 && reinterpret_cast<size_t>(matrix) % 32 == 0;
}

// Global to shared: the fragment at (row0, col0), with zeros outside the matrix.
__device__ __forceinline__ void stage(T* staged, const T* matrix, int rows,
                                      int cols, int row0, int col0)
{
    const unsigned short* from = reinterpret_cast<const unsigned short*>(matrix);
    unsigned short* to = reinterpret_cast<unsigned short*>(staged);
    #pragma unroll 1
    for (int e = threadIdx.x; e < FRAG * FRAG; e += 32) {
        const int row = row0 + e / FRAG;
        const int col = col0 + e % FRAG;
        to[e] = row < rows && col < cols ? from[size_t(row) * cols + col] : 0;
    }
}

extern "C" __global__ void __launch_bounds__(WARPS * 32)
wmma(const T* A, const T* B, float* C, int M, int N, int K)
{
    // For each warp room for a fragment of A and one of B, or for one of C.
    __shared__ __align__(128) float staging[WARPS][FRAG * FRAG];
    float* C_staged = staging[threadIdx.y];
    T* A_staged = reinterpret_cast<T*>(C_staged);
    T* B_staged = A_staged + FRAG * FRAG;

    const int m0 = blockIdx.x * FRAG;
    const int n0 = (blockIdx.y * WARPS + threadIdx.y) * FRAG;
    const bool in_C = m0 < M && n0 < N;
    const bool whole = m0 + FRAG <= M && n0 + FRAG <= N;
    const bool direct = loadable(A, K) && loadable(B, N) && (whole || !in_C);

    AFragment a_frag;
    BFragment b_frag;
    CFragment c_frag;
    wmma::fill_fragment(c_frag, 0.0f);

    // Global to registers, as long as fragments lie wholly inside their matrices. A
    // warp beyond C walks along K too and does nothing, as in document L.
    int k0 = 0;
    const int K_direct = direct ? K / FRAG * FRAG : 0;
    #pragma unroll 4
    for (; k0 < K_direct; k0 += FRAG) {
        if (in_C) {
            wmma::load_matrix_sync(a_frag, A + size_t(m0) * K + k0, K);
            wmma::load_matrix_sync(b_frag, B + size_t(k0) * N + n0, N);
            wmma::mma_sync(c_frag, a_frag, b_frag, c_frag);
        }
    }
    // Global to shared to registers: the fragments that do not.
    for (; in_C && k0 < K; k0 += FRAG) {
        stage(A_staged, A, M, K, m0, k0);
        stage(B_staged, B, K, N, k0, n0);
        __syncwarp();  // both fragments are complete
        wmma::load_matrix_sync(a_frag, A_staged, FRAG);
        wmma::load_matrix_sync(b_frag, B_staged, FRAG);
        wmma::mma_sync(c_frag, a_frag, b_frag, c_frag);
        __syncwarp();  // everyone has read them: they may be overwritten
    }

    // Registers to global.
    if (in_C) {
        store_fragment(C, M, N, m0, n0, c_frag, C_staged);
    }
}
