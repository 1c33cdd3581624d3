// The core of 17_wmma.cu: a warp multiplies 16 x 16 fragments on the Tensor Cores.
// Whole tiles only: M and K are multiples of 16, N of 512.

#include <cuda_fp16.h>
#include <mma.h>

using namespace nvcuda;
using T = __half;

extern "C" __global__ void
wmma_core(const T* A, const T* B, float* C, int M, int N, int K)
{
    const int FRAG = 16, WARPS = 32;  // edge of a fragment; warps of a block

    const int row0 = blockIdx.x * FRAG;  // this warp's fragment of C
    const int col0 = (blockIdx.y * WARPS + threadIdx.y) * FRAG;

    wmma::fragment<wmma::matrix_a, FRAG, FRAG, FRAG, T, wmma::row_major> a_frag;
    wmma::fragment<wmma::matrix_b, FRAG, FRAG, FRAG, T, wmma::row_major> b_frag;
    wmma::fragment<wmma::accumulator, FRAG, FRAG, FRAG, float> c_frag;
    wmma::fill_fragment(c_frag, 0.0f);

    for (int k0 = 0; k0 < K; k0 += FRAG) {
        // Global to registers: a fragment of A and one of B, of the whole warp.
        wmma::load_matrix_sync(a_frag, A + row0 * K + k0, K);
        wmma::load_matrix_sync(b_frag, B + k0 * N + col0, N);
        wmma::mma_sync(c_frag, a_frag, b_frag, c_frag);
    }
    // Registers to global.
    wmma::store_matrix_sync(C + row0 * N + col0, c_frag, N, wmma::mem_row_major);
}
