// One thread computes one element of C, and neighbouring threads compute neighbours
// in a row.
//
// New since 04_naive.cu: threadIdx.x walks ALONG a row of C (MatmulYrow). At each
// step a warp reads 32 neighbouring elements of B and one element of A, and stores
// 32 neighbours of C. The arithmetic is the same; only the pairing of threads with
// elements changed.
//
// A is M x K, B is K x N, C is M x N, all row-major.
// Block: BX x BY threads, one element of C each. Grid: cdiv(N, BX) x cdiv(M, BY).

#ifndef ELEMENT
#define ELEMENT float  // element type: float or int
#endif
#ifndef BX
#define BX 32  // threads of a block in x: columns of C
#endif
#ifndef BY
#define BY 32  // threads of a block in y: rows of C
#endif

using T = ELEMENT;

// Steps of k between two tests of the loop: their loads overlap.
constexpr int UNROLL = 32;

static_assert(BX * BY <= 1024, "a block holds at most 1024 threads");

extern "C" __global__ void __launch_bounds__(BX * BY)
coalesced(const T* A, const T* B, T* C, int M, int N, int K)
{
    const int col = blockIdx.x * BX + threadIdx.x;
    const int row = blockIdx.y * BY + threadIdx.y;

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
