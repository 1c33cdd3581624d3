// The fastest FP32 kernel of the book, for Ampere and later GPUs.
//
// Each block computes a BM x BN tile of C, each warp a WM x WN part of it, each
// thread TM x TN elements in pieces of 4 x 4, as in 13_warp_tiled.cu.
// New since then: copies from global to shared memory are asynchronous and run
// STAGES - 1 tiles ahead in a ring of STAGES shared tiles; blocks walk C in bands
// of GROUP_M rows of tiles, so that the blocks at work together share operands in
// the L2 cache.
//
// A is M x K, B is K x N, C is M x N, all row-major; any M, N, K >= 1.
// A_tile is BK x (BM + PAD), transposed: a row holds one k. B_tile is BK x BN.
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
#define BK 8  // steps of k a tile
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
#define STAGES 3  // tiles in the ring
#endif
#ifndef GROUP_M
#define GROUP_M 8  // rows of tiles in a band
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1  // blocks that an SM must be able to hold: limits the registers of a thread
#endif

constexpr int WARP = 32;
constexpr int VEC = 4;  // floats to a 16-byte access
constexpr int WARPS_N = BN / WN;
constexpr int THREADS = (BM / WM) * WARPS_N * WARP;
constexpr int LANES_M = WM / TM;  // a warp is LANES_M x LANES_N threads
constexpr int LANES_N = WN / TN;

// Of A, a warp copies SECTOR steps of k (32 bytes) of four rows. It transposes
// them: rows of BM + PAD floats put the 32 floats into 32 different banks.
constexpr int SECTOR = 8;
constexpr int PAD = 4;
constexpr int LD_A = BM + PAD;
constexpr int A_ROWS = THREADS / SECTOR;  // rows of A that the block copies in one pass
constexpr int A_PASSES = BM / A_ROWS;
constexpr int STAGE_A = BK * LD_A;
constexpr int STAGE = STAGE_A + BK * BN;  // floats of A_tile and B_tile

static_assert(BM % WM == 0 && BN % WN == 0, "warps split the block's tile evenly");
static_assert(WM % TM == 0 && WN % TN == 0 && LANES_M * LANES_N == WARP,
              "32 threads split the warp's tile evenly");
static_assert(TM % VEC == 0 && TN % VEC == 0, "fragments are read in fours");
static_assert(LANES_N % 2 == 0, "neighbouring lanes share a row");
static_assert(BK % SECTOR == 0, "A is copied a sector at a time");
static_assert(THREADS % SECTOR == 0 && BM % A_ROWS == 0, "threads copy equally much of A");
static_assert(STAGES >= 2, "one tile is used while the next arrives");
static_assert(THREADS <= 1024, "a block holds at most 1024 threads");

// Where a tile of the ring begins. NVRTC keeps a pointer to shared memory in 64
// bits. Where several blocks share an SM, registers are short and a number of
// floats serves better; a block that has the SM for itself is faster with pointers
// (both measured: data/tries/fp32.md).
#if MIN_BLOCKS > 1
using Place = int;
#define RING_START 0
#define IN_RING(place) (ring + (place))
#define NEXT_PLACE(place, slot) (place) == (STAGES - 1) * STAGE ? 0 : (place) + STAGE
#else
using Place = float*;
#define RING_START ring
#define IN_RING(place) (place)
#define NEXT_PLACE(place, slot) ring + (slot = slot == STAGES - 1 ? 0 : slot + 1) * STAGE
#endif

// What one thread copies of every tile. WIDTH: floats of B to a copy.
template <int WIDTH>
struct Copier {
    static constexpr int B_THREADS = BN / WIDTH < THREADS ? BN / WIDTH : THREADS;  // to a row of B
    static constexpr int B_SPANS = BN / WIDTH / B_THREADS;  // copies of a thread to a row of B
    static constexpr int B_ROWS = THREADS / B_THREADS;      // rows of B in one pass
    static constexpr int B_PASSES = BK / B_ROWS;
    static_assert(THREADS % B_THREADS == 0 && BN % (WIDTH * B_THREADS) == 0 && BK % B_ROWS == 0,
                  "threads copy equally much of B");

    const float* a[A_PASSES];  // the next elements of A and of B
    const float* b[B_SPANS];
    int a_k, b_k;     // their k within the tile
    int a_to, b_to;   // their place in a stage of the ring
    ptrdiff_t row_b;  // elements from one row of B to the next

    // The first tile begins at k = -skip. Rows of A beyond the edge are replaced by
    // the last one, columns of B by those from the left edge on: what comes of them
    // is not stored. (Were they all the last column, the lanes of a copy would
    // queue for one address.)
    __device__ Copier(const float* A, const float* B, int m0, int n0, int M, int N, int K, int skip)
    {
        const int a_m = threadIdx.x / SECTOR;
        const int b_n = threadIdx.x % B_THREADS * WIDTH;
        a_k = threadIdx.x % SECTOR;
        b_k = threadIdx.x / B_THREADS;
        a_to = a_k * LD_A + a_m;
        b_to = STAGE_A + b_k * BN + b_n;
        row_b = N;
        #pragma unroll
        for (int i = 0; i < A_PASSES; ++i) {
            a[i] = A + ptrdiff_t(min(m0 + a_m + i * A_ROWS, M - 1)) * K + a_k - skip;
        }
        #pragma unroll
        for (int i = 0; i < B_SPANS; ++i) {
            b[i] = B + (b_k - skip) * row_b + (n0 + b_n + i * B_THREADS * WIDTH) % N;
        }
    }

    // Starts copying the next tile into a stage. Zeros take the place of its first
    // `skip` steps of k, and of all of it if it is not wanted.
    __device__ void copy(float* stage, int skip, bool wanted)
    {
        #pragma unroll
        for (int i = 0; i < A_PASSES; ++i) {
            #pragma unroll
            for (int k = 0; k < BK; k += SECTOR) {
                copy_async<1>(stage + a_to + k * LD_A + i * A_ROWS, a[i] + k,
                              wanted && a_k + k >= skip);
            }
            a[i] += BK;
        }
        #pragma unroll
        for (int i = 0; i < B_SPANS; ++i) {
            #pragma unroll
            for (int k = 0; k < BK; k += B_ROWS) {
                copy_async<WIDTH>(stage + b_to + k * BN + i * B_THREADS * WIDTH, b[i],
                                  wanted && b_k + k >= skip);
                b[i] += B_ROWS * row_b;
            }
        }
    }
};

// Four floats from shared memory to registers.
__device__ inline void read4(float* frag, const float* shared)
{
    const float4 v = *reinterpret_cast<const float4*>(shared);
    frag[0] = v.x;
    frag[1] = v.y;
    frag[2] = v.z;
    frag[3] = v.w;
}

// WIDTH: floats to an access of B and C, 4 if their rows start on 16 bytes, else 1.
template <int WIDTH>
__device__ __forceinline__ void multiply(const float* A, const float* B, float* C, int M, int N,
                                         int K, int m0, int n0)
{
    extern __shared__ float4 shared_memory[];
    float* ring = reinterpret_cast<float*>(shared_memory);

    // Bits 1 and up of the lane choose its rows, bit 0 and the topmost bits its
    // columns. Lanes 0 and 1 then read the same of A_tile, lanes 0 and 2 the same
    // of B_tile, which lets a 16-byte read of the warp pass in two wavefronts.
    const int warp = threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    const int lane_m = lane / 2 % LANES_M;
    const int lane_n = lane / (2 * LANES_M) * 2 + lane % 2;
    const int m_thread = warp / WARPS_N * WM + lane_m * VEC;
    const int n_thread = warp % WARPS_N * WN + lane_n * VEC;

    // If K does not fill its tiles, the first one begins before k = 0; all others
    // are whole.
    const int tiles_k = (K + BK - 1) / BK;
    const int skip = tiles_k * BK - K;
    Copier<WIDTH> copier(A, B, m0, n0, M, N, K, skip);
    for (int t = 0; t < STAGES - 1; ++t) {
        copier.copy(ring + t * STAGE, t == 0 ? skip : 0, t < tiles_k);
        commit_group();
    }

    float acc[TM][TN] = {};
    float a_frag[2][TM];  // of this step of k and of the next
    float b_frag[2][TN];
    auto read_frags = [&](Place start, int k) {
        const float* stage = IN_RING(start);
        #pragma unroll
        for (int i = 0; i < TM; i += VEC) {
            read4(a_frag[k % 2] + i, stage + k * LD_A + m_thread + i * LANES_M);
        }
        #pragma unroll
        for (int j = 0; j < TN; j += VEC) {
            read4(b_frag[k % 2] + j, stage + STAGE_A + k * BN + n_thread + j * LANES_N);
        }
    };

    [[maybe_unused]] int slot = 0;  // of the ring: where the tile in use is
    Place used = RING_START;
    Place filled = RING_START + (STAGES - 1) * STAGE;
    wait_groups<STAGES - 2>();
    __syncthreads();
    read_frags(used, 0);

    for (int t = 0; t < tiles_k; ++t) {
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            if (k == BK - 1) {
                // The next tile is complete, and nobody reads this one any more.
                wait_groups<STAGES - 2>();
                __syncthreads();
                filled = used;
                used = NEXT_PLACE(used, slot);
            }
            read_frags(used, (k + 1) % BK);
            if (k == 0) {
                copier.copy(IN_RING(filled), 0, t + STAGES - 1 < tiles_k);
                commit_group();
            }
            // Back and forth through the columns: every multiply-add shares an
            // operand with the one before, which then need not be read from the
            // register file again.
            #pragma unroll
            for (int i = 0; i < TM; ++i) {
                #pragma unroll
                for (int step = 0; step < TN; ++step) {
                    const int j = i % 2 == 0 ? step : TN - 1 - step;
                    acc[i][j] += a_frag[k % 2][i] * b_frag[k % 2][j];
                }
            }
        }
    }

    // Registers to C. A 16-byte store takes four neighbouring registers. Adding
    // zero moves the sums there at the end, so that in the loop the compiler may
    // keep each wherever suits it best.
    #pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = m0 + m_thread + i / VEC * LANES_M * VEC + i % VEC;
        if (m >= M) continue;
        #pragma unroll
        for (int j = 0; j < TN; j += VEC) {
            const int n = n0 + n_thread + j * LANES_N;
            const float4 sums = make_float4(acc[i][j] + 0.0f, acc[i][j + 1] + 0.0f,
                                            acc[i][j + 2] + 0.0f, acc[i][j + 3] + 0.0f);
            store4<WIDTH == VEC>(C + size_t(m) * N + n, sums, N - n);
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
