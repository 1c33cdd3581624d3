// Warp tiling: a level between the tile of the block and the tile of the thread.
//
// Each block computes a BM x BN tile of C, each warp a WM x WN part of it, each
// thread TM x TN elements of that, in pieces of 4 x 4 that lie LANES_M * 4 rows and
// LANES_N * 4 columns apart.
// New since 11_double_buffer.cu: the kernel says which lane of a warp computes
// which patches. Every four lanes form a square of two by two, so that neighbouring
// lanes read the same floats: no 16-byte read of shared memory takes more than two
// wavefronts. Fragments for the next k are read while this k is multiplied.
//
// A is M x K, B is K x N, C is M x N, all row-major; any M, N, K >= 1.
// A_tile is 2 buffers of BK x (BM + PAD), transposed: a row holds one k. B_tile is
// 2 of BK x BN.
// Block: (BM / WM) * (BN / WN) warps. Grid: cdiv(N, BN) x cdiv(M, BM).

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
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1  // blocks that an SM must be able to hold: limits the registers of a thread
#endif

constexpr int WARP = 32;
constexpr int VEC = 4;  // floats to a 16-byte access
constexpr int WARPS_N = BN / WN;
constexpr int THREADS = (BM / WM) * WARPS_N * WARP;
constexpr int LANES_M = WM / TM;  // a warp is LANES_M x LANES_N threads
constexpr int LANES_N = WN / TN;

// Of A, a warp fetches SECTOR steps of k (32 bytes) of four rows. It transposes
// them: rows of BM + PAD floats put the 32 floats into 32 different banks.
constexpr int SECTOR = 8;
constexpr int PAD = 4;
constexpr int LD_A = BM + PAD;
constexpr int A_ROWS = THREADS / SECTOR;  // rows of A that the block fetches in one pass
constexpr int A_PASSES = BM / A_ROWS;
constexpr int A_SECTORS = BK / SECTOR;

static_assert(BM % WM == 0 && BN % WN == 0, "warps split the block's tile evenly");
static_assert(WM % TM == 0 && WN % TN == 0 && LANES_M * LANES_N == WARP,
              "32 threads split the warp's tile evenly");
static_assert(TM % VEC == 0 && TN % VEC == 0, "fragments are read in fours");
static_assert(LANES_N % 2 == 0, "neighbouring lanes share a row");
static_assert(BK % SECTOR == 0, "A is fetched a sector at a time");
static_assert(THREADS % SECTOR == 0 && BM % A_ROWS == 0, "threads fetch equally much of A");
static_assert(2 * BK * (LD_A + BN) * sizeof(float) <= 48 * 1024, "48 KB of shared memory a block");
static_assert(THREADS <= 1024, "a block holds at most 1024 threads");

// Four floats from shared memory to registers.
__device__ inline void read4(float* frag, float* shared)
{
    const float4 v = vec4(shared);
    frag[0] = v.x;
    frag[1] = v.y;
    frag[2] = v.z;
    frag[3] = v.w;
}

// WIDTH: floats to an access of B and C, 4 if their rows start on 16 bytes, else 1.
template <int WIDTH>
__device__ __forceinline__ void multiply(const float* A, const float* B, float* C, int M, int N,
                                         int K, float* A_tile, float* B_tile)
{
    constexpr int B_THREADS = BN / WIDTH < THREADS ? BN / WIDTH : THREADS;  // to a row of B
    constexpr int B_SPANS = BN / WIDTH / B_THREADS;  // fetches of a thread to a row of B
    constexpr int B_ROWS = THREADS / B_THREADS;      // rows of B in one pass
    constexpr int B_PASSES = BK / B_ROWS;
    static_assert(THREADS % B_THREADS == 0 && BN % (WIDTH * B_THREADS) == 0 && BK % B_ROWS == 0,
                  "threads fetch equally much of B");
    const int m0 = blockIdx.y * BM;  // origin of the block's tile of C
    const int n0 = blockIdx.x * BN;

    // What this thread fetches of each tile, and where it puts it down. Rows of A
    // and columns of B beyond the edge are replaced by the last one: what comes of
    // them is not stored. If K does not fill its tiles, the first one begins at k =
    // -skip; all others are whole.
    const int tiles_k = (K + BK - 1) / BK;
    const int skip = tiles_k * BK - K;
    const int a_k = threadIdx.x % SECTOR;
    const int a_m = threadIdx.x / SECTOR;
    const int b_k = threadIdx.x / B_THREADS;
    const int b_n = threadIdx.x % B_THREADS * WIDTH;
    const ptrdiff_t row_b = N;
    const float* a_from[A_PASSES];
    const float* b_from[B_SPANS];
    #pragma unroll
    for (int i = 0; i < A_PASSES; ++i) {
        a_from[i] = A + ptrdiff_t(min(m0 + a_m + i * A_ROWS, M - 1)) * K + a_k - skip;
    }
    #pragma unroll
    for (int i = 0; i < B_SPANS; ++i) {
        b_from[i] = B + (b_k - skip) * row_b + min(n0 + b_n + i * B_THREADS * WIDTH, N - WIDTH);
    }

    // Global memory to registers: the next tile. Zeros take the place of its first
    // `from` steps of k, and of all of it if it is not wanted.
    float a_next[A_PASSES][A_SECTORS];
    float4 b_next[B_SPANS][B_PASSES];
    auto fetch = [&](int from, bool wanted) {
        #pragma unroll
        for (int i = 0; i < A_PASSES; ++i) {
            #pragma unroll
            for (int s = 0; s < A_SECTORS; ++s) {
                const bool inside = wanted && a_k + s * SECTOR >= from;
                a_next[i][s] = inside ? a_from[i][s * SECTOR] : 0.0f;
            }
            a_from[i] += BK;
        }
        #pragma unroll
        for (int i = 0; i < B_SPANS; ++i) {
            #pragma unroll
            for (int p = 0; p < B_PASSES; ++p) {
                const bool inside = wanted && b_k + p * B_ROWS >= from;
                b_next[i][p] = load4<WIDTH == VEC>(b_from[i], inside ? WIDTH : 0);
                b_from[i] += B_ROWS * row_b;
            }
        }
    };
    // Registers to shared memory.
    auto put_down = [&](int buffer) {
        #pragma unroll
        for (int i = 0; i < A_PASSES; ++i) {
            #pragma unroll
            for (int s = 0; s < A_SECTORS; ++s) {
                const int k = buffer * BK + a_k + s * SECTOR;
                A_tile[k * LD_A + a_m + i * A_ROWS] = a_next[i][s];
            }
        }
        #pragma unroll
        for (int i = 0; i < B_SPANS; ++i) {
            #pragma unroll
            for (int p = 0; p < B_PASSES; ++p) {
                const int k = buffer * BK + b_k + p * B_ROWS;
                float* to = B_tile + k * BN + b_n + i * B_THREADS * WIDTH;
                store4<WIDTH == VEC>(to, b_next[i][p], WIDTH);
            }
        }
    };

    // Bits 1 and up of the lane choose its rows, bit 0 and the topmost bits its
    // columns. Lanes 0 and 1 then read the same of A_tile, lanes 0 and 2 the same
    // of B_tile, which lets a 16-byte read of the warp pass in two wavefronts.
    const int warp = threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    const int lane_m = lane / 2 % LANES_M;
    const int lane_n = lane / (2 * LANES_M) * 2 + lane % 2;
    const int m_thread = warp / WARPS_N * WM + lane_m * VEC;
    const int n_thread = warp % WARPS_N * WN + lane_n * VEC;

    float acc[TM][TN] = {};
    float a_frag[2][TM];  // of this step of k and of the next
    float b_frag[2][TN];
    auto read_frags = [&](int buffer, int k) {
        #pragma unroll
        for (int i = 0; i < TM; i += VEC) {
            read4(a_frag[k % 2] + i, A_tile + (buffer * BK + k) * LD_A + m_thread + i * LANES_M);
        }
        #pragma unroll
        for (int j = 0; j < TN; j += VEC) {
            read4(b_frag[k % 2] + j, B_tile + (buffer * BK + k) * BN + n_thread + j * LANES_N);
        }
    };

    fetch(skip, true);
    put_down(0);
    __syncthreads();
    read_frags(0, 0);

    for (int t = 0; t < tiles_k; ++t) {
        fetch(0, t + 1 < tiles_k);  // arrives during the multiply-adds below
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            if (k == BK - 1) {
                put_down((t + 1) % 2);
                __syncthreads();
            }
            read_frags(k < BK - 1 ? t % 2 : (t + 1) % 2, (k + 1) % BK);
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
warp_tiled(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float4 A_tile[2 * BK * LD_A / VEC];
    __shared__ float4 B_tile[2 * BK * BN / VEC];
    float* a = reinterpret_cast<float*>(A_tile);
    float* b = reinterpret_cast<float*>(B_tile);
    if (rows_aligned(B, N) && rows_aligned(C, N)) {
        multiply<VEC>(A, B, C, M, N, K, a, b);
    } else {
        multiply<1>(A, B, C, M, N, K, a, b);
    }
}
