// WMMA fed from shared memory: a tile for the block, a tile for each of its warps.
//
// New since 17_wmma.cu: a block copies a BM x BK tile of A and a BK x BN tile of B
// to shared memory, once for all its warps. Each warp computes WM x WN of C from
// them: a fragment of A is used WN / 16 times, a fragment of B WM / 16 times. Rows
// are not padded: wmma asks for rows that are multiples of 16 bytes and fragments
// that start at multiples of 32, and rows of whole fragments are and do.
//
// A is M x K, B is K x N of 2-byte elements, C is M x N of floats, all row-major.
// Block: BM/WM * BN/WN warps. Grid: cdiv(N, BN) x cdiv(M, BM).

#include "common/chunks.cuh"
#include "common/wmma_store.cuh"

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

using namespace nvcuda;
using T = ELEMENT;
using AFragment =
    wmma::fragment<wmma::matrix_a, FRAG, FRAG, FRAG, T, wmma::row_major>;
using BFragment =
    wmma::fragment<wmma::matrix_b, FRAG, FRAG, FRAG, T, wmma::row_major>;

constexpr int WARPS_N = BN / WN;
constexpr int WARPS = BM / WM * WARPS_N;
constexpr int THREADS = WARPS * 32;
constexpr int M_TILES = WM / FRAG;  // fragments of a warp's tile of C, down
constexpr int N_TILES = WN / FRAG;  // and across

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles must cover the block tile");
static_assert(WM % FRAG == 0 && WN % FRAG == 0 && BK % FRAG == 0,
              "tiles are made of 16 x 16 fragments");
static_assert(WM * WN <= 4096, "a lane keeps WM * WN / 32 sums, 128 at most");
static_assert(THREADS <= 1024, "a block holds at most 1024 threads");
static_assert(whole_lines<BK> && whole_lines<BN>,
              "rows of a tile are 16, 32 or a multiple of 64 elements");
static_assert(even_share<BM, BK, THREADS> && even_share<BK, BN, THREADS>,
              "every thread copies the same number of chunks of A, and of B");
static_assert(2 * BK * (BM + BN) + 4 * WARPS * FRAG * FRAG <= 48 * 1024,
              "the tiles fit the 48 KB of static shared memory");

// The tiles of A and of B in shared memory, and for each warp room for a fragment
// of C.
__shared__ __align__(128) T A_tile[BM][BK];
__shared__ __align__(128) T B_tile[BK][BN];
__shared__ __align__(128) float C_staged[WARPS][FRAG * FRAG];

// ALIGNED: the rows of A and B start on 16 bytes, so that they can be copied in
// chunks.
template <bool ALIGNED>
__device__ __forceinline__ void multiply(const T* A, const T* B, float* C, int M,
                                         int N, int K)
{
    const int m0 = blockIdx.y * BM;  // origin of the block's tile of C
    const int n0 = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;
    const int warp_m = warp / WARPS_N * WM;  // the warp's tile inside the block's
    const int warp_n = warp % WARPS_N * WN;

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

    CFragment c_frag[M_TILES][N_TILES];
    for (int i = 0; i < M_TILES; ++i) {
        for (int j = 0; j < N_TILES; ++j) {
            wmma::fill_fragment(c_frag[i][j], 0.0f);
        }
    }

    for (int k0 = 0; k0 < K; k0 += BK) {
        load(k0);
        // Everyone has read the last tiles: they may be overwritten.
        __syncthreads();
        put_down(k0);
        __syncthreads();  // both tiles are complete

        #pragma unroll
        for (int k = 0; k < BK; k += FRAG) {
            // Shared to registers: a column of fragments of A, a row of fragments
            // of B.
            AFragment a_frag[M_TILES];
            BFragment b_frag[N_TILES];
            for (int i = 0; i < M_TILES; ++i) {
                wmma::load_matrix_sync(a_frag[i], &A_tile[warp_m + i * FRAG][k],
                                       BK);
            }
            for (int j = 0; j < N_TILES; ++j) {
                wmma::load_matrix_sync(b_frag[j], &B_tile[k][warp_n + j * FRAG],
                                       BN);
            }

            // Registers only: every fragment of A meets every fragment of B.
            for (int i = 0; i < M_TILES; ++i) {
                for (int j = 0; j < N_TILES; ++j) {
                    wmma::mma_sync(c_frag[i][j], a_frag[i], b_frag[j],
                                   c_frag[i][j]);
                }
            }
        }
    }

    // Registers to global.
    #pragma unroll
    for (int i = 0; i < M_TILES; ++i) {
        #pragma unroll
        for (int j = 0; j < N_TILES; ++j) {
            store_fragment(C, M, N, m0 + warp_m + i * FRAG, n0 + warp_n + j * FRAG,
                           c_frag[i][j], C_staged[warp]);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
wmma_shared(const T* A, const T* B, float* C, int M, int N, int K)
{
    if (rows_aligned(A, K) && rows_aligned(B, N)) {
        multiply<true>(A, B, C, M, N, K);
    } else {
        multiply<false>(A, B, C, M, N, K);
    }
}
