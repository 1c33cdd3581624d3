// Copies run STAGES - 1 tiles ahead of the Tensor Cores, fragments one step ahead.
//
// New since 15_mma_swizzle.cu: cp.async fills a ring of STAGES shared-memory slots while the warps
// multiply, so one barrier a tile is left; the fragments of the next step are read while the
// current ones are multiplied, across the barrier too; blocks walk C in groups of GROUP tile rows,
// so that blocks running together share rows of A and columns of B in the L2.
//
// A is M x K, B is K x N of 2-byte elements, C is M x N of floats, all row-major.
// Block: BM/WM * BN/WN warps. Grid: cdiv(M, BM) * cdiv(N, BN).
// Dynamic shared memory: STAGES * (BM + BN) * BK * 2 bytes. From sm_80 on.

#include "common/chunks_async.cuh"
#include "common/ldmatrix.cuh"
#include "common/mma.cuh"
#include "common/swizzle.cuh"
#include "common/tile_order.cuh"

#ifndef ELEMENT
#define ELEMENT __half  // element type of A and B: __half or __nv_bfloat16
#endif
#ifndef BM
#define BM 128  // rows of C of a block
#endif
#ifndef BN
#define BN 256  // columns of C of a block
#endif
#ifndef BK
#define BK 64  // depth of the tiles in shared memory
#endif
#ifndef WM
#define WM 64  // rows of C of a warp
#endif
#ifndef WN
#define WN 64  // columns of C of a warp
#endif
#ifndef STAGES
#define STAGES 3  // slots of the ring
#endif
#ifndef GROUP
#define GROUP 8  // tile rows of C that are walked together
#endif

using T = ELEMENT;

constexpr int MMA_K = 16;
constexpr int WARPS_N = BN / WN;
constexpr int THREADS = BM / WM * WARPS_N * 32;
constexpr int M_TILES = WM / MMA_M;  // accumulators of a warp, down
constexpr int N_TILES = WN / MMA_N;  // and across
constexpr int STEPS = BK / MMA_K;    // fragments of k in a tile
constexpr int BYTES = 2;             // of an element
constexpr int SLOT = (BM + BN) * BK; // elements of one slot: a tile of A, then a tile of B

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles must cover the block tile");
static_assert(WM % 16 == 0 && WN % 16 == 0, "a warp tile is made of 16 x 16 pieces");
static_assert(BK % 32 == 0, "a tile holds an even number of steps of 16 values of k");
static_assert((BK & (BK - 1)) == 0 && (WN & (WN - 1)) == 0, "BK and WN are powers of two: XOR steps");
static_assert(can_swizzle<BK> && can_swizzle<BN>, "a row is swizzled by two, four or eight chunks");
static_assert(WM * WN <= 4096, "a lane keeps WM * WN / 32 accumulators in registers: 128 at most");
static_assert(THREADS <= 1024, "a block holds at most 1024 threads");
static_assert(BM * BK / 8 % THREADS == 0, "every thread copies the same number of chunks of A");
static_assert(BK * BN / 8 % THREADS == 0, "every thread copies the same number of chunks of B");
static_assert(STAGES >= 2, "one slot is read while another is filled");

// The ring: STAGES slots, each with a BM x BK tile of A and, behind it, a BK x BN tile of B.
extern __shared__ __align__(1024) T ring[];

// Where a thread's next chunks of A and B come from, and how much matrix there is from there on.
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

// Global to shared: share `part` of `parts` of a thread's chunks of the ROWS x COLS tile at
// ring[tile], the first of them from `from`; what lies outside the matrix is zero. Aligned rows are
// copied asynchronously, others element by element.
template <int ROWS, int COLS, bool ALIGNED>
__device__ __forceinline__ void copy_tile(int tile, const T* from, int cols, int rows_left,
                                          int cols_left, int part, int parts) {
    constexpr int CHUNKS_A_ROW = COLS / CHUNK;
    constexpr int PASS = THREADS / CHUNKS_A_ROW;  // rows that the block copies at a time
    static_assert(THREADS % CHUNKS_A_ROW == 0, "the block copies whole rows of the tile at a time");
    const unsigned ring_address = shared_address(ring);
    const int row = threadIdx.x / CHUNKS_A_ROW;
    const int col = threadIdx.x % CHUNKS_A_ROW * CHUNK;
#pragma unroll
    for (int i = part; i < ROWS / PASS; i += parts) {
        const int to = tile + swizzled<COLS>(row + i * PASS, col);
        if constexpr (ALIGNED) {
            const bool inside = i * PASS < rows_left && cols_left > 0;
            copy_chunk(ring_address + to * BYTES, from + size_t(i * PASS) * cols, inside);
        } else {
            const int count = i * PASS < rows_left ? cols_left : 0;
            *reinterpret_cast<uint4*>(&ring[to]) = gather_chunk(from + size_t(i * PASS) * cols, count);
        }
    }
}

// The same for both tiles of a slot.
template <bool ALIGNED>
__device__ __forceinline__ void copy_slot(int slot, const Source& from, int N, int K, int part,
                                          int parts) {
    copy_tile<BM, BK, ALIGNED>(slot, from.A, K, from.A_rows, from.A_cols, part, parts);
    copy_tile<BK, BN, ALIGNED>(slot + BM * BK, from.B, N, from.B_rows, from.B_cols, part, parts);
}

// Shared to registers: the fragments of one step, for all of the warp's tile. a_lane and b_lane are
// this lane's addresses in a slot for k = 0 and its first fragment; in a swizzled row the others are
// one XOR away.
__device__ __forceinline__ void load_fragments(unsigned (&a_frag)[M_TILES][4],
                                               unsigned (&b_frag)[N_TILES / 2][4], int slot,
                                               unsigned a_lane, unsigned b_lane, int k) {
#pragma unroll
    for (int i = 0; i < M_TILES; ++i) {
        const int rows_below = i * MMA_M * BK * BYTES;
        ldmatrix_x4(a_frag[i], slot * BYTES + (a_lane ^ k * BYTES) + rows_below);
    }
#pragma unroll
    for (int j = 0; j < N_TILES / 2; ++j) {
        const int rows_below = k * BN * BYTES;
        ldmatrix_x4_trans(b_frag[j], slot * BYTES + (b_lane ^ j * 2 * MMA_N * BYTES) + rows_below);
    }
}

// Every fragment of A meets every fragment of B.
__device__ __forceinline__ void multiply(float (&acc)[M_TILES][N_TILES][4],
                                         const unsigned (&a_frag)[M_TILES][4],
                                         const unsigned (&b_frag)[N_TILES / 2][4]) {
#pragma unroll
    for (int i = 0; i < M_TILES; ++i) {
#pragma unroll
        for (int j = 0; j < N_TILES; ++j) {
            mma_m16n8k16<T>(acc[i][j], a_frag[i], &b_frag[j / 2][j % 2 * 2]);
        }
    }
}

// The main loop: copies run STAGES - 1 tiles ahead, fragments one step.
__device__ __forceinline__ void run_pipelined(float (&acc)[M_TILES][N_TILES][4], Source source,
                                              int N, int K, unsigned a_lane, unsigned b_lane) {
#pragma unroll
    for (int tile = 0; tile < STAGES - 1; ++tile) {
        copy_slot<true>(tile * SLOT, source, N, K, 0, 1);
        source.advance(N);
        commit_group();
    }
    wait_groups<STAGES - 2>();
    __syncthreads();  // tile 0 is complete

    unsigned a_frag[2][M_TILES][4];
    unsigned b_frag[2][N_TILES / 2][4];  // two fragments of B each
    load_fragments(a_frag[0], b_frag[0], 0, a_lane, b_lane, 0);

    int read = 0;                     // slot of the tile that is multiplied
    int write = (STAGES - 1) * SLOT;  // slot that is filled
    for (int k0 = 0; k0 < K; k0 += BK) {
        const int next = read < (STAGES - 1) * SLOT ? read + SLOT : 0;
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const bool last = step == STEPS - 1;
            if (last) {
                commit_group();
                wait_groups<STAGES - 2>();
                __syncthreads();  // the next tile is complete, this one is in registers
            }
            load_fragments(a_frag[(step + 1) % 2], b_frag[(step + 1) % 2], last ? next : read,
                           a_lane, b_lane, last ? 0 : (step + 1) * MMA_K);
            if (!last) {
                copy_slot<true>(write, source, N, K, step, STEPS - 1);
            }
            multiply(acc, a_frag[step % 2], b_frag[step % 2]);
        }
        source.advance(N);
        write = read;
        read = next;
    }
}

// The main loop where rows are not aligned: two slots, filled by way of registers.
__device__ __forceinline__ void run_ragged(float (&acc)[M_TILES][N_TILES][4], Source source, int N,
                                           int K, unsigned a_lane, unsigned b_lane) {
    int slot = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        copy_slot<false>(slot, source, N, K, 0, 1);
        source.advance(N);
        __syncthreads();  // the tiles are complete, and everyone has read the other slot
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            unsigned a_frag[M_TILES][4];
            unsigned b_frag[N_TILES / 2][4];
            load_fragments(a_frag, b_frag, slot, a_lane, b_lane, step * MMA_K);
            multiply(acc, a_frag, b_frag);
        }
        slot = SLOT - slot;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
mma_pipelined(const T* A, const T* B, float* C, int M, int N, int K)
{
    const TileIndex tile = tile_at<GROUP>(blockIdx.x, (M + BM - 1) / BM, (N + BN - 1) / BN);
    const int m0 = tile.row * BM;
    const int n0 = tile.col * BN;
    const int warp = threadIdx.x / 32;
    const int warp_m = warp / WARPS_N * WM;  // the warp's tile inside the block's
    const int warp_n = warp % WARPS_N * WN;

    const int lane_row = threadIdx.x % 16;           // the row whose address this lane gives, and
    const int lane_col = threadIdx.x % 32 / 16 * 8;  // the half of its 16 elements
    const unsigned a_lane = shared_address(&ring[swizzled<BK>(warp_m + lane_row, lane_col)]);
    const unsigned b_lane = shared_address(&ring[BM * BK + swizzled<BN>(lane_row, warp_n + lane_col)]);

    // This thread's first chunks.
    const int A_row = m0 + threadIdx.x / (BK / CHUNK);
    const int A_col = threadIdx.x % (BK / CHUNK) * CHUNK;
    const int B_row = threadIdx.x / (BN / CHUNK);
    const int B_col = n0 + threadIdx.x % (BN / CHUNK) * CHUNK;
    const Source source = {A + size_t(A_row) * K + A_col, B + size_t(B_row) * N + B_col,
                           M - A_row, K - A_col, K - B_row, N - B_col};

    float acc[M_TILES][N_TILES][4] = {};
    if (rows_aligned(A, K) && rows_aligned(B, N)) {
        run_pipelined(acc, source, N, K, a_lane, b_lane);
    } else {
        run_ragged(acc, source, N, K, a_lane, b_lane);
    }

    // Registers to global.
    const bool pairs = N % 2 == 0 && reinterpret_cast<size_t>(C) % 8 == 0;
#pragma unroll
    for (int i = 0; i < M_TILES; ++i) {
#pragma unroll
        for (int j = 0; j < N_TILES; ++j) {
            mma_store(C, M, N, m0 + warp_m + i * MMA_M, n0 + warp_n + j * MMA_N, acc[i][j], pairs);
        }
    }
}
