// One thread computes one element of C; four steps of the k loop are written out by
// hand.
//
// New against 05_coalesced.cu: each trip round the loop does UNROLL = 4
// multiply-adds, so the counter is tested and the branch taken a quarter as often.
// A second loop does what is left when 4 does not divide K. The loads are the same
// loads, and the compiler unrolls such a loop without being asked. (Document S,
// version 2.)
//
// A is M x K, B is K x N, C is M x N, all row-major.
// Block: BX x BY threads, one element of C each. Grid: cdiv(N, BX) x cdiv(M, BY).

#ifndef BX
#define BX 32  // threads of a block in x: columns of C
#endif
#ifndef BY
#define BY 32  // threads of a block in y: rows of C
#endif

constexpr int UNROLL = 4;  // as many lines as the loop body below has

static_assert(BX * BY <= 1024, "a block holds at most 1024 threads");

extern "C" __global__ void __launch_bounds__(BX * BY)
unrolled(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int col = blockIdx.x * BX + threadIdx.x;
    const int row = blockIdx.y * BY + threadIdx.y;
    if (row >= M || col >= N) {
        return;
    }

    const float* A_row = A + size_t(row) * K;
    const float* B_col = B + col;

    float sum = 0.0f;
    int k = 0;
    for (; k <= K - UNROLL; k += UNROLL) {
        sum += A_row[k + 0] * B_col[size_t(k + 0) * N];
        sum += A_row[k + 1] * B_col[size_t(k + 1) * N];
        sum += A_row[k + 2] * B_col[size_t(k + 2) * N];
        sum += A_row[k + 3] * B_col[size_t(k + 3) * N];
    }
    for (; k < K; ++k) {  // the last K % UNROLL products
        sum += A_row[k] * B_col[size_t(k) * N];
    }
    C[size_t(row) * N + col] = sum;
}
