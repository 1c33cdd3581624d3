// The fastest FP32 kernel of the book, for Ampere and later GPUs.
//
// New since 13_warp_tiled.cu: copies from global to shared memory are asynchronous
// and run STAGES - 1 tiles ahead in a ring of STAGES shared tiles; blocks walk C in
// bands of GROUP_M rows of tiles, so that the blocks at work together share
// operands in the L2 cache.
//
// A is M x K, B is K x N, C is M x N, all row-major.
// Block: (BM / WM) * (BN / WN) warps. Grid: cdiv(M, BM) * cdiv(N, BN),
// one-dimensional.

#include "common/cp_async.cuh"
#include "common/vector.cuh"

#ifndef BM
#define BM 128  // rows of C a block
#endif
#ifndef BN
#define BN 256  // columns of C a block
#endif
#ifndef BK
#define BK 8  // steps of k between barriers
#endif
#ifndef WM
#define WM 64  // rows of C a warp
#endif
#ifndef WN
#define WN 64  // columns of C a warp
#endif
#ifndef TM
#define TM 16  // rows of C a thread
#endif
#ifndef TN
#define TN 8  // columns of C a thread
#endif
#ifndef STAGES
#define STAGES 3  // tiles in the ring: one in use, the others arriving
#endif
#ifndef GROUP_M
#define GROUP_M 8  // rows of tiles in a band
#endif
#ifndef FRAGMENTS_AHEAD
#define FRAGMENTS_AHEAD 1  // read fragments a step of k before their use
#endif
#ifndef BACK_AND_FORTH
#define BACK_AND_FORTH 1  // every other row of the outer product from its end
#endif
#ifndef ZEROS_ADDED
#define ZEROS_ADDED 1  // to the sums at the end: frees their places in the loop
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1  // blocks that an SM must hold: limits a thread's registers
#endif

constexpr int VEC = 4;  // floats to an access
constexpr int THREADS = (BM / TM) * (BN / TN);
constexpr int SECTOR = 8;                     // floats of a row of A in 32 bytes
constexpr int A_STEP = THREADS / SECTOR;      // rows of A copied in one go
constexpr int ROW_STEP = VEC * (WM / TM);     // rows from one four to the next
constexpr int COL_STEP = VEC * (WN / TN);     // columns from one four to the next
constexpr int LANES_M = WM / TM;              // a warp is LANES_M x LANES_N threads
constexpr int LANES_N = WN / TN;
constexpr int WARPS_N = BN / WN;              // warps side by side in the tile
constexpr int A_PAD = VEC;                    // keeps stores to A_tile apart

static_assert(BM % WM == 0 && BN % WN == 0, "warps split the tile of C evenly");
static_assert(WM % TM == 0 && WN % TN == 0 && LANES_M * LANES_N == 32,
              "32 lanes split the warp's tile evenly");
static_assert(LANES_N % 2 == 0, "neighbouring lanes share a row");
static_assert(TM % VEC == 0 && TN % VEC == 0, "fragments are read in fours");
static_assert(BK % SECTOR == 0, "A is copied a sector at a time");
static_assert(THREADS % SECTOR == 0, "the block copies whole sectors in one go");
static_assert(BM % A_STEP == 0, "every thread copies equally much of A");
static_assert(STAGES >= 2, "one tile is used while the next arrives");
static_assert(THREADS <= 1024, "a block holds at most 1024 threads");

// One place of the ring.
struct Stage {
    float A_tile[BK][BM + A_PAD];  // transposed: a row holds one k
    float B_tile[BK][BN];
};

// WIDTH: floats to a copy of B, 4 where the rows of B and C start on 16 bytes, else
// 1.
template <int WIDTH>
__device__ void multiply(const float* A, const float* B, float* C, int M, int N,
                         int K, int m0, int n0)
{
    // Of a row.
    constexpr int B_LANES = BN / WIDTH < THREADS ? BN / WIDTH : THREADS;
    constexpr int B_SPAN = B_LANES * WIDTH;  // floats of a row in one go
    constexpr int B_STEP = THREADS / B_LANES;  // rows of B in one go
    static_assert(THREADS % B_LANES == 0 && BN % B_SPAN == 0 && BK % B_STEP == 0,
                  "every thread copies equally much of B");

    extern __shared__ __align__(16) Stage ring[];

    // What this thread copies: elements of every A_STEP-th row of A and of every
    // B_STEP-th row of B.
    const int a_row = threadIdx.x / SECTOR;
    const int a_col = threadIdx.x % SECTOR;
    const int b_row = threadIdx.x / B_LANES;
    const int b_col = threadIdx.x % B_LANES * WIDTH;
    const float* A_src = A + size_t(m0 + a_row) * K + a_col;
    const float* B_src = B + size_t(b_row) * N + n0 + b_col;
    const int a_rows = M - (m0 + a_row);  // rows of A from its first one on
    const int a_cols = K - a_col;         // columns of A from its first one on
    const int b_rows = K - b_row;         // rows of B from its first one on
    const int b_cols = N - (n0 + b_col);  // columns of B from its first one on

    // The patch of C that this thread computes starts here, within the tile. Bits 1
    // and up of the lane choose its rows, bit 0 and the topmost ones its columns.
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    const int lane_m = lane / 2 % LANES_M;
    const int lane_n = lane / (2 * LANES_M) * 2 + lane % 2;
    const int c_row = warp / WARPS_N * WM + lane_m * VEC;
    const int c_col = warp % WARPS_N * WN + lane_n * VEC;

    // Global to shared, asynchronously: this thread's part of the tiles that start
    // at k0.
    const auto copy = [&](Stage& to, int k0) {
        for (int i = 0; i < BM; i += A_STEP) {
            for (int k = 0; k < BK; k += SECTOR) {
                const bool inside = i < a_rows && k0 + k < a_cols;
                copy_async<1>(&to.A_tile[a_col + k][a_row + i],
                              A_src + size_t(i) * K + k, inside);
            }
        }
        for (int k = 0; k < BK; k += B_STEP) {
            for (int j = 0; j < BN; j += B_SPAN) {
                const bool inside = k0 + k < b_rows && j < b_cols;
                copy_async<WIDTH>(&to.B_tile[b_row + k][b_col + j],
                                  B_src + size_t(k) * N + j, inside);
            }
        }
        // Advance to the next BK columns of A and the next BK rows of B.
        A_src += BK;
        B_src += size_t(BK) * N;
        commit_group();
    };

    __align__(16) float a_frag[2][TM];  // of this k and of the next
    __align__(16) float b_frag[2][TN];

    // Shared to registers: TM values of A and TN of B, four at a time.
    const auto read_frags = [&](Stage& from, int k) {
        for (int i = 0; i < TM; i += VEC) {
            vec4(&a_frag[k % 2][i]) =
                vec4(&from.A_tile[k][c_row + i / VEC * ROW_STEP]);
        }
        for (int j = 0; j < TN; j += VEC) {
            vec4(&b_frag[k % 2][j]) =
                vec4(&from.B_tile[k][c_col + j / VEC * COL_STEP]);
        }
    };

    float sum[TM][TN] = {};
    for (int s = 0; s < STAGES - 1; ++s) {
        copy(ring[s], s * BK);
    }
    wait_groups<STAGES - 2>();  // this thread's copies have arrived
    __syncthreads();            // everyone's: the first tiles are complete

    int stage = 0;                // the tiles in use
    int free_stage = STAGES - 1;  // the tiles that were used last
    const auto turn = [&] {
        wait_groups<STAGES - 2>();
        __syncthreads();  // the next tiles are complete, and these are free
        free_stage = stage;
        stage = stage + 1 < STAGES ? stage + 1 : 0;
    };

    if (FRAGMENTS_AHEAD) read_frags(ring[stage], 0);
    for (int k0 = 0; k0 < K; k0 += BK) {
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            if (FRAGMENTS_AHEAD && k == BK - 1) turn();
            read_frags(ring[stage], FRAGMENTS_AHEAD ? (k + 1) % BK : k);
            if (k == 0) copy(ring[free_stage], k0 + (STAGES - 1) * BK);

            // Registers only: their outer product.
            for (int i = 0; i < TM; ++i) {
                for (int step = 0; step < TN; ++step) {
                    const int j = BACK_AND_FORTH && i % 2 ? TN - 1 - step : step;
                    sum[i][j] += a_frag[k % 2][i] * b_frag[k % 2][j];
                }
            }
        }
        if (!FRAGMENTS_AHEAD) turn();
    }

    const auto out = [](float x) { return ZEROS_ADDED ? x + 0.0f : x; };
    // Registers to global, four neighbours of a row at a time.
    for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; j += VEC) {
            const int row = m0 + c_row + i / VEC * ROW_STEP + i % VEC;
            const int col = n0 + c_col + j / VEC * COL_STEP;
            const float4 v = make_float4(out(sum[i][j]), out(sum[i][j + 1]),
                                         out(sum[i][j + 2]), out(sum[i][j + 3]));
            store4<WIDTH == VEC>(C + size_t(row) * N + col, v,
                                 row < M ? N - col : 0);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
fp32_best(const float* A, const float* B, float* C, int M, int N, int K)
{
    // Block numbers run down the rows of a band, then to its next column of tiles.
    const int tiles_m = (M + BM - 1) / BM;
    const int tiles_n = (N + BN - 1) / BN;
    const int band = blockIdx.x / (GROUP_M * tiles_n);
    const int within = blockIdx.x % (GROUP_M * tiles_n);
    const int height = min(GROUP_M, tiles_m - band * GROUP_M);
    const int m0 = (band * GROUP_M + within % height) * BM;
    const int n0 = within / height * BN;

    if (rows_aligned(B, N) && rows_aligned(C, N)) {
        multiply<VEC>(A, B, C, M, N, K, m0, n0);
    } else {
        multiply<1>(A, B, C, M, N, K, m0, n0);
    }
}
