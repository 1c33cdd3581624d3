// The pipeline without cp.async: for GPUs such as the T4, and for any other.
//
// New since 18_mma_swizzle.cu: shared memory holds two tiles of A and of B, and
// registers a third. While one is multiplied, the next goes from registers to the
// other buffer, and the one after that is fetched from global memory: every load
// has a tile's time to arrive, and one barrier a tile is left. The instruction is
// Turing's m16n8k8 (MMA_K 8).
//
// A is M x K, B is K x N of 2-byte elements, C is M x N of floats, all row-major.
// Block: BM/WM * BN/WN warps. Grid: cdiv(N, BN) x cdiv(M, BM).
// Dynamic shared memory: 2 * (BM + BN) * BK * 2 bytes.

#include "common/chunks.cuh"
#include "common/fragments.cuh"
#include "common/ragged.cuh"

#ifndef ELEMENT
#define ELEMENT __half  // of A and B: __half, or __nv_bfloat16 from sm_80 on
#endif
#ifndef BM
#define BM 256  // rows of C a block
#endif
#ifndef BN
#define BN 128  // columns of C a block
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
#ifndef MMA_K
#define MMA_K 8  // depth of one instruction: 8 on sm_75, 8 or 16 from sm_80 on
#endif

using T = ELEMENT;

constexpr int STEP = 16;  // values of k that one ldmatrix.x4 fetches
constexpr int WARPS_N = BN / WN;
constexpr int THREADS = BM / WM * WARPS_N * 32;
constexpr int M_TILES = WM / MMA_M;  // accumulators of a warp, down
constexpr int N_TILES = WN / MMA_N;  // and across

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles must cover the block tile");
static_assert(WM % 16 == 0 && WN % 16 == 0,
              "a warp tile is made of 16 x 16 pieces");
static_assert(BK == 16 || BK == 32 || BK == 64 || BK == 128,
              "steps of 16 values, each one XOR further");
static_assert(MMA_K == 8 || MMA_K == 16, "mma.sync takes 8 or 16 values of k");
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

static_assert(2 * (BM + BN) * BK * 2 <= 227 * 1024,
              "no block has more than 227 KB of shared memory");

// Two buffers, each with a BM x BK tile of A and, behind it, a BK x BN tile of B.
constexpr int BUFFER = (BM + BN) * BK;
extern __shared__ __align__(1024) T buffers[];

// The main loop where rows are aligned.
__device__ __forceinline__ void accumulate(float (&sum)[M_TILES][N_TILES][4],
                                           const T* A, const T* B, int M, int N,
                                           int K, int m0, int n0, int warp_m,
                                           int warp_n)
{
    // The first tiles go to buffer 0, the second ones stay in registers.
    uint4 a_next[Share<BM, BK, THREADS>::COUNT];
    uint4 b_next[Share<BK, BN, THREADS>::COUNT];
    load_chunks<BM, BK, THREADS>(a_next, A, M, K, m0, 0);
    load_chunks<BK, BN, THREADS>(b_next, B, K, N, 0, n0);
    store_chunks<BM, BK, THREADS, swizzled<BK>>(buffers, a_next);
    store_chunks<BK, BN, THREADS, swizzled<BN>>(buffers + BM * BK, b_next);
    load_chunks<BM, BK, THREADS>(a_next, A, M, K, m0, BK);
    load_chunks<BK, BN, THREADS>(b_next, B, K, N, BK, n0);
    __syncthreads();

    // This lane's addresses in buffer 0, and where the buffers that are read and
    // filled start.
    const unsigned a_lane = a_address<BK>(buffers, warp_m);
    const unsigned b_lane = b_address<BN>(buffers + BM * BK, warp_n);
    int read = 0;
    int write = BUFFER;
    for (int k0 = 0; k0 < K; k0 += BK) {
        const unsigned from = read * ELEMENT_BYTES;
        #pragma unroll
        for (int k = 0; k < BK; k += STEP) {
            // Shared to registers: the fragments of one step (two fragments of B in
            // four registers).
            unsigned a_frag[M_TILES][4];
            unsigned b_frag[N_TILES / 2][4];
            load_fragments<BK, BN>(a_frag, b_frag, a_lane + from, b_lane + from, k);
            multiply<T, MMA_K>(sum, a_frag, b_frag);
            if (k == 0) {
                // Registers to shared: the next tiles, to the buffer that nobody
                // reads. Global to registers: the tiles after them (zeros behind
                // the last).
                store_chunks<BM, BK, THREADS, swizzled<BK>>(buffers + write,
                                                            a_next);
                store_chunks<BK, BN, THREADS, swizzled<BN>>(
                    buffers + write + BM * BK, b_next);
                load_chunks<BM, BK, THREADS>(a_next, A, M, K, m0, k0 + 2 * BK);
                load_chunks<BK, BN, THREADS>(b_next, B, K, N, k0 + 2 * BK, n0);
            }
        }
        // The next tiles are complete, and everyone has read these.
        __syncthreads();
        read = BUFFER - read;
        write = BUFFER - write;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
mma_turing(const T* A, const T* B, float* C, int M, int N, int K)
{
    const int m0 = blockIdx.y * BM;  // origin of the block's tile of C
    const int n0 = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;
    const int warp_m = warp / WARPS_N * WM;  // the warp's tile inside the block's
    const int warp_n = warp % WARPS_N * WN;

    float sum[M_TILES][N_TILES][4] = {};
    if (rows_aligned(A, K) && rows_aligned(B, N)) {
        accumulate(sum, A, B, M, N, K, m0, n0, warp_m, warp_n);
    } else {
        accumulate_ragged<BM, BN, BK, THREADS, MMA_K>(sum, buffers, A, B, M, N, K,
                                                      m0, n0, warp_m, warp_n);
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
