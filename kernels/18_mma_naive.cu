// Tensor Cores by hand: each warp gathers the operands of mma.sync from shared
// memory itself.
//
// A block copies a BM x BK tile of A and a BK x BN tile of B to shared memory; each
// of its warps computes a WM x WN tile of C as a grid of 16 x 8 accumulators that
// stay in registers.
// New since 17_wmma_shared.cu: no opaque fragments. The lane knows which elements
// it must hold (common/mma.cuh) and reads them: pairs along a row of A, pairs down
// a column of B.
//
// A is M x K, B is K x N of 2-byte elements, C is M x N of floats, all row-major.
// Block: BM/WM * BN/WN warps. Grid: cdiv(N, BN) x cdiv(M, BM).

#include "common/chunks.cuh"
#include "common/mma.cuh"

#ifndef ELEMENT
#define ELEMENT __half  // of A and B: __half, or __nv_bfloat16 from sm_80 on
#endif
#ifndef BM
#define BM 128  // rows of C a block
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

using T = ELEMENT;

constexpr int MMA_K = 16;
constexpr int WARPS_N = BN / WN;
constexpr int THREADS = BM / WM * WARPS_N * 32;
constexpr int M_TILES = WM / MMA_M;  // accumulators of a warp, down
constexpr int N_TILES = WN / MMA_N;  // and across

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles must cover the block tile");
static_assert(WM % 16 == 0 && WN % 16 == 0 && BK % MMA_K == 0,
              "tiles are made of 16 x 16 pieces");
static_assert(WM * WN <= 4096, "a lane keeps WM * WN / 32 sums, 128 at most");
static_assert(THREADS <= 1024, "a block holds at most 1024 threads");
static_assert(whole_lines<BK> && whole_lines<BN>,
              "rows of a tile are 16, 32 or a multiple of 64 elements");
static_assert(even_share<BM, BK, THREADS> && even_share<BK, BN, THREADS>,
              "every thread copies the same number of chunks of A, and of B");
static_assert(2 * BK * (BM + BN) <= 48 * 1024,
              "the tiles fit the 48 KB of static shared memory");

// Two neighbours of a row as one register.
__device__ __forceinline__ unsigned pair_along(const T* first) {
    return *reinterpret_cast<const unsigned*>(first);
}

// Two neighbours of a column as one register, the upper one in the low half.
__device__ __forceinline__ unsigned pair_down(const T* first) {
    const unsigned short* element = reinterpret_cast<const unsigned short*>(first);
    return element[0] | unsigned(element[BN]) << 16;
}

// The tiles of A and of B in shared memory.
__shared__ __align__(16) T A_tile[BM][BK];
__shared__ __align__(16) T B_tile[BK][BN];

template <bool ALIGNED>
__device__ __forceinline__ void multiply(const T* A, const T* B, float* C, int M,
                                         int N, int K)
{
    const int m0 = blockIdx.y * BM;  // origin of the block's tile of C
    const int n0 = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;
    const int warp_m = warp / WARPS_N * WM;  // the warp's tile inside the block's
    const int warp_n = warp % WARPS_N * WN;
    // The lane's place in a fragment, as in the PTX ISA.
    const int g = threadIdx.x % 32 / 4;
    const int t = threadIdx.x % 4;

    uint4 a_next[Share<BM, BK, THREADS>::COUNT];
    uint4 b_next[Share<BK, BN, THREADS>::COUNT];

    // Global to registers: this thread's part of the tiles that start at k0.
    const auto load = [&](int k0) {
        if constexpr (ALIGNED) {
            load_chunks<BM, BK, THREADS>(a_next, A, M, K, m0, k0);
            load_chunks<BK, BN, THREADS>(b_next, B, K, N, k0, n0);
        }
    };

    // Registers to shared: those tiles. Where rows are not aligned, global to
    // shared.
    const auto put_down = [&](int k0) {
        if constexpr (ALIGNED) {
            store_chunks<BM, BK, THREADS, row_major<BK>>(A_tile[0], a_next);
            store_chunks<BK, BN, THREADS, row_major<BN>>(B_tile[0], b_next);
        } else {
            gather_tile<BM, BK, THREADS, row_major<BK>>(A_tile[0], A, M, K, m0, k0);
            gather_tile<BK, BN, THREADS, row_major<BN>>(B_tile[0], B, K, N, k0, n0);
        }
    };

    float sum[M_TILES][N_TILES][4] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        load(k0);
        // Everyone has read the last tiles: they may be overwritten.
        __syncthreads();
        put_down(k0);
        __syncthreads();  // both tiles are complete

        #pragma unroll
        for (int k = 0; k < BK; k += MMA_K) {
            // Shared to registers: four 4-byte loads for a fragment of A, four
            // 2-byte ones for B.
            unsigned a_frag[M_TILES][4];
            unsigned b_frag[N_TILES][2];
            #pragma unroll
            for (int i = 0; i < M_TILES; ++i) {
                const int row = warp_m + i * MMA_M + g;
                a_frag[i][0] = pair_along(&A_tile[row][k + 2 * t]);
                a_frag[i][1] = pair_along(&A_tile[row + 8][k + 2 * t]);
                a_frag[i][2] = pair_along(&A_tile[row][k + 2 * t + 8]);
                a_frag[i][3] = pair_along(&A_tile[row + 8][k + 2 * t + 8]);
            }
            #pragma unroll
            for (int j = 0; j < N_TILES; ++j) {
                const int col = warp_n + j * MMA_N + g;
                b_frag[j][0] = pair_down(&B_tile[k + 2 * t][col]);
                b_frag[j][1] = pair_down(&B_tile[k + 2 * t + 8][col]);
            }
            // Every fragment of A meets every fragment of B.
            #pragma unroll
            for (int i = 0; i < M_TILES; ++i) {
                #pragma unroll
                for (int j = 0; j < N_TILES; ++j) {
                    mma_m16n8k16<T>(sum[i][j], a_frag[i], b_frag[j]);
                }
            }
        }
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

extern "C" __global__ void __launch_bounds__(THREADS)
mma_naive(const T* A, const T* B, float* C, int M, int N, int K)
{
    if (rows_aligned(A, K) && rows_aligned(B, N)) {
        multiply<true>(A, B, C, M, N, K);
    } else {
        multiply<false>(A, B, C, M, N, K);
    }
}
