// Short K on Tensor Cores: no ring and no slices, rows that start anywhere.
//
// New since 19_mma_pieces.cu: where rows have an odd number of elements, each element
// goes by way of a register to its own place, so nothing is straightened; a tile is
// fetched while the one before is multiplied, and with a short K there is only one.
// C leaves by four bytes or more, also where its rows start at odd elements.
//
// A is M x K, B is K x N, C is M x N of 2-byte elements, all row-major.
// Block: BM/WM * BN/WN warps. Grid: cdiv(M, BM) * cdiv(N, BN). From sm_80 on.

#include "common/any_rows.cuh"
#include "common/ldmatrix.cuh"
#include "common/mma.cuh"
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
#define BK 32  // steps of k between barriers
#endif
#ifndef WM
#define WM 32  // rows of C a warp
#endif
#ifndef WN
#define WN 32  // columns of C a warp
#endif
#ifndef GROUP_M
#define GROUP_M 8  // tile rows of C that are walked together
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 4  // blocks that an SM must hold: limits a thread's registers
#endif

using T = ELEMENT;

constexpr int MMA_K = 16;
constexpr int WARPS_N = BN / WN;
constexpr int THREADS = BM / WM * WARPS_N * 32;
constexpr int M_TILES = WM / MMA_M;  // accumulators of a warp, down
constexpr int N_TILES = WN / MMA_N;  // and across

using TileOfA = AnyRows<T, BM, BK, THREADS>;
using TileOfB = AnyRows<T, BK, BN, THREADS>;
constexpr int SLOT = TileOfA::SIZE + TileOfB::SIZE;  // elements: a tile of each
constexpr int C_LD = BN + CHUNK;  // keeps rows of C in shared memory in other banks

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles must cover the block tile");
static_assert(WM % 16 == 0 && WN % 16 == 0,
              "a warp tile is made of 16 x 16 pieces");
static_assert(BK % 16 == 0, "an instruction takes 16 values of k");
static_assert(WM * WN <= 4096,
              "a lane keeps WM * WN / 32 accumulators in registers: 128 at most");
static_assert(THREADS <= 1024, "a block holds at most 1024 threads");
static_assert(even_elements<BM, BK, THREADS> && even_elements<BK, BN, THREADS>,
              "every thread copies the same number of elements, whole rows at a time");
static_assert(BM * C_LD <= 2 * SLOT, "the tile of C fits where those of A and B were");
static_assert(2 * SLOT * 2 <= 48 * 1024,
              "arrays that a kernel declares with their sizes may have 48 KB");

// sum += a tile of A times a tile of B, up to `depth` steps of k.
__device__ __forceinline__ void multiply(float (&sum)[M_TILES][N_TILES][4],
                                         const T* A_tile, const T* B_tile, int depth)
{
    const int lane = threadIdx.x % 32;
    const T* a_lane = A_tile + lane % 16 * TileOfA::LD + lane / 16 * 8;
    const T* b_lane = B_tile + lane % 16 * TileOfB::LD + lane / 16 * 8;
    #pragma unroll
    for (int k = 0; k < BK; k += MMA_K) {
        if (k >= depth) break;
        unsigned a_frag[M_TILES][4];
        unsigned b_frag[N_TILES / 2][4];  // two fragments of B each
        // Shared to registers: what 16 steps of k need.
        #pragma unroll
        for (int i = 0; i < M_TILES; ++i) {
            ldmatrix_x4(a_frag[i], shared_address(a_lane + i * 16 * TileOfA::LD + k));
        }
        #pragma unroll
        for (int j = 0; j < N_TILES / 2; ++j) {
            ldmatrix_x4_trans(b_frag[j],
                              shared_address(b_lane + k * TileOfB::LD + j * 16));
        }
        #pragma unroll
        for (int i = 0; i < M_TILES; ++i) {
            #pragma unroll
            for (int j = 0; j < N_TILES; ++j) {
                mma_m16n8k16<T>(sum[i][j], a_frag[i], &b_frag[j / 2][j % 2 * 2]);
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
mma_short(const T* A, const T* B, T* C, int M, int N, int K)
{
    __shared__ __align__(16) T tiles[2 * SLOT];

    const TileIndex tile =
        tile_at<GROUP_M>(blockIdx.x, (M + BM - 1) / BM, (N + BN - 1) / BN);
    const int m0 = tile.row * BM;
    const int n0 = tile.col * BN;
    const int warp = threadIdx.x / 32;
    const int warp_m = warp / WARPS_N * WM;  // the warp's tile inside the block's
    const int warp_n = warp % WARPS_N * WN;

    TileOfA of_A(A, K, m0, 0, M, K);
    TileOfB of_B(B, N, 0, n0, K, N);
    float sum[M_TILES][N_TILES][4] = {};
    T* slot = tiles;
    T* other = tiles + SLOT;
    // Global to registers, or to shared: the first tiles.
    of_A.fetch(slot);
    of_B.fetch(slot + TileOfA::SIZE);
    for (int k0 = 0; k0 < K; k0 += BK) {
        // Registers to shared.
        of_A.put(slot);
        of_B.put(slot + TileOfA::SIZE);
        commit_group();
        wait_groups<0>();
        __syncthreads();  // the tiles are complete, and everyone has read the others
        if (k0 + BK < K) {
            of_A.right(BK);
            of_B.down(BK);
            of_A.fetch(other);
            of_B.fetch(other + TileOfA::SIZE);
        }
        multiply(sum, slot + warp_m * TileOfA::LD, slot + TileOfA::SIZE + warp_n,
                 K - k0);
        T* const read = slot;
        slot = other;
        other = read;
    }
    __syncthreads();  // everyone has read the last tiles

    // Registers to shared: the tile of C.
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int i = 0; i < M_TILES; ++i) {
        #pragma unroll
        for (int j = 0; j < N_TILES; ++j) {
            T* to = tiles + (warp_m + i * MMA_M + lane / 4) * C_LD + warp_n +
                    j * MMA_N + lane % 4 * 2;
            const float* four = sum[i][j];
            *reinterpret_cast<unsigned*>(to) = rounded(four[0], four[1], T());
            *reinterpret_cast<unsigned*>(to + 8 * C_LD) =
                rounded(four[2], four[3], T());
        }
    }
    __syncthreads();  // the tile is complete
    store_any_rows<BN, C_LD, THREADS>(C, tiles, N, m0, n0, min(BM, M - m0), N - n0);
}
