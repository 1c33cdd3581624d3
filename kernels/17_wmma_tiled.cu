// WMMA fed from shared memory, with the next tiles fetched while these are
// multiplied.
//
// New since 17_wmma_shared.cu: rows are padded by PAD elements, so that the eight
// rows that a fragment load takes at a time start in different banks. Shared memory
// holds two tiles of A and of B, and registers a third: while one is multiplied,
// the next goes from registers to the other buffer, and the one after that is
// fetched. Fragments are read one step ahead.
//
// A is M x K, B is K x N of 2-byte elements, C is M x N of floats, all row-major.
// Block: BM/WM * BN/WN warps. Grid: cdiv(N, BN) x cdiv(M, BM).
// Dynamic shared memory: 2 * (BM * (BK + PAD) + BK * (BN + PAD)) * 2 bytes.

#include "common/chunks.cuh"
#include "common/wmma_store.cuh"

#ifndef ELEMENT
#define ELEMENT __half  // of A and B: __half, or __nv_bfloat16 from sm_80 on
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
#ifndef PAD
#define PAD 8  // elements added to each row in shared memory
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
constexpr int STEPS = BK / FRAG;    // fragments of k in a tile
constexpr int A_LD = BK + PAD;      // elements from row to row in shared memory
constexpr int B_LD = BN + PAD;

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles must cover the block tile");
static_assert(
    WM % FRAG == 0 && WN % FRAG == 0 && BK % (2 * FRAG) == 0,
    "tiles are made of 16 x 16 fragments, an even number of them along k");
static_assert(PAD % 8 == 0,
              "a row in shared memory must be a multiple of 16 bytes");
static_assert(WM * WN <= 4096, "a lane keeps WM * WN / 32 sums, 128 at most");
static_assert(THREADS <= 1024, "a block holds at most 1024 threads");
static_assert(whole_lines<BK> && whole_lines<BN>,
              "rows of a tile are 16, 32 or a multiple of 64 elements");
static_assert(even_share<BM, BK, THREADS> && even_share<BK, BN, THREADS>,
              "every thread copies the same number of chunks of A, and of B");
static_assert(WARPS * FRAG * FRAG * 4 <= 4 * (BM * A_LD + BK * B_LD),
              "a fragment of C a warp fits in the buffers");
static_assert(4 * (BM * A_LD + BK * B_LD) <= 227 * 1024,
              "no block has more than 227 KB of shared memory");

// One buffer: a tile of A and a tile of B. There are two.
struct Buffer {
    T A_tile[BM][A_LD];
    T B_tile[BK][B_LD];
};
extern __shared__ __align__(128) Buffer buffers[];

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
    const auto put_down = [&](Buffer& to, int k0) {
        if constexpr (ALIGNED) {
            store_chunks<BM, BK, THREADS, row_major<A_LD>>(to.A_tile[0], a_next);
            store_chunks<BK, BN, THREADS, row_major<B_LD>>(to.B_tile[0], b_next);
        } else {
            gather_tile<BM, BK, THREADS, row_major<A_LD>>(to.A_tile[0], A, M, K, m0,
                                                          k0);
            gather_tile<BK, BN, THREADS, row_major<B_LD>>(to.B_tile[0], B, K, N, k0,
                                                          n0);
        }
    };

    // Shared to registers: a column of fragments of A, a row of fragments of B.
    AFragment a_frag[2][M_TILES];  // of this step and of the next
    BFragment b_frag[2][N_TILES];
    const auto read_frags = [&](Buffer& from, int step) {
        const int k = step % STEPS * FRAG;
        for (int i = 0; i < M_TILES; ++i) {
            wmma::load_matrix_sync(a_frag[step % 2][i],
                                   &from.A_tile[warp_m + i * FRAG][k], A_LD);
        }
        for (int j = 0; j < N_TILES; ++j) {
            wmma::load_matrix_sync(b_frag[step % 2][j],
                                   &from.B_tile[k][warp_n + j * FRAG], B_LD);
        }
    };

    CFragment c_frag[M_TILES][N_TILES];
    for (int i = 0; i < M_TILES; ++i) {
        for (int j = 0; j < N_TILES; ++j) {
            wmma::fill_fragment(c_frag[i][j], 0.0f);
        }
    }

    // The first tiles go to the first buffer, the second ones stay in registers.
    Buffer* read = buffers;       // the buffer that is multiplied
    Buffer* write = buffers + 1;  // the one that is filled
    load(0);
    put_down(*read, 0);
    load(BK);
    __syncthreads();  // the first buffer is complete
    read_frags(*read, 0);

    for (int k0 = 0; k0 < K; k0 += BK) {
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const bool last = step == STEPS - 1;
            if (last) {
                __syncthreads();  // the next tiles are complete, these in registers
            }
            read_frags(last ? *write : *read, step + 1);

            // Registers only: every fragment of A meets every fragment of B.
            for (int i = 0; i < M_TILES; ++i) {
                for (int j = 0; j < N_TILES; ++j) {
                    wmma::mma_sync(c_frag[i][j], a_frag[step % 2][i],
                                   b_frag[step % 2][j], c_frag[i][j]);
                }
            }
            if (step == 0) {
                put_down(*write, k0 + BK);  // nobody reads that buffer
                load(k0 + 2 * BK);          // zeros behind the last tiles
            }
        }
        Buffer* next = write;
        write = read;
        read = next;
    }

    // Registers to global.
    __syncthreads();  // everyone has read the tiles
    float* staged = reinterpret_cast<float*>(buffers) + warp * FRAG * FRAG;
    #pragma unroll
    for (int i = 0; i < M_TILES; ++i) {
        #pragma unroll
        for (int j = 0; j < N_TILES; ++j) {
            store_fragment(C, M, N, m0 + warp_m + i * FRAG, n0 + warp_n + j * FRAG,
                           c_frag[i][j], staged);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
wmma_tiled(const T* A, const T* B, float* C, int M, int N, int K)
{
    if (rows_aligned(A, K) && rows_aligned(B, N)) {
        multiply<true>(A, B, C, M, N, K);
    } else {
        multiply<false>(A, B, C, M, N, K);
    }
}
