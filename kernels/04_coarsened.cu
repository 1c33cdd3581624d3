// One thread computes COARSE neighbouring elements of a row of C, one after the
// other.
//
// New against 05_coalesced.cu: fewer threads, each with more to do. Neighbouring
// threads now stand COARSE columns apart, so a warp's load of B spans COARSE times
// as many bytes and uses one element in COARSE of them. The k loop runs once for
// each element: nothing that is read for one serves the next. (Document S, version
// 4.)
//
// A is M x K, B is K x N, C is M x N, all row-major.
// Block: BX x BY threads, COARSE elements each. Grid: cdiv(N, BX * COARSE) x
// cdiv(M, BY).

#ifndef BX
#define BX 32  // threads of a block in x
#endif
#ifndef BY
#define BY 32  // threads of a block in y: rows of C
#endif
#ifndef COARSE
#define COARSE 4  // columns of C a thread
#endif

static_assert(BX * BY <= 1024, "a block holds at most 1024 threads");

extern "C" __global__ void __launch_bounds__(BX * BY)
coarsened(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int first_col = (blockIdx.x * BX + threadIdx.x) * COARSE;
    const int row = blockIdx.y * BY + threadIdx.y;
    if (row >= M) {
        return;
    }

    const float* A_row = A + size_t(row) * K;

    for (int c = 0; c < COARSE; ++c) {
        const int col = first_col + c;
        if (col < N) {
            const float* B_col = B + col;
            float sum = 0.0f;
            for (int k = 0; k < K; ++k) {
                sum += A_row[k] * B_col[size_t(k) * N];
            }
            C[size_t(row) * N + col] = sum;
        }
    }
}
