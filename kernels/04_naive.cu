// One thread computes one element of C: the triple loop with its two outer loops
// gone.
//
// threadIdx.x walks DOWN a column of C (MatmulXrow). The 32 threads of a warp
// differ in threadIdx.x first, so at each step they read 32 rows of A, K elements
// apart, and one element of B. Correct, and slow.
//
// A is M x K, B is K x N, C is M x N, all row-major.
// Block: BX x BY threads, one element of C each. Grid: cdiv(M, BX) x cdiv(N, BY).

#ifndef ELEMENT
#define ELEMENT float  // element type: float or int
#endif
#ifndef BX
#define BX 32  // threads of a block in x: rows of C
#endif
#ifndef BY
#define BY 32  // threads of a block in y: columns of C
#endif

using T = ELEMENT;

// Steps of k between two tests of the loop: their loads overlap.
constexpr int UNROLL = 32;

static_assert(BX * BY <= 1024, "a block holds at most 1024 threads");

extern "C" __global__ void __launch_bounds__(BX * BY)
naive(const T* A, const T* B, T* C, int M, int N, int K)
{
    const int row = blockIdx.x * BX + threadIdx.x;
    const int col = blockIdx.y * BY + threadIdx.y;

    // The grid covers C rounded up to whole blocks: threads outside C have nothing
    // to do.
    if (row >= M || col >= N) {
        return;
    }

    const T* A_row = A + size_t(row) * K;  // size_t: an offset may pass 2^31
    const T* B_col = B + col;

    T sum = 0;
    #pragma unroll UNROLL
    for (int k = 0; k < K; ++k) {
        sum += A_row[k] * B_col[size_t(k) * N];
    }
    C[size_t(row) * N + col] = sum;
}
