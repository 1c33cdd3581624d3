// The 2D-blocked kernel with four floats to an access of global memory.
//
// New since 09_block_2d.cu: a thread copies four neighbours with one instruction,
// of A and B into the tiles and of C out of its registers. What it reads from the
// tiles is as it was. Matrices whose rows do not all start on 16 bytes take the
// same way element by element.
//
// A is M x K, B is K x N, C is M x N, all row-major.
// Block: (BM / TM) * (BN / TN) threads. Grid: cdiv(N, BN) x cdiv(M, BM).

#include "common/vector.cuh"

#ifndef BM
#define BM 128  // rows of C a block
#endif
#ifndef BN
#define BN 128  // columns of C a block
#endif
#ifndef BK
#define BK 8  // steps of k between barriers
#endif
#ifndef TM
#define TM 8  // rows of C a thread
#endif
#ifndef TN
#define TN 8  // columns of C a thread
#endif

constexpr int VEC = 4;  // floats to an access
constexpr int THREADS = (BM / TM) * (BN / TN);
constexpr int A_STEP = THREADS / (BK / VEC);  // rows of A copied in one go
constexpr int B_STEP = THREADS / (BN / VEC);  // rows of B copied in one go
constexpr int A_LOADS = BM / A_STEP;          // fours of A a thread copies
constexpr int B_LOADS = BK / B_STEP;          // fours of B a thread copies

static_assert(BM % TM == 0 && BN % TN == 0, "threads split the tile of C evenly");
static_assert(BK % VEC == 0 && TN % VEC == 0, "everything moves in fours");
static_assert(THREADS % (BK / VEC) == 0,
              "the block copies whole rows of A in one go");
static_assert(BM % A_STEP == 0, "every thread copies equally much of A");
static_assert(THREADS % (BN / VEC) == 0,
              "the block copies whole rows of B in one go");
static_assert(BK % B_STEP == 0, "every thread copies equally much of B");
static_assert(BK * (BM + BN) * sizeof(float) <= 48 * 1024,
              "the tiles fit the 48 KB of static shared memory");
static_assert(THREADS <= 1024, "a block holds at most 1024 threads");

using ATile = float[BM][BK];
using BTile = float[BK][BN];

// ALIGNED: the rows of A, B and C start on 16 bytes, so that they can be accessed
// in fours.
template <bool ALIGNED>
__device__ void multiply(const float* A, const float* B, float* C, int M, int N,
                         int K, ATile& A_tile, BTile& B_tile)
{
    const int m0 = blockIdx.y * BM;  // origin of the block's tile of C
    const int n0 = blockIdx.x * BN;

    // The fours that this thread copies: every A_STEP-th row of A, every B_STEP-th
    // row of B.
    const int a_row = threadIdx.x / (BK / VEC);
    const int a_col = threadIdx.x % (BK / VEC) * VEC;
    const int b_row = threadIdx.x / (BN / VEC);
    const int b_col = threadIdx.x % (BN / VEC) * VEC;
    const float* A_src = A + size_t(m0 + a_row) * K + a_col;
    const float* B_src = B + size_t(b_row) * N + n0 + b_col;
    const int a_rows = M - (m0 + a_row);  // rows of A from its first one on
    const int b_cols = N - (n0 + b_col);  // columns of B from its first one on

    // The patch of C that this thread computes starts here, within the tile.
    const int c_row = threadIdx.x / (BN / TN) * TM;
    const int c_col = threadIdx.x % (BN / TN) * TN;

    float4 a_fours[A_LOADS];
    float4 b_fours[B_LOADS];

    float sum[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        // Global to registers: all loads are under way before the first is waited
        // for.
        for (int i = 0; i < A_LOADS; ++i) {
            const int left = i * A_STEP < a_rows ? K - (k0 + a_col) : 0;
            a_fours[i] = load4<ALIGNED>(A_src + size_t(i * A_STEP) * K, left);
        }
        for (int i = 0; i < B_LOADS; ++i) {
            const int left = k0 + b_row + i * B_STEP < K ? b_cols : 0;
            b_fours[i] = load4<ALIGNED>(B_src + size_t(i * B_STEP) * N, left);
        }
        // Advance to the next BK columns of A and the next BK rows of B.
        A_src += BK;
        B_src += size_t(BK) * N;

        // Registers to shared.
        for (int i = 0; i < A_LOADS; ++i) {
            vec4(&A_tile[a_row + i * A_STEP][a_col]) = a_fours[i];
        }
        for (int i = 0; i < B_LOADS; ++i) {
            vec4(&B_tile[b_row + i * B_STEP][b_col]) = b_fours[i];
        }
        __syncthreads();  // both tiles are complete

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            // Shared to registers: TM values of A, TN values of B.
            float a_frag[TM];
            float b_frag[TN];
            for (int i = 0; i < TM; ++i) {
                a_frag[i] = A_tile[c_row + i][k];
            }
            for (int j = 0; j < TN; ++j) {
                b_frag[j] = B_tile[k][c_col + j];
            }

            // Registers only: their outer product.
            for (int i = 0; i < TM; ++i) {
                for (int j = 0; j < TN; ++j) {
                    sum[i][j] += a_frag[i] * b_frag[j];
                }
            }
        }
        __syncthreads();  // everyone has read the tiles: they may be overwritten
    }

    // Registers to global, four neighbours of a row at a time.
    for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; j += VEC) {
            const int row = m0 + c_row + i;
            const int col = n0 + c_col + j;
            const float4 v =
                make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            store4<ALIGNED>(C + size_t(row) * N + col, v, row < M ? N - col : 0);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
wide_loads(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ __align__(16) ATile A_tile;
    __shared__ __align__(16) BTile B_tile;

    if (rows_aligned(A, K) && rows_aligned(B, N) && rows_aligned(C, N)) {
        multiply<true>(A, B, C, M, N, K, A_tile, B_tile);
    } else {
        multiply<false>(A, B, C, M, N, K, A_tile, B_tile);
    }
}
