#include <assert.h>
#include <cuda.h>
#include <mma.h>
#include <stdio.h>

using namespace nvcuda;

#define M 16
#define N 16
#define K 16

__global__ void wmma_one(half *a, half *b, float *c) {
    wmma::fragment<wmma::matrix_a, M, N, K, half, wmma::row_major> a_frag;
    wmma::fragment<wmma::matrix_b, M, N, K, half, wmma::row_major> b_frag;
    wmma::fragment<wmma::accumulator, M, N, K, float> acc;
    wmma::fill_fragment(acc, 0.0f);
    wmma::load_matrix_sync(a_frag, a, K);
    wmma::load_matrix_sync(b_frag, b, N);
    wmma::mma_sync(acc, a_frag, b_frag, acc);
    wmma::store_matrix_sync(c, acc, N, wmma::mem_row_major);
}

#define checkKernelErrors(expr)                                       \
    do {                                                              \
        expr;                                                         \
        cudaError_t __err = cudaGetLastError();                       \
        if (__err != cudaSuccess) abort();                            \
    } while (0)

int main(int argc, char **argv) {
    printf("Initializing...\n");
    cudaDeviceProp deviceProp;
    cudaGetDeviceProperties(&deviceProp, 0);
    checkKernelErrors((wmma_one<<<1, 32>>>(nullptr, nullptr, nullptr)));
    return EXIT_SUCCESS;
}
