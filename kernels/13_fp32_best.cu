// The fastest FP32 kernel of the book for Ampere and later GPUs.
//
// Each block computes a BM x BN tile of C, each warp a WM x WN part of it, each
// thread TM x TN elements, kept in registers as 4 x 4 pieces.
// New since warp_tiled: asynchronous copies fill a ring of STAGES shared tiles
// while older ones are used; copies and fragment reads are spread over the
// multiply-adds; blocks walk C in groups of GROUP_M rows of tiles, so that the
// blocks running together share operands in L2.
//
// A is (M, K), B is (K, N), C is (M, N), all row-major; any M, N, K >= 1.
// A_tile is (BK, BM + PAD), transposed; B_tile is (BK, BN).
#include "common/cp_async.cuh"

#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 256
#endif
#ifndef BK
#define BK 16
#endif
#ifndef WM
#define WM 64
#endif
#ifndef WN
#define WN 64
#endif
#ifndef TM
#define TM 16
#endif
#ifndef TN
#define TN 8
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef GROUP_M
#define GROUP_M 8
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1
#endif

constexpr int WARP = 32;
constexpr int VEC = 4;  // floats in a 16-byte access
constexpr int WARPS_N = BN / WN;
constexpr int THREADS = (BM / WM) * WARPS_N * WARP;
constexpr int LANES_M = WM / TM;  // a warp is LANES_M x LANES_N threads
constexpr int LANES_N = WN / TN;
// Eight lanes copy eight k of one row of A (a 32-byte sector); with rows of
// BM + PAD floats the four rows of a warp's copy fall into 32 different banks.
constexpr int PAD = 4;
constexpr int LD_A = BM + PAD;
constexpr int SECTOR = 8;
constexpr int A_ROWS = THREADS / SECTOR;  // rows of A that one pass of the block copies
constexpr int A_PASSES = BM / A_ROWS;
constexpr int A_COPIES = A_PASSES * (BK / SECTOR);
constexpr int STAGE_A = BK * LD_A;
constexpr int STAGE_B = BK * BN;
constexpr int STAGE = STAGE_A + STAGE_B;

static_assert(BM % WM == 0 && BN % WN == 0, "whole warps must tile the block");
static_assert(LANES_M * LANES_N == WARP && TM * LANES_M == WM && TN * LANES_N == WN,
              "a warp's 32 threads must tile WM x WN");
static_assert(TM % VEC == 0 && TN % VEC == 0, "fragments are read four floats at a time");
static_assert(LANES_N % 2 == 0, "two lanes side by side share their rows");
static_assert(BK % SECTOR == 0, "A is copied in sectors of eight floats");
static_assert(BM % A_ROWS == 0, "every thread copies the same number of rows of A");
static_assert(BK * BN % (THREADS * VEC) == 0, "every thread copies the same part of B");
static_assert(THREADS % BN == 0 || BN % THREADS == 0 || THREADS * VEC % BN == 0, "B rows");
static_assert(STAGES >= 2, "one tile is used while another is filled");

// The copies of one thread, for tile after tile along K. WIDTH is the floats of one
// copy of B: 4 where rows of B start on 16-byte boundaries, else 1.
template <int WIDTH>
struct Copier {
    static constexpr int B_THREADS = BN / WIDTH < THREADS ? BN / WIDTH : THREADS;
    static constexpr int B_SEGMENTS = BN / WIDTH / B_THREADS;
    static constexpr int B_ROWS = THREADS / B_THREADS;  // rows of B that one pass copies
    static constexpr int B_PASSES = BK / B_ROWS;

    const float* a[A_PASSES];    // this thread's next elements of A, one a pass,
    const float* b[B_SEGMENTS];  // and of B
    int a_k, b_k;                // its first k within a tile
    int a_to, b_to;              // its first place in A_tile and B_tile
    size_t b_step;               // elements of B from one pass to the next

    // Rows and columns beyond the edge are clamped to the last one: what is computed
    // from them is never stored.
    __device__ Copier(const float* A, const float* B, int m0, int n0, int M, int N, int K) {
        const int t = threadIdx.x;
        a_k = t % SECTOR;
        b_k = t / B_THREADS;
        a_to = a_k * LD_A + t / SECTOR;
        b_to = STAGE_A + b_k * BN + t % B_THREADS * WIDTH;
        b_step = size_t(B_ROWS) * N;
#pragma unroll
        for (int i = 0; i < A_PASSES; ++i)
            a[i] = A + size_t(min(m0 + t / SECTOR + i * A_ROWS, M - 1)) * K + a_k;
#pragma unroll
        for (int i = 0; i < B_SEGMENTS; ++i)
            b[i] = B + size_t(b_k) * N + min(n0 + (t % B_THREADS + i * B_THREADS) * WIDTH, N - WIDTH);
    }

    // Copies rows [row, row + rows) of the passes over a tile with k_end steps of K (BK unless
    // PARTIAL; zeros beyond), and moves the pointers on to the next tile.
    template <bool PARTIAL>
    __device__ void copy(float* tile, int k_end) {
#pragma unroll
        for (int i = 0; i < A_PASSES; ++i) {
#pragma unroll
            for (int k = 0; k < BK; k += SECTOR) {
                const bool valid = !PARTIAL || a_k + k < k_end;
                copy_async<1>(tile + a_to + k * LD_A + i * A_ROWS, valid ? a[i] + k : a[i] - a_k, valid);
            }
            a[i] += PARTIAL ? k_end : BK;
        }
#pragma unroll
        for (int i = 0; i < B_SEGMENTS; ++i) {
            const float* first = b[i];
#pragma unroll
            for (int pass = 0; pass < B_PASSES; ++pass) {
                const bool valid = !PARTIAL || b_k + pass * B_ROWS < k_end;
                float* to = tile + b_to + pass * B_ROWS * BN + i * B_THREADS * WIDTH;
                const float* from = valid ? b[i] : first - b_k * (b_step / B_ROWS);
                if (WIDTH == VEC)
                    copy_async<VEC>(to, from, valid);
                else
                    copy_async<1>(to, from, valid);
                b[i] += b_step;
            }
            if (PARTIAL) b[i] = first + k_end * (b_step / B_ROWS);
        }
    }
};

__device__ __forceinline__ void load4(float* frag, const float* shared) {
    const float4 v = *reinterpret_cast<const float4*>(shared);
    frag[0] = v.x, frag[1] = v.y, frag[2] = v.z, frag[3] = v.w;
}

template <int WIDTH>
__device__ __forceinline__ void block_tile(const float* A, const float* B, float* C, int M, int N,
                                           int K, int m0, int n0) {
    extern __shared__ float4 shared_memory[];
    float* tiles = reinterpret_cast<float*>(shared_memory);

    // Lanes in pairs: lane bits (4, 3, 0) give the column, bits (2, 1) the row, so
    // that the four quarters of a 16-byte shared read merge into two wavefronts.
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int lane_m = lane / 2 % LANES_M, lane_n = lane / (2 * LANES_M) * 2 + lane % 2;
    const int wm = warp / WARPS_N * WM + lane_m * VEC, wn = warp % WARPS_N * WN + lane_n * VEC;

    Copier<WIDTH> copier(A, B, m0, n0, M, N, K);

    // The ragged tile of K comes first; every later tile is whole.
    const int tiles_k = (K + BK - 1) / BK;
    const int first = K - (tiles_k - 1) * BK;
    for (int s = 0; s < STAGES - 1; ++s) {
        if (s < tiles_k) copier.template copy<true>(tiles + s * STAGE, s == 0 ? first : BK);
        commit_group();
    }

    float acc[TM][TN] = {};
    float a_frag[2][TM], b_frag[2][TN];
    const float* used = tiles;                       // the stage being multiplied
    float* filled = tiles + (STAGES - 1) * STAGE;    // the stage being filled

    auto load_frags = [&](const float* tile, int k) {
#pragma unroll
        for (int i = 0; i < TM / VEC; ++i)
            load4(a_frag[k % 2] + i * VEC, tile + k * LD_A + wm + i * LANES_M * VEC);
#pragma unroll
        for (int j = 0; j < TN / VEC; ++j)
            load4(b_frag[k % 2] + j * VEC, tile + STAGE_A + k * BN + wn + j * LANES_N * VEC);
    };

    wait_groups<STAGES - 2>();
    __syncthreads();
    load_frags(used, 0);

    for (int t = 0; t < tiles_k; ++t) {
        const bool more = t + STAGES - 1 < tiles_k;
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            if (k == BK - 1) {
                // The next tile has landed, and every warp is done reading this one.
                wait_groups<STAGES - 2>();
                __syncthreads();
                filled = const_cast<float*>(used);
                used = used == tiles + (STAGES - 1) * STAGE ? tiles : used + STAGE;
                load_frags(used, 0);
            } else {
                load_frags(used, k + 1);
            }
            if (k == 0) {
                // A coming tile, into the stage that the last barrier set free.
                if (more) copier.template copy<false>(filled, BK);
                commit_group();
            }
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int jj = 0; jj < TN; ++jj) {
                    const int j = i % 2 ? TN - 1 - jj : jj;
                    acc[i][j] += a_frag[k % 2][i] * b_frag[k % 2][j];
                }
        }
    }

    // Registers to C, four columns at a time where rows of C allow it.
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = m0 + wm + i / VEC * LANES_M * VEC + i % VEC;
#pragma unroll
        for (int j = 0; j < TN; j += VEC) {
            const int n = n0 + wn + j / VEC * LANES_N * VEC;
            if (m >= M) continue;
            if (WIDTH == VEC) {
                if (n < N)
                    *reinterpret_cast<float4*>(C + size_t(m) * N + n) =
                        make_float4(acc[i][j] + 0.0f, acc[i][j + 1] + 0.0f, acc[i][j + 2] + 0.0f, acc[i][j + 3] + 0.0f);
            } else {
                for (int v = 0; v < VEC; ++v)
                    if (n + v < N) C[size_t(m) * N + n + v] = acc[i][j + v];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    fp32_best(const float* A, const float* B, float* C, int M, int N, int K) {
    // Blocks are numbered down GROUP_M tiles of M, then one tile along N.
    const int tiles_m = (M + BM - 1) / BM, tiles_n = (N + BN - 1) / BN;
    const int group = blockIdx.x / (GROUP_M * tiles_n) * GROUP_M;
    const int rows = min(GROUP_M, tiles_m - group);
    const int at = blockIdx.x % (GROUP_M * tiles_n);
    const int m0 = (group + at % rows) * BM, n0 = at / rows * BN;

    const bool aligned =
        N % VEC == 0 && (reinterpret_cast<size_t>(B) | reinterpret_cast<size_t>(C)) % 16 == 0;
    if (aligned)
        block_tile<VEC>(A, B, C, M, N, K, m0, n0);
    else
        block_tile<1>(A, B, C, M, N, K, m0, n0);
}
