// The pipelined kernel with copies that pass no register: cp.async, STAGES tiles
// deep (sm_80+).
//
// New since 11_double_buffer.cu: a copy instruction carries its element from global
// to shared memory by itself, while the thread goes on. No registers hold the next
// tiles, so several can be under way: while one tile is used, the STAGES - 1 after
// it are arriving. Copies are counted in groups, one group a tile. A 4-byte copy
// may go anywhere: A is transposed on its way.
//
// A is M x K, B is K x N, C is M x N, all row-major.
// Block: (BM / TM) * (BN / TN) threads. Grid: cdiv(N, BN) x cdiv(M, BM).

#include "common/cp_async.cuh"
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
#ifndef STAGES
#define STAGES 2  // tiles in shared memory: one in use, the others arriving
#endif
#ifndef TM
#define TM 8  // rows of C a thread
#endif
#ifndef TN
#define TN 8  // columns of C a thread
#endif

constexpr int VEC = 4;  // floats to an access
constexpr int THREADS = (BM / TM) * (BN / TN);
constexpr int A_STEP = THREADS / BK;          // rows of A copied in one go
constexpr int B_STEP = THREADS / (BN / VEC);  // rows of B copied in one go
constexpr int A_LOADS = BM / A_STEP;          // elements of A a thread copies
constexpr int B_LOADS = BK / B_STEP;          // fours of B a thread copies
constexpr int COL_STEP = VEC * (BN / TN);     // columns from one four to the next
constexpr int A_PAD = VEC;                    // keeps copies to A_tile apart

static_assert(BM % TM == 0 && BN % TN == 0, "threads split the tile of C evenly");
static_assert(TM % VEC == 0 && TN % VEC == 0, "fragments are read in fours");
static_assert(THREADS % BK == 0, "the block copies whole rows of A in one go");
static_assert(BM % A_STEP == 0, "every thread copies equally much of A");
static_assert(THREADS % (BN / VEC) == 0,
              "the block copies whole rows of B in one go");
static_assert(BK % B_STEP == 0, "every thread copies equally much of B");
static_assert(STAGES * BK * (BM + A_PAD + BN) * sizeof(float) <= 48 * 1024,
              "the tiles fit the 48 KB of static shared memory");
static_assert(STAGES >= 2, "one tile is used while the next arrives");
static_assert(THREADS <= 1024, "a block holds at most 1024 threads");

using ATile = float[BK][BM + A_PAD];  // transposed: a row holds one k
using BTile = float[BK][BN];

// ALIGNED: the rows of B and C start on 16 bytes, so that they can be accessed in
// fours.
template <bool ALIGNED>
__device__ void multiply(const float* A, const float* B, float* C, int M, int N,
                         int K, ATile* A_tile, BTile* B_tile)
{
    const int m0 = blockIdx.y * BM;  // origin of the block's tile of C
    const int n0 = blockIdx.x * BN;

    // What this thread copies: one element of every A_STEP-th row of A, one four of
    // every B_STEP-th row of B.
    const int a_row = threadIdx.x / BK;
    const int a_col = threadIdx.x % BK;
    const int b_row = threadIdx.x / (BN / VEC);
    const int b_col = threadIdx.x % (BN / VEC) * VEC;
    const float* A_src = A + size_t(m0 + a_row) * K + a_col;
    const float* B_src = B + size_t(b_row) * N + n0 + b_col;
    const int a_rows = M - (m0 + a_row);  // rows of A from its first one on
    const int b_cols = N - (n0 + b_col);  // columns of B from its first one on

    // The patch of C that this thread computes starts here, within the tile.
    const int c_row = threadIdx.x / (BN / TN) * TM;
    const int c_col = threadIdx.x % (BN / TN) * VEC;

    // Global to shared, asynchronously: this thread's part of the tiles that start
    // at k0.
    const auto copy = [&](int stage, int k0) {
        for (int i = 0; i < A_LOADS; ++i) {
            const bool inside = i * A_STEP < a_rows && k0 + a_col < K;
            copy_async<1>(&A_tile[stage][a_col][a_row + i * A_STEP],
                          A_src + size_t(i * A_STEP) * K, inside);
        }
        for (int i = 0; i < B_LOADS; ++i) {
            const int left = k0 + b_row + i * B_STEP < K ? b_cols : 0;
            copy4_async<ALIGNED>(&B_tile[stage][b_row + i * B_STEP][b_col],
                                 B_src + size_t(i * B_STEP) * N, left);
        }
        // Advance to the next BK columns of A and the next BK rows of B.
        A_src += BK;
        B_src += size_t(BK) * N;
    };

    // Fill the pipeline: all stages but one. A group may be empty, so that groups
    // count tiles.
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage * BK < K) {
            copy(stage, stage * BK);
        }
        commit_group();
    }

    float sum[TM][TN] = {};
    int stage = 0;                // the tiles in use
    int free_stage = STAGES - 1;  // the tiles that were used last
    for (int k0 = 0; k0 < K; k0 += BK) {
        wait_groups<STAGES - 2>();  // this thread's copies have arrived
        __syncthreads();            // everyone's, and the free stage is left

        const int k_next = k0 + (STAGES - 1) * BK;
        if (k_next < K) {
            copy(free_stage, k_next);
        }
        commit_group();

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            // Shared to registers: TM values of A and TN of B, four at a time.
            __align__(16) float a_frag[TM];
            __align__(16) float b_frag[TN];
            for (int i = 0; i < TM; i += VEC) {
                vec4(&a_frag[i]) = vec4(&A_tile[stage][k][c_row + i]);
            }
            for (int j = 0; j < TN; j += VEC) {
                vec4(&b_frag[j]) =
                    vec4(&B_tile[stage][k][c_col + j / VEC * COL_STEP]);
            }

            // Registers only: their outer product.
            for (int i = 0; i < TM; ++i) {
                for (int j = 0; j < TN; ++j) {
                    sum[i][j] += a_frag[i] * b_frag[j];
                }
            }
        }
        free_stage = stage;
        stage = stage + 1 < STAGES ? stage + 1 : 0;
    }

    // Registers to global, four neighbours of a row at a time.
    for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; j += VEC) {
            const int row = m0 + c_row + i;
            const int col = n0 + c_col + j / VEC * COL_STEP;
            const float4 v =
                make_float4(sum[i][j], sum[i][j + 1], sum[i][j + 2], sum[i][j + 3]);
            store4<ALIGNED>(C + size_t(row) * N + col, v, row < M ? N - col : 0);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
cp_async(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ __align__(16) ATile A_tile[STAGES];
    __shared__ __align__(16) BTile B_tile[STAGES];

    if (rows_aligned(B, N) && rows_aligned(C, N)) {
        multiply<true>(A, B, C, M, N, K, A_tile, B_tile);
    } else {
        multiply<false>(A, B, C, M, N, K, A_tile, B_tile);
    }
}
