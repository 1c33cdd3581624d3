// Slices of K on Tensor Cores: rows of an even number of elements come in pieces.
//
// New since 19_mma_sliced.cu: rows that start at 4 or 8 bytes, though not at 16, are
// copied in pieces of two or four elements, each to its place in the tile; there is
// nothing to straighten. Rows of an odd number of elements come as they did.
//
// A is M x K, B is K x N, C is M x N of 2-byte elements, all row-major. partial has
// BM * BN floats for each slice of each tile; arrived has a counter for each tile,
// zero before the launch and after it.
// Block: BM/WM * BN/WN warps. Grid: cdiv(M, BM) * cdiv(N, BN) * slices.
// Dynamic shared memory: STAGES * (BM + BN) * BK * 2 bytes. From sm_80 on.

#include "common/arrivals.cuh"
#include "common/fragments.cuh"
#include "common/piece_rows.cuh"
#include "common/store_rows.cuh"
#include "common/tile_order.cuh"

#ifndef ELEMENT
#define ELEMENT __half  // of A, B and C: __half or __nv_bfloat16
#endif
#ifndef BM
#define BM 64  // rows of C a block
#endif
#ifndef BN
#define BN 64  // columns of C a block
#endif
#ifndef BK
#define BK 64  // steps of k between barriers
#endif
#ifndef WM
#define WM 32  // rows of C a warp
#endif
#ifndef WN
#define WN 32  // columns of C a warp
#endif
#ifndef STAGES
#define STAGES 4  // slots of the ring
#endif
#ifndef GROUP_M
#define GROUP_M 8  // tile rows of C that are walked together
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 3  // blocks that an SM must hold: limits a thread's registers
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
constexpr int C_LD = BN + CHUNK;  // keeps rows of C in shared memory in other banks
constexpr int FOURS = M_TILES * N_TILES;  // of sums a thread
// Slices whose sums the last block reads at once: as many as 16 fours.
constexpr int AT_ONCE = FOURS < 16 ? 16 / FOURS : 1;

using TilesOfA = InPieces<T, BM, BK, THREADS>;
using TilesOfB = InPieces<T, BK, BN, THREADS>;
// Where rows are shifted, each line of the tiles takes a chunk more; one slot less.
constexpr int LINES_A_ROW_OF_A = BK < 64 ? 1 : BK / 64;
constexpr int LINES_A_ROW_OF_B = BN < 64 ? 1 : BN / 64;
constexpr int EDGES = (BM * LINES_A_ROW_OF_A + BK * LINES_A_ROW_OF_B) * CHUNK;

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
static_assert(STAGES >= 3, "one slot is read, another is filled, one is for edges");
static_assert((STAGES - 1) * (SLOT + EDGES) <= STAGES * SLOT,
              "the edges of shifted rows fit in one slot");
static_assert(BM * C_LD <= STAGES * SLOT, "the tile of C fits in the ring");
static_assert(STAGES * SLOT * 2 <= 227 * 1024,
              "no block has more than 227 KB of shared memory");

// The ring of slots; after the last of them, the tile of C.
extern __shared__ __align__(256) T ring[];

// Global to shared, asynchronously: part `part` of `parts` of both tiles of a slot.
template <bool ANY>
__device__ __forceinline__ void copy_slot(T* slot, const TilesOfA& A,
                                          const TilesOfB& B, int part, int parts)
{
    T* edges = slot + SLOT;
    A.copy<ANY>(slot, edges, part, parts);
    B.copy<ANY>(slot + BM * BK, edges + TilesOfA::EDGE, part, parts);
}

// This thread's copies to a slot have arrived: make them what the fragments need.
template <bool ANY>
__device__ __forceinline__ void make_ready(T* slot, const TilesOfA& A,
                                           const TilesOfB& B)
{
    if (!ANY) return;
    A.straighten(slot, slot + SLOT);
    B.straighten(slot + BM * BK, slot + SLOT + TilesOfA::EDGE);
}

// sum += the block's rows of A times its columns of B, over `depth` steps of k.
// Copies run as many tiles ahead as there are slots, fragments one step.
template <bool ANY>
__device__ __forceinline__ void accumulate(float (&sum)[M_TILES][N_TILES][4],
                                           TilesOfA A, TilesOfB B, int depth,
                                           int warp_m, int warp_n)
{
    constexpr int SLOTS = ANY ? STAGES - 1 : STAGES;
    constexpr int APART = ANY ? SLOT + EDGES : SLOT;  // elements, slot to slot
    if (depth <= 0) return;

    #pragma unroll
    for (int tile = 0; tile < SLOTS - 1; ++tile) {
        if (tile * BK < depth) copy_slot<ANY>(ring + tile * APART, A, B, 0, 1);
        A.right(BK);
        B.down(BK);
        commit_group();
    }
    wait_groups<SLOTS - 2>();
    make_ready<ANY>(ring, A, B);
    __syncthreads();  // the first tiles are complete

    // This lane's addresses in slot 0.
    const unsigned a_lane = a_address<BK>(ring, warp_m);
    const unsigned b_lane = b_address<BN>(ring + BM * BK, warp_n);
    unsigned a_frag[2][M_TILES][4];
    unsigned b_frag[2][N_TILES / 2][4];  // two fragments of B each
    load_fragments<BK, BN>(a_frag[0], b_frag[0], a_lane, b_lane, 0);

    int read = 0;                     // slot of the tiles that are multiplied
    int write = (SLOTS - 1) * APART;  // slot that is filled
    for (int k0 = 0; k0 < depth; k0 += BK) {
        const int next = read < (SLOTS - 1) * APART ? read + APART : 0;
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const bool last = step == STEPS - 1;
            const bool more = !last || k0 + BK < depth;  // fragments
            if (last) {
                commit_group();
                wait_groups<SLOTS - 2>();
                if (more) make_ready<ANY>(ring + next, A, B);
                // The next tiles are complete, and these are in registers.
                __syncthreads();
            }
            const unsigned from = (last ? next : read) * ELEMENT_BYTES;
            if (more) {
                load_fragments<BK, BN>(a_frag[(step + 1) % 2],
                                       b_frag[(step + 1) % 2], a_lane + from,
                                       b_lane + from,
                                       last ? 0 : (step + 1) * MMA_K);
            }
            if (step < PARTS && k0 + (SLOTS - 1) * BK < depth) {
                copy_slot<ANY>(ring + write, A, B, step, PARTS);
            }
            multiply<T, MMA_K>(sum, a_frag[step % 2], b_frag[step % 2]);
        }
        A.right(BK);
        B.down(BK);
        write = read;
        read = next;
    }
}

// This block's sums go to global memory. Whether it is the last of its tile: then
// it has the sums of all slices, added in the order of k.
__device__ __forceinline__ bool meet(float (&sum)[M_TILES][N_TILES][4],
                                     float4* partial, int* arrived, int slice,
                                     int slices)
{
    float4* own = partial + size_t(slice) * FOURS * THREADS + threadIdx.x;
    // Registers to global, four sums of each thread side by side.
    #pragma unroll
    for (int i = 0; i < FOURS; ++i) {
        const float* four = sum[i / N_TILES][i % N_TILES];
        __stcg(own + i * THREADS, make_float4(four[0], four[1], four[2], four[3]));
    }
    if (!last_to_arrive(arrived, slices)) return false;

    #pragma unroll
    for (int i = 0; i < FOURS * 4; ++i) {
        sum[i / 4 / N_TILES][i / 4 % N_TILES][i % 4] = 0.0f;
    }
    // Global to registers, slice by slice.
    #pragma unroll AT_ONCE
    for (int s = 0; s < slices; ++s) {
        const float4* from = partial + size_t(s) * FOURS * THREADS + threadIdx.x;
        #pragma unroll
        for (int i = 0; i < FOURS; ++i) {
            const float4 v = __ldcg(from + i * THREADS);
            float* four = sum[i / N_TILES][i % N_TILES];
            four[0] += v.x, four[1] += v.y, four[2] += v.z, four[3] += v.w;
        }
    }
    return true;
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
mma_pieces(const T* A, const T* B, T* C, int M, int N, int K, int slices,
           float4* partial, int* arrived)
{
    // Blocks that run together read the same range of k.
    const int tiles_m = (M + BM - 1) / BM;
    const int tiles_n = (N + BN - 1) / BN;
    const int number = blockIdx.x % (tiles_m * tiles_n);
    const int slice = blockIdx.x / (tiles_m * tiles_n);
    const TileIndex tile = tile_at<GROUP_M>(number, tiles_m, tiles_n);
    const int m0 = tile.row * BM;
    const int n0 = tile.col * BN;
    const int steps = (K + BK - 1) / BK;
    const int begin = int(size_t(steps) * slice / slices) * BK;
    const int end = min(K, int(size_t(steps) * (slice + 1) / slices) * BK);
    const int warp = threadIdx.x / 32;
    const int warp_m = warp / WARPS_N * WM;  // the warp's tile inside the block's
    const int warp_n = warp % WARPS_N * WN;

    const TilesOfA of_A(A, K, m0, begin, M, end);
    const TilesOfB of_B(B, N, begin, n0, end, N);
    float sum[M_TILES][N_TILES][4] = {};
    if (of_A.kind == Rows::ALIGNED && of_B.kind == Rows::ALIGNED) {
        accumulate<false>(sum, of_A, of_B, end - begin, warp_m, warp_n);
    } else {
        accumulate<true>(sum, of_A, of_B, end - begin, warp_m, warp_n);
    }

    if (slices > 1 && !meet(sum, partial + size_t(number) * slices * (BM * BN / 4),
                            arrived + number, slice, slices)) {
        return;
    }

    // Registers to shared: the tile of C. Nobody reads the ring any more.
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int i = 0; i < M_TILES; ++i) {
        #pragma unroll
        for (int j = 0; j < N_TILES; ++j) {
            T* to = ring + (warp_m + i * MMA_M + lane / 4) * C_LD + warp_n +
                    j * MMA_N + lane % 4 * 2;
            const float* four = sum[i][j];
            *reinterpret_cast<unsigned*>(to) = rounded(four[0], four[1], T());
            *reinterpret_cast<unsigned*>(to + 8 * C_LD) =
                rounded(four[2], four[3], T());
        }
    }
    __syncthreads();  // the tile is complete
    store_rows<BN, C_LD, THREADS>(C, ring, N, m0, n0, min(BM, M - m0), N - n0);
}
