// Copies run STAGES - 1 tiles ahead of the Tensor Cores, fragments one step ahead.
//
// New since 18_mma_swizzle.cu: cp.async fills a ring of STAGES shared-memory slots
// while the warps multiply, so one barrier a tile is left; the fragments of the
// next step are read while the current ones are multiplied, across the barrier too;
// blocks walk C in groups of GROUP_M tile rows, so that blocks running together
// share rows of A and columns of B in the L2.
//
// A is M x K, B is K x N of 2-byte elements, C is M x N of floats, all row-major.
// Block: BM/WM * BN/WN warps. Grid: cdiv(M, BM) * cdiv(N, BN).
// Dynamic shared memory: STAGES * (BM + BN) * BK * 2 bytes. From sm_80 on.

#include "common/chunks_async.cuh"
#include "common/fragments.cuh"
#include "common/ragged.cuh"
#include "common/tile_order.cuh"

#ifndef ELEMENT
#define ELEMENT __half  // element type of A and B: __half or __nv_bfloat16
#endif
#ifndef BM
#define BM 128  // rows of C a block
#endif
#ifndef BN
#define BN 256  // columns of C a block
#endif
#ifndef BK
#define BK 32  // steps of k between barriers
#endif
#ifndef WM
#define WM 64  // rows of C a warp
#endif
#ifndef WN
#define WN 64  // columns of C a warp
#endif
#ifndef STAGES
#define STAGES 4  // slots of the ring
#endif
#ifndef GROUP_M
#define GROUP_M 8  // tile rows of C that are walked together
#endif

using T = ELEMENT;

constexpr int MMA_K = 16;
constexpr int WARPS_N = BN / WN;
constexpr int THREADS = BM / WM * WARPS_N * 32;
constexpr int M_TILES = WM / MMA_M;  // accumulators of a warp, down
constexpr int N_TILES = WN / MMA_N;  // and across
constexpr int STEPS = BK / MMA_K;    // fragments of k in a tile
// The copies of a tile are spread over half of its steps.
constexpr int PARTS = STEPS / 2;
// Elements of one slot: a tile of A, then a tile of B.
constexpr int SLOT = (BM + BN) * BK;

// Where rows are ragged, two slots of twice the depth serve better, if shares come
// out even.
constexpr bool DEEP = STAGES >= 4 && even_share<BM, 2 * BK, THREADS> &&
                      even_share<2 * BK, BN, THREADS>;
constexpr int RAGGED_K = DEEP ? 2 * BK : BK;

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles must cover the block tile");
static_assert(WM % 16 == 0 && WN % 16 == 0,
              "a warp tile is made of 16 x 16 pieces");
static_assert(BK == 32 || BK == 64 || BK == 128,
              "an even number of steps, each one XOR further");
static_assert(WN == 16 || WN == 32 || WN == 64 || WN == 128,
              "a warp's columns are one XOR apart");
static_assert(WM * WN <= 4096,
              "a lane keeps WM * WN / 32 accumulators in registers: 128 at most");
static_assert(THREADS <= 1024, "a block holds at most 1024 threads");
static_assert(whole_lines<BK> && whole_lines<BN>,
              "rows of a tile are 16, 32 or a multiple of 64 elements");
static_assert(even_share<BM, BK, THREADS>,
              "every thread copies the same number of chunks of A");
static_assert(even_share<BK, BN, THREADS>,
              "every thread copies the same number of chunks of B");
static_assert(THREADS % 64 == 0,
              "with an even number of warps, a thread copies rows swizzled alike");
static_assert(STAGES >= 2, "one slot is read while another is filled");
static_assert(STAGES * SLOT * 2 <= 227 * 1024,
              "no block has more than 227 KB of shared memory");

// The ring: STAGES slots, each with a BM x BK tile of A and, behind it, a BK x BN
// tile of B.
extern __shared__ __align__(1024) T ring[];

// Where the tiles of the next slot come from: the thread's first element of each,
// and how much matrix there is from there on.
struct Source {
    const T* A;
    const T* B;
    int A_rows, A_cols, B_rows, B_cols;

    // On to the next BK columns of A and rows of B.
    __device__ __forceinline__ void advance(int N) {
        A += BK;
        B += size_t(BK) * N;
        A_cols -= BK;
        B_rows -= BK;
    }
};

// Global to shared, asynchronously: part `part` of `parts` of this thread's share
// of a ROWS x COLS tile, to the ring from `tile` on. `from` is its first chunk;
// zeros outside the matrix.
template <int ROWS, int COLS>
__device__ __forceinline__ void copy_tile(int tile, const T* from, int cols,
                                          int rows_left, int cols_left, int part,
                                          int parts)
{
    using Mine = Share<ROWS, COLS, THREADS>;
    static_assert(Mine::PASS % 8 == 0,
                  "rows that a thread copies must be swizzled alike");
    const unsigned to =
        shared_address(ring + tile + swizzled<COLS>(Mine::row(0), Mine::col(0)));
    #pragma unroll
    for (int i = part * Mine::COUNT / parts; i < (part + 1) * Mine::COUNT / parts;
         ++i) {
        const int rows_below = i / Mine::LINES * Mine::PASS;
        const int cols_right = i % Mine::LINES * Mine::LANES * CHUNK;
        const bool inside = rows_below < rows_left && cols_right < cols_left;
        copy_chunk(to + (rows_below * COLS + cols_right) * ELEMENT_BYTES,
                   from + size_t(rows_below) * cols + cols_right, inside);
    }
}

// The same for both tiles of a slot.
__device__ __forceinline__ void copy_slot(int slot, const Source& from, int N,
                                          int K, int part, int parts)
{
    copy_tile<BM, BK>(slot, from.A, K, from.A_rows, from.A_cols, part, parts);
    copy_tile<BK, BN>(slot + BM * BK, from.B, N, from.B_rows, from.B_cols, part,
                      parts);
}

// The main loop where rows are aligned: copies run STAGES - 1 tiles ahead,
// fragments one step.
__device__ __forceinline__ void accumulate(float (&sum)[M_TILES][N_TILES][4],
                                           Source source, int N, int K, int warp_m,
                                           int warp_n)
{
    #pragma unroll
    for (int tile = 0; tile < STAGES - 1; ++tile) {
        copy_slot(tile * SLOT, source, N, K, 0, 1);
        source.advance(N);
        commit_group();
    }
    wait_groups<STAGES - 2>();
    __syncthreads();  // the first tiles are complete

    // This lane's addresses in slot 0.
    const unsigned a_lane = a_address<BK>(ring, warp_m);
    const unsigned b_lane = b_address<BN>(ring + BM * BK, warp_n);
    unsigned a_frag[2][M_TILES][4];
    unsigned b_frag[2][N_TILES / 2][4];  // two fragments of B each
    load_fragments<BK, BN>(a_frag[0], b_frag[0], a_lane, b_lane, 0);

    int read = 0;                     // slot of the tiles that are multiplied
    int write = (STAGES - 1) * SLOT;  // slot that is filled
    for (int k0 = 0; k0 < K; k0 += BK) {
        const int next = read < (STAGES - 1) * SLOT ? read + SLOT : 0;
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const bool last = step == STEPS - 1;
            if (last) {
                commit_group();
                wait_groups<STAGES - 2>();
                // The next tiles are complete, and these are in registers.
                __syncthreads();
            }
            const unsigned from = (last ? next : read) * ELEMENT_BYTES;
            load_fragments<BK, BN>(a_frag[(step + 1) % 2], b_frag[(step + 1) % 2],
                                   a_lane + from, b_lane + from,
                                   last ? 0 : (step + 1) * MMA_K);
            if (step < PARTS) {
                copy_slot(write, source, N, K, step, PARTS);
            }
            multiply<T, MMA_K>(sum, a_frag[step % 2], b_frag[step % 2]);
        }
        source.advance(N);
        write = read;
        read = next;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
mma_pipelined(const T* A, const T* B, float* C, int M, int N, int K)
{
    const TileIndex tile =
        tile_at<GROUP_M>(blockIdx.x, (M + BM - 1) / BM, (N + BN - 1) / BN);
    const int m0 = tile.row * BM;
    const int n0 = tile.col * BN;
    const int warp = threadIdx.x / 32;
    const int warp_m = warp / WARPS_N * WM;  // the warp's tile inside the block's
    const int warp_n = warp % WARPS_N * WN;

    float sum[M_TILES][N_TILES][4] = {};
    if (rows_aligned(A, K) && rows_aligned(B, N)) {
        const int A_row = m0 + Share<BM, BK, THREADS>::row(0);
        const int A_col = Share<BM, BK, THREADS>::col(0);
        const int B_row = Share<BK, BN, THREADS>::row(0);
        const int B_col = n0 + Share<BK, BN, THREADS>::col(0);
        const Source source = {A + size_t(A_row) * K + A_col,
                               B + size_t(B_row) * N + B_col,
                               M - A_row,
                               K - A_col,
                               K - B_row,
                               N - B_col};
        accumulate(sum, source, N, K, warp_m, warp_n);
    } else {
        accumulate_ragged<BM, BN, RAGGED_K, THREADS, MMA_K>(
            sum, ring, A, B, M, N, K, m0, n0, warp_m, warp_n);
    }

    // Registers to global.
    const bool pairs = N % 2 == 0 && reinterpret_cast<size_t>(C) % 8 == 0;
    #pragma unroll
    for (int i = 0; i < M_TILES; ++i) {
        #pragma unroll
        for (int j = 0; j < N_TILES; ++j) {
            mma_store(C, M, N, m0 + warp_m + i * MMA_M, n0 + warp_n + j * MMA_N,
                      sum[i][j], pairs);
        }
    }
}
