// Slices of K: where C has too few tiles for all SMs, several blocks share a tile.
//
// New since 14_fp32_best.cu: each of the last `cut` tiles is divided into `slices`
// ranges of k, one for a block (split-K); those before are computed whole. A block
// leaves its sums in global memory; the last one of a tile to arrive adds the sums
// of all, in the order of k whoever comes last, and stores C. So C is the same to
// the bit in every run. No block waits for another.
//
// A is M x K, B is K x N, C is M x N, all row-major. partial has BM * BN floats for
// each slice of each cut tile; arrived has a counter for each cut tile, zero before
// the launch and after it. Where rows of C do not start on 16 bytes, warps turn
// their sums in shared memory, and store neighbours side by side.
// Block: (BM / WM) * (BN / WN) warps. Grid: a block for each whole tile and one for
// each slice of the others, one-dimensional.

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
#define ZEROS_ADDED 1  // to the sums after the loop: frees their places in it
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
constexpr int FOURS = TM * TN / VEC;          // fours of sums that a thread has
constexpr int TAKEN = 16;                     // of them come at once from a slice
// Fours turned side by side: of a large patch one, since all would take the loop's
// registers.
constexpr int TURNED = FOURS > 8 ? 1 : 4;
constexpr int RING = STAGES * BK * (BM + A_PAD + BN);  // floats
constexpr int ROOM = RING / (VEC * THREADS);  // fours of each thread that fit there

static_assert(BM % WM == 0 && BN % WN == 0, "warps split the tile of C evenly");
static_assert(WM % TM == 0 && WN % TN == 0 && LANES_M * LANES_N == 32,
              "32 lanes split the warp's tile evenly");
static_assert(LANES_N % 2 == 0, "neighbouring lanes share a row");
static_assert(TM % VEC == 0 && TN % VEC == 0, "fragments are read in fours");
static_assert(BK % SECTOR == 0, "A is copied a sector at a time");
static_assert(THREADS % SECTOR == 0, "the block copies whole sectors in one go");
static_assert(BM % A_STEP == 0, "every thread copies equally much of A");
static_assert(STAGES >= 2, "one tile is used while the next arrives");
static_assert(ROOM > 0, "the ring holds four sums of each thread");
static_assert(THREADS <= 1024, "a block holds at most 1024 threads");

// One place of the ring.
struct Stage {
    float A_tile[BK][BM + A_PAD];  // transposed: a row holds one k
    float B_tile[BK][BN];
};

// What a block computes: slice number `slice` of `slices` of the tile at (m0, n0),
// steps [begin, end) of k. Of the tiles that are cut it is number `nth`.
struct Piece {
    int m0, n0, slice, slices, nth, begin, end;
};

// This block's sums go to global memory. Whether it is the last of its tile: then
// it has the sums of all slices, added in the order of k.
__device__ bool meet(float (&sum)[TM][TN], float4* partial, int* arrived,
                     const Piece& piece)
{
    partial += size_t(piece.nth) * piece.slices * FOURS * THREADS + threadIdx.x;
    arrived += piece.nth;
    float4* own = partial + size_t(piece.slice) * FOURS * THREADS;
    // Registers to global, four sums of each thread side by side.
    for (int i = 0; i < FOURS; ++i) {
        const float* four = &sum[i * VEC / TN][i * VEC % TN];
        __stcg(own + i * THREADS, make_float4(four[0], four[1], four[2], four[3]));
    }
    __threadfence();  // the sums are visible before the arrival
    __syncthreads();
    __shared__ bool last;
    if (threadIdx.x == 0) {
        last = atomicAdd(arrived, 1) == piece.slices - 1;
        if (last) *arrived = 0;  // for the next launch
    }
    __syncthreads();
    if (!last) return false;
    __threadfence();  // what the others left is read after their arrivals

    for (int i = 0; i < TM * TN; ++i) {
        sum[i / TN][i % TN] = 0.0f;
    }
    // Global to registers, slice by slice; TAKEN at once, for which the loop's
    // registers do.
    #pragma unroll
    for (int first = 0; first < FOURS; first += TAKEN) {
        #pragma unroll 1
        for (int s = 0; s < piece.slices; ++s) {
            const float4* from = partial + size_t(s) * FOURS * THREADS;
            #pragma unroll
            for (int i = first; i < FOURS && i < first + TAKEN; ++i) {
                const float4 v = __ldcg(from + i * THREADS);
                float* four = &sum[i * VEC / TN][i * VEC % TN];
                four[0] += v.x, four[1] += v.y, four[2] += v.z, four[3] += v.w;
            }
        }
    }
    return true;
}

// Where a warp keeps one of 32 fours while it turns them: neither the eight lanes
// that write fours together nor the 32 that read neighbours meet in a bank.
__device__ int place(int four)
{
    return four ^ four / 8 * 2;
}

// Registers to global where rows of C start anywhere. A warp turns its sums in
// shared memory first, so that neighbouring lanes store neighbours of a row.
// room: the warp's own, VEC * 32 * ROOM floats. C starts where the warp's sums do;
// rows and cols are what is left of it from there on.
__device__ void store_turned(const float (&sum)[TM][TN], float* room, float* C,
                             int N, int rows, int cols, int lane_m, int lane_n)
{
    const int lane = threadIdx.x % 32;
    const int own = place(lane_m * LANES_N + lane_n);  // in each 32 fours
    #pragma unroll
    for (int first = 0; first < FOURS; first += ROOM) {
        const int last = min(first + ROOM, FOURS) - 1;
        // Registers to shared, a four of each lane at a time.
        #pragma unroll
        for (int f = first; f <= last; ++f) {
            const float* four = &sum[f * VEC / TN][f * VEC % TN];
            vec4(room + ((f - first) * 32 + own) * VEC) =
                make_float4(four[0], four[1], four[2], four[3]);
        }
        __syncwarp();  // the warp's sums are complete
        // Shared to global, a float of each lane at a time.
        #pragma unroll TURNED
        for (int f = first; f <= last; ++f) {
            const int i = f * VEC / TN, j = f * VEC % TN;
            for (int k = 0; k < VEC; ++k) {
                const int four = (k * 32 + lane) / VEC;
                const int row =
                    four / LANES_N * VEC + i / VEC * ROW_STEP + i % VEC;
                const int col =
                    four % LANES_N * VEC + lane % VEC + j / VEC * COL_STEP;
                const float* from =
                    room + ((f - first) * 32 + place(four)) * VEC + lane % VEC;
                if (row < rows && col < cols) C[size_t(row) * N + col] = *from;
            }
        }
        __syncwarp();  // everyone has read them: they may be overwritten
    }
}

// WIDTH: floats to a copy of B, 4 where the rows of B and C start on 16 bytes, else
// 1.
template <int WIDTH>
__device__ void multiply(const float* A, const float* B, float* C, int M, int N,
                         int K, const Piece& piece, float4* partial, int* arrived)
{
    // What only the end needs waits in shared memory, not in the loop's registers.
    __shared__ volatile Piece kept;
    if (threadIdx.x == 0) {
        kept.m0 = piece.m0;
        kept.n0 = piece.n0;
        kept.slice = piece.slice;
        kept.slices = piece.slices;
        kept.nth = piece.nth;
    }

    const int m0 = piece.m0, n0 = piece.n0;
    const int depth = piece.end - piece.begin;
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
    const float* A_src = A + size_t(m0 + a_row) * K + piece.begin + a_col;
    const float* B_src = B + size_t(piece.begin + b_row) * N + n0 + b_col;
    const int a_rows = M - (m0 + a_row);  // rows of A from its first one on
    const int a_cols = depth - a_col;     // columns of the slice from its first one
    const int b_rows = depth - b_row;     // rows of the slice from its first one on
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
    for (int k0 = 0; k0 < depth; k0 += BK) {
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

    if (ZEROS_ADDED) {
        for (int i = 0; i < TM * TN; ++i) {
            sum[i / TN][i % TN] += 0.0f;
        }
    }
    const Piece own = {kept.m0, kept.n0, kept.slice, kept.slices, kept.nth};
    if (own.slices > 1 && !meet(sum, partial, arrived, own)) return;

    if (WIDTH == VEC) {
        // Registers to global, four neighbours of a row at a time.
        for (int i = 0; i < TM; ++i) {
            for (int j = 0; j < TN; j += VEC) {
                const int row = own.m0 + c_row + i / VEC * ROW_STEP + i % VEC;
                const int col = own.n0 + c_col + j / VEC * COL_STEP;
                const float4 v = make_float4(sum[i][j], sum[i][j + 1],
                                             sum[i][j + 2], sum[i][j + 3]);
                store4<true>(C + size_t(row) * N + col, v, row < M ? N - col : 0);
            }
        }
    } else {
        wait_groups<0>();  // no copy of this thread is on its way to the ring,
        __syncthreads();   // nor anyone's, and nobody reads it: it is free
        const int row = own.m0 + warp / WARPS_N * WM;
        const int col = own.n0 + warp % WARPS_N * WN;
        float* room = reinterpret_cast<float*>(ring) + warp * VEC * 32 * ROOM;
        store_turned(sum, room, C + size_t(row) * N + col, N, M - row, N - col,
                     lane_m, lane_n);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
fp32_sliced(const float* A, const float* B, float* C, int M, int N, int K,
            int cut, int slices, float4* partial, int* arrived)
{
    const int tiles_m = (M + BM - 1) / BM;
    const int tiles_n = (N + BN - 1) / BN;
    const int whole = max(0, tiles_m * tiles_n - cut);

    // Whole tiles first; then the slices of a tile have neighbouring numbers.
    const int block = blockIdx.x;
    const int beyond = max(0, block - whole);
    const int tile = min(block, whole + beyond / slices);
    const int slice = beyond % slices;
    const int parts = block < whole ? 1 : slices;

    // Tile numbers run down the rows of a band, then to its next column of tiles.
    const int band = tile / (GROUP_M * tiles_n);
    const int within = tile % (GROUP_M * tiles_n);
    const int height = min(GROUP_M, tiles_m - band * GROUP_M);
    const int steps = (K + BK - 1) / BK;
    const Piece piece = {(band * GROUP_M + within % height) * BM,
                         within / height * BN,
                         slice,
                         parts,
                         beyond / slices,
                         int(size_t(steps) * slice / parts) * BK,
                         min(K, int(size_t(steps) * (slice + 1) / parts) * BK)};

    if (rows_aligned(B, N) && rows_aligned(C, N)) {
        multiply<VEC>(A, B, C, M, N, K, piece, partial, arrived);
    } else {
        multiply<1>(A, B, C, M, N, K, piece, partial, arrived);
    }
}
