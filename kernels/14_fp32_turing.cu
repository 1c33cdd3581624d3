// FP32 on GPUs without cp.async, such as the T4: no ring, two blocks on an SM.
//
// New since 13_warp_tiled.cu: the patch of a thread is 8 x 8, so that two blocks of
// 256 threads fit on an SM: one multiplies while the other meets at its barrier.
// What was fetched is put down steps before the barrier, between multiply-adds.
// What is left of K is counted down, which takes fewer registers. Blocks walk C in
// bands of GROUP_M rows of tiles, so that blocks at work together share operands in
// the L2 cache.
//
// A is M x K, B is K x N, C is M x N, all row-major.
// Block: (BM / WM) * (BN / WN) warps. Grid: cdiv(M, BM) * cdiv(N, BN),
// one-dimensional.

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
#ifndef WM
#define WM 32  // rows of C a warp
#endif
#ifndef WN
#define WN 64  // columns of C a warp
#endif
#ifndef TM
#define TM 8  // rows of C a thread
#endif
#ifndef TN
#define TN 8  // columns of C a thread
#endif
#ifndef GROUP_M
#define GROUP_M 8  // rows of tiles in a band
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 2  // blocks that an SM must hold: limits a thread's registers
#endif

constexpr int VEC = 4;  // floats to an access
constexpr int THREADS = (BM / TM) * (BN / TN);
constexpr int A_STEP = THREADS / (BK / VEC);  // rows of A copied in one go
constexpr int B_STEP = THREADS / (BN / VEC);  // rows of B copied in one go
constexpr int A_LOADS = BM / A_STEP;          // fours of A a thread copies
constexpr int B_LOADS = BK / B_STEP;          // fours of B a thread copies
constexpr int ROW_STEP = VEC * (WM / TM);     // rows from one four to the next
constexpr int COL_STEP = VEC * (WN / TN);     // columns from one four to the next
constexpr int LANES_M = WM / TM;              // a warp is LANES_M x LANES_N threads
constexpr int LANES_N = WN / TN;
constexpr int WARPS_N = BN / WN;              // warps side by side in the tile
constexpr int A_PAD = VEC;                    // keeps stores to A_tile apart
constexpr int PUT_DOWN = BK - 3;              // the step of k that stores what came

static_assert(BM % WM == 0 && BN % WN == 0, "warps split the tile of C evenly");
static_assert(WM % TM == 0 && WN % TN == 0 && LANES_M * LANES_N == 32,
              "32 lanes split the warp's tile evenly");
static_assert(LANES_N % 2 == 0, "neighbouring lanes share a row");
static_assert(BK % VEC == 0 && TM % VEC == 0 && TN % VEC == 0,
              "everything moves in fours");
static_assert(THREADS % (BK / VEC) == 0,
              "the block copies whole rows of A in one go");
static_assert(BM % A_STEP == 0, "every thread copies equally much of A");
static_assert(THREADS % (BN / VEC) == 0,
              "the block copies whole rows of B in one go");
static_assert(BK % B_STEP == 0, "every thread copies equally much of B");
static_assert(2 * BK * (BM + A_PAD + BN) * sizeof(float) <= 48 * 1024,
              "the tiles fit the 48 KB of static shared memory");
static_assert(THREADS <= 1024, "a block holds at most 1024 threads");

using ATile = float[BK][BM + A_PAD];  // transposed: a row holds one k
using BTile = float[BK][BN];

// ALIGNED: the rows of A, B and C start on 16 bytes, so that they can be accessed
// in fours.
template <bool ALIGNED>
__device__ void multiply(const float* A, const float* B, float* C, int M, int N,
                         int K, int m0, int n0, ATile* A_tile, BTile* B_tile)
{
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

    // The patch of C that this thread computes starts here, within the tile. Bits 1
    // and up of the lane choose its rows, bit 0 and the topmost ones its columns.
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int lane_m = lane / 2 % LANES_M;
    const int lane_n = lane / (2 * LANES_M) * 2 + lane % 2;
    const int c_row = warp / WARPS_N * WM + lane_m * VEC;
    const int c_col = warp % WARPS_N * WN + lane_n * VEC;

    float4 a_next[A_LOADS];
    float4 b_next[B_LOADS];

    // Global to registers: this thread's part of the next tiles, of which `rest`
    // columns of A and rows of B are left.
    const auto load = [&](int rest) {
        for (int i = 0; i < A_LOADS; ++i) {
            const int left = i * A_STEP < a_rows ? rest - a_col : 0;
            a_next[i] = load4<ALIGNED>(A_src + size_t(i * A_STEP) * K, left);
        }
        for (int i = 0; i < B_LOADS; ++i) {
            const int left = b_row + i * B_STEP < rest ? b_cols : 0;
            b_next[i] = load4<ALIGNED>(B_src + size_t(i * B_STEP) * N, left);
        }
        // Advance to the next BK columns of A and the next BK rows of B.
        A_src += BK;
        B_src += size_t(BK) * N;
    };

    // Registers to shared: four of a row of A become four of a column of A_tile.
    const auto put_down = [&](int buffer) {
        for (int i = 0; i < A_LOADS; ++i) {
            A_tile[buffer][a_col + 0][a_row + i * A_STEP] = a_next[i].x;
            A_tile[buffer][a_col + 1][a_row + i * A_STEP] = a_next[i].y;
            A_tile[buffer][a_col + 2][a_row + i * A_STEP] = a_next[i].z;
            A_tile[buffer][a_col + 3][a_row + i * A_STEP] = a_next[i].w;
        }
        for (int i = 0; i < B_LOADS; ++i) {
            vec4(&B_tile[buffer][b_row + i * B_STEP][b_col]) = b_next[i];
        }
    };

    __align__(16) float a_frag[2][TM];  // of this k and of the next
    __align__(16) float b_frag[2][TN];

    // Shared to registers: TM values of A and TN of B, four at a time.
    const auto read_frags = [&](int buffer, int k) {
        for (int i = 0; i < TM; i += VEC) {
            vec4(&a_frag[k % 2][i]) =
                vec4(&A_tile[buffer][k][c_row + i / VEC * ROW_STEP]);
        }
        for (int j = 0; j < TN; j += VEC) {
            vec4(&b_frag[k % 2][j]) =
                vec4(&B_tile[buffer][k][c_col + j / VEC * COL_STEP]);
        }
    };

    float sum[TM][TN] = {};
    load(K);
    put_down(0);
    __syncthreads();  // the first buffer is complete

    int buffer = 0;
    read_frags(buffer, 0);
    for (int rest = K; rest > 0; rest -= BK) {
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            if (k == BK - 1) {
                __syncthreads();  // the other buffer is complete, this one is free
                buffer = 1 - buffer;
            }
            read_frags(buffer, (k + 1) % BK);
            if (k == 0) load(rest - BK);  // nobody needs these before PUT_DOWN
            // Nobody reads the other buffer: its last readers passed the barrier.
            if (k == PUT_DOWN) put_down(1 - buffer);

            // Registers only: their outer product, every other row from its end.
            for (int i = 0; i < TM; ++i) {
                for (int step = 0; step < TN; ++step) {
                    const int j = i % 2 ? TN - 1 - step : step;
                    sum[i][j] += a_frag[k % 2][i] * b_frag[k % 2][j];
                }
            }
        }
    }

    const auto out = [](float x) { return x + 0.0f; };  // frees the sum's place
    // Registers to global, four neighbours of a row at a time.
    for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; j += VEC) {
            const int row = m0 + c_row + i / VEC * ROW_STEP + i % VEC;
            const int col = n0 + c_col + j / VEC * COL_STEP;
            const float4 v = make_float4(out(sum[i][j]), out(sum[i][j + 1]),
                                         out(sum[i][j + 2]), out(sum[i][j + 3]));
            store4<ALIGNED>(C + size_t(row) * N + col, v, row < M ? N - col : 0);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
fp32_turing(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ __align__(16) ATile A_tile[2];
    __shared__ __align__(16) BTile B_tile[2];

    // Block numbers run down the rows of a band, then to its next column of tiles.
    const int tiles_m = (M + BM - 1) / BM;
    const int tiles_n = (N + BN - 1) / BN;
    const int band = blockIdx.x / (GROUP_M * tiles_n);
    const int within = blockIdx.x % (GROUP_M * tiles_n);
    const int height = min(GROUP_M, tiles_m - band * GROUP_M);
    const int m0 = (band * GROUP_M + within % height) * BM;
    const int n0 = within / height * BN;

    if (rows_aligned(A, K) && rows_aligned(B, N) && rows_aligned(C, N)) {
        multiply<true>(A, B, C, M, N, K, m0, n0, A_tile, B_tile);
    } else {
        multiply<false>(A, B, C, M, N, K, m0, n0, A_tile, B_tile);
    }
}
