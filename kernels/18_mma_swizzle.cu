// The same kernel with the tiles swizzled: every ldmatrix takes four wavefronts,
// the fewest it can.
//
// New since 18_mma_ldmatrix.cu: a chunk of eight elements is stored at its own
// number XOR its row's (common/swizzle.cuh), by the copy and by ldmatrix alike.
// Eight neighbouring rows of one chunk then lie in 32 different banks. No padding,
// no other change.
//
// A is M x K, B is K x N of 2-byte elements, C is M x N of floats, all row-major.
// Block: BM/WM * BN/WN warps. Grid: cdiv(N, BN) x cdiv(M, BM).

#include "common/chunks.cuh"
#include "common/ldmatrix.cuh"
#include "common/mma.cuh"
#include "common/swizzle.cuh"

#ifndef ELEMENT
#define ELEMENT __half  // element type of A and B: __half, or __nv_bfloat16 from sm_80 on
#endif
#ifndef BM
#define BM 128  // rows of C of a block
#endif
#ifndef BN
#define BN 128  // columns of C of a block
#endif
#ifndef BK
#define BK 32  // depth of the tiles in shared memory
#endif
#ifndef WM
#define WM 64  // rows of C of a warp
#endif
#ifndef WN
#define WN 64  // columns of C of a warp
#endif

using T = ELEMENT;

constexpr int MMA_K = 16;
constexpr int WARPS_N = BN / WN;
constexpr int THREADS = BM / WM * WARPS_N * 32;
constexpr int M_TILES = WM / MMA_M;  // accumulators of a warp, down
constexpr int N_TILES = WN / MMA_N;  // and across

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles must cover the block tile");
static_assert(WM % 16 == 0 && WN % 16 == 0, "a warp tile is made of 16 x 16 pieces");
static_assert(BK % 16 == 0, "one mma.sync takes 16 values of k");
static_assert(WM * WN <= 4096, "a lane keeps WM * WN / 32 accumulators in registers: 128 at most");
static_assert(THREADS <= 1024, "a block holds at most 1024 threads");
static_assert(whole_lines<BK> && whole_lines<BN>, "rows of a tile are 16, 32 or a multiple of 64 elements");
static_assert(even_share<BM, BK, THREADS>, "every thread copies the same number of chunks of A");
static_assert(even_share<BK, BN, THREADS>, "every thread copies the same number of chunks of B");
static_assert((BM + BN) * BK * 2 <= 48 * 1024, "the tiles must fit in 48 KB of shared memory");

// The tiles of A and of B in shared memory.
__shared__ __align__(128) T A_tile[BM * BK];
__shared__ __align__(128) T B_tile[BK * BN];

template <bool ALIGNED>
__device__ __forceinline__ void run(const T* A, const T* B, float* C, int M, int N, int K)
{
    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;
    const int warp_m = warp / WARPS_N * WM;  // the warp's tile inside the block's
    const int warp_n = warp % WARPS_N * WN;
    const int lane_row = threadIdx.x % 16;            // the row whose address this lane gives, and
    const int lane_col = threadIdx.x % 32 / 16 * 8;   // the half of its 16 elements

    float acc[M_TILES][N_TILES][4] = {};
    uint4 A_chunk[Share<BM, BK, THREADS>::COUNT];
    uint4 B_chunk[Share<BK, BN, THREADS>::COUNT];

    for (int k0 = 0; k0 < K; k0 += BK) {
        // Global to shared, through registers: the next tile of A and of B.
        if constexpr (ALIGNED) {
            load_chunks<BM, BK, THREADS>(A_chunk, A, M, K, m0, k0);
            load_chunks<BK, BN, THREADS>(B_chunk, B, K, N, k0, n0);
        }
        __syncthreads();  // everyone has read the last tiles: they may be overwritten
        if constexpr (ALIGNED) {
            store_chunks<BM, BK, THREADS, swizzled<BK>>(A_tile, A_chunk);
            store_chunks<BK, BN, THREADS, swizzled<BN>>(B_tile, B_chunk);
        } else {
            gather_tile<BM, BK, THREADS, swizzled<BK>>(A_tile, A, M, K, m0, k0);
            gather_tile<BK, BN, THREADS, swizzled<BN>>(B_tile, B, K, N, k0, n0);
        }
        __syncthreads();  // both tiles are complete

        #pragma unroll
        for (int k = 0; k < BK; k += MMA_K) {
            // Shared to registers: one 16 x 16 piece of a tile with each ldmatrix.
            unsigned a_frag[M_TILES][4];
            unsigned b_frag[N_TILES / 2][4];  // two fragments of B each
            #pragma unroll
            for (int i = 0; i < M_TILES; ++i) {
                const int row = warp_m + i * MMA_M + lane_row;
                ldmatrix_x4(a_frag[i], shared_address(&A_tile[swizzled<BK>(row, k + lane_col)]));
            }
            #pragma unroll
            for (int j = 0; j < N_TILES / 2; ++j) {
                const int col = warp_n + j * 2 * MMA_N + lane_col;
                ldmatrix_x4_trans(b_frag[j], shared_address(&B_tile[swizzled<BN>(k + lane_row, col)]));
            }
            // Every fragment of A meets every fragment of B.
            #pragma unroll
            for (int i = 0; i < M_TILES; ++i) {
                #pragma unroll
                for (int j = 0; j < N_TILES; ++j) {
                    mma_m16n8k16<T>(acc[i][j], a_frag[i], &b_frag[j / 2][j % 2 * 2]);
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
            mma_store(C, M, N, m0 + warp_m + i * MMA_M, n0 + warp_n + j * MMA_N, acc[i][j], pairs);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
mma_swizzle(const T* A, const T* B, float* C, int M, int N, int K)
{
    if (rows_aligned(A, K) && rows_aligned(B, N)) {
        run<true>(A, B, C, M, N, K);
    } else {
        run<false>(A, B, C, M, N, K);
    }
}
