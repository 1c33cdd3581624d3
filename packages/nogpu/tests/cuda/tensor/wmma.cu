#include <mma.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
using namespace nvcuda;
extern "C" __global__ void k(const IN* A, const IN* B, OUT* C, int lda, int ldb, int ldc)
{
    extern __shared__ __align__(32) unsigned char raw[];
    IN* s = reinterpret_cast<IN*>(raw);
    OUT* o = reinterpret_cast<OUT*>(raw);
    wmma::fragment<wmma::matrix_a, M, N, K, FRAG, wmma::LAYOUT_A> a;
    wmma::fragment<wmma::matrix_b, M, N, K, FRAG, wmma::LAYOUT_B> b;
    wmma::fragment<wmma::accumulator, M, N, K, OUT> c;
#if SHARED
    for (int i = threadIdx.x; i < M * K; i += 32) s[i] = A[i];
    for (int i = threadIdx.x; i < K * N; i += 32) s[M * K + i] = B[i];
    __syncthreads();
    wmma::load_matrix_sync(a, s, lda);
    wmma::load_matrix_sync(b, s + M * K, ldb);
#else
    wmma::load_matrix_sync(a, A, lda);
    wmma::load_matrix_sync(b, B, ldb);
#endif
    wmma::fill_fragment(c, OUT(1));
    wmma::mma_sync(c, a, b, c);
    for (int i = 0; i < c.num_elements; ++i) c.x[i] = c.x[i] * OUT(2);
#if SHARED
    __syncthreads();
    wmma::store_matrix_sync(o, c, ldc, wmma::LAYOUT_C);
    __syncthreads();
    for (int i = threadIdx.x; i < M * N; i += 32) C[i] = o[i];
#else
    wmma::store_matrix_sync(C, c, ldc, wmma::LAYOUT_C);
#endif
}
