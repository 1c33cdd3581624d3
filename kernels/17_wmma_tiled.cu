// WMMA fed from shared memory, with the next tiles fetched while these are
// multiplied.
//
// New since 17_wmma.cu: a block copies a BM x BK tile of A and a BK x BN tile of B
// to shared memory once for all its warps, and a warp multiplies WM x WN of C from
// them: with 64 x 64, a fragment is used four times. Rows are padded by PAD
// elements, so that the eight rows that a fragment load takes at a time start in
// different banks. Shared memory holds two tiles of A and of B, and registers a
// third: while one is multiplied, the next goes from registers to the other buffer,
// and the one after that is fetched. Fragments are read one step ahead.
//
// A is M x K, B is K x N of 2-byte elements, C is M x N of floats, all row-major.
// Block: BM/WM * BN/WN warps. Grid: cdiv(N, BN) x cdiv(M, BM).
// Dynamic shared memory: 2 * (BM * (BK + PAD) + BK * (BN + PAD)) * 2 bytes.

#include <mma.h>

#include "common/chunks.cuh"

#ifndef ELEMENT
#define ELEMENT __half  // element type of A and B: __half, or __nv_bfloat16 from sm_80 on
#endif
#ifndef BM
#define BM 128  // rows of C of a block
#endif
#ifndef BN
#define BN 256  // columns of C of a block
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
#ifndef PAD
#define PAD 8  // elements added to each row in shared memory
#endif

using namespace nvcuda;
using T = ELEMENT;

constexpr int FRAG = 16;  // edge of a fragment
constexpr int WARPS_N = BN / WN;
constexpr int WARPS = BM / WM * WARPS_N;
constexpr int THREADS = WARPS * 32;
constexpr int M_TILES = WM / FRAG;  // fragments of a warp's tile of C, down
constexpr int N_TILES = WN / FRAG;  // and across
constexpr int STEPS = BK / FRAG;    // fragments of k in a tile
constexpr int A_LD = BK + PAD;      // elements from row to row in shared memory
constexpr int B_LD = BN + PAD;
constexpr int BUFFER = BM * A_LD + BK * B_LD;  // elements of one buffer: a tile of A, then of B

static_assert(BM % WM == 0 && BN % WN == 0, "warp tiles must cover the block tile");
static_assert(WM % FRAG == 0 && WN % FRAG == 0, "a warp tile is made of 16 x 16 fragments");
static_assert(BK % (2 * FRAG) == 0, "a tile holds an even number of steps of 16 values of k");
static_assert(PAD % 8 == 0, "a row in shared memory must be a multiple of 16 bytes");
static_assert(WM * WN <= 4096, "a lane keeps WM * WN / 32 accumulators in registers: 128 at most");
static_assert(THREADS <= 1024, "a block holds at most 1024 threads");
static_assert(whole_lines<BK> && whole_lines<BN>, "rows of a tile are 16, 32 or a multiple of 64 elements");
static_assert(even_share<BM, BK, THREADS>, "every thread copies the same number of chunks of A");
static_assert(even_share<BK, BN, THREADS>, "every thread copies the same number of chunks of B");
static_assert(2 * BUFFER * 2 <= 227 * 1024, "no block has more than 227 KB of shared memory");
static_assert(WARPS * FRAG * FRAG * 4 <= 2 * BUFFER * 2, "a fragment of C a warp fits in the buffers");

using AFragment = wmma::fragment<wmma::matrix_a, FRAG, FRAG, FRAG, T, wmma::row_major>;
using BFragment = wmma::fragment<wmma::matrix_b, FRAG, FRAG, FRAG, T, wmma::row_major>;
using CFragment = wmma::fragment<wmma::accumulator, FRAG, FRAG, FRAG, float>;

// Two buffers, each with a tile of A and, behind it, a tile of B.
extern __shared__ __align__(128) T buffers[];

// Shared to registers: a column of fragments of A and a row of fragments of B.
__device__ __forceinline__ void load_fragments(AFragment (&a_frag)[M_TILES], BFragment (&b_frag)[N_TILES],
                                               const T* buffer, int warp_m, int warp_n, int k) {
    const T* A_tile = buffer;
    const T* B_tile = buffer + BM * A_LD;
    #pragma unroll
    for (int i = 0; i < M_TILES; ++i) {
        wmma::load_matrix_sync(a_frag[i], &A_tile[(warp_m + i * FRAG) * A_LD + k], A_LD);
    }
    #pragma unroll
    for (int j = 0; j < N_TILES; ++j) {
        wmma::load_matrix_sync(b_frag[j], &B_tile[k * B_LD + warp_n + j * FRAG], B_LD);
    }
}

// Every fragment of A meets every fragment of B.
__device__ __forceinline__ void multiply(CFragment (&c_frag)[M_TILES][N_TILES],
                                         const AFragment (&a_frag)[M_TILES],
                                         const BFragment (&b_frag)[N_TILES]) {
    #pragma unroll
    for (int i = 0; i < M_TILES; ++i) {
        #pragma unroll
        for (int j = 0; j < N_TILES; ++j) {
            wmma::mma_sync(c_frag[i][j], a_frag[i], b_frag[j], c_frag[i][j]);
        }
    }
}

// The main loop where rows are aligned.
__device__ __forceinline__ void accumulate(CFragment (&c_frag)[M_TILES][N_TILES], const T* A, const T* B,
                                           int M, int N, int K, int m0, int n0, int warp_m, int warp_n)
{
    // The first tiles go to buffer 0, the second ones stay in registers.
    uint4 A_chunk[Share<BM, BK, THREADS>::COUNT];
    uint4 B_chunk[Share<BK, BN, THREADS>::COUNT];
    load_chunks<BM, BK, THREADS>(A_chunk, A, M, K, m0, 0);
    load_chunks<BK, BN, THREADS>(B_chunk, B, K, N, 0, n0);
    store_chunks<BM, BK, THREADS, row_major<A_LD>>(buffers, A_chunk);
    store_chunks<BK, BN, THREADS, row_major<B_LD>>(buffers + BM * A_LD, B_chunk);
    load_chunks<BM, BK, THREADS>(A_chunk, A, M, K, m0, BK);
    load_chunks<BK, BN, THREADS>(B_chunk, B, K, N, BK, n0);
    __syncthreads();

    T* read = buffers;  // the buffer that is multiplied; the other one is filled
    T* write = buffers + BUFFER;
    AFragment a_frag[2][M_TILES];
    BFragment b_frag[2][N_TILES];
    load_fragments(a_frag[0], b_frag[0], read, warp_m, warp_n, 0);

    for (int k0 = 0; k0 < K; k0 += BK) {
        #pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            const bool last = step == STEPS - 1;
            if (last) {
                __syncthreads();  // the next tiles are complete, and these are in registers
            }
            load_fragments(a_frag[(step + 1) % 2], b_frag[(step + 1) % 2], last ? write : read, warp_m,
                           warp_n, last ? 0 : (step + 1) * FRAG);
            multiply(c_frag, a_frag[step % 2], b_frag[step % 2]);
            if (step == 0) {
                // Registers to shared: the next tiles, to the buffer that nobody
                // reads. Global to registers: the tiles after them (zeros behind
                // the last).
                store_chunks<BM, BK, THREADS, row_major<A_LD>>(write, A_chunk);
                store_chunks<BK, BN, THREADS, row_major<B_LD>>(write + BM * A_LD, B_chunk);
                load_chunks<BM, BK, THREADS>(A_chunk, A, M, K, m0, k0 + 2 * BK);
                load_chunks<BK, BN, THREADS>(B_chunk, B, K, N, k0 + 2 * BK, n0);
            }
        }
        T* next = write;
        write = read;
        read = next;
    }
}

// The main loop where they are not: tiles are gathered element by element.
__device__ __forceinline__ void accumulate_ragged(CFragment (&c_frag)[M_TILES][N_TILES], const T* A,
                                                  const T* B, int M, int N, int K, int m0, int n0,
                                                  int warp_m, int warp_n)
{
    int buffer = 0;
    for (int k0 = 0; k0 < K; k0 += BK) {
        T* tiles = buffers + buffer;
        gather_tile<BM, BK, THREADS, row_major<A_LD>>(tiles, A, M, K, m0, k0);
        gather_tile<BK, BN, THREADS, row_major<B_LD>>(tiles + BM * A_LD, B, K, N, k0, n0);
        __syncthreads();  // the tiles are complete, and everyone has read the other buffer
        #pragma unroll
        for (int k = 0; k < BK; k += FRAG) {
            AFragment a_frag[M_TILES];
            BFragment b_frag[N_TILES];
            load_fragments(a_frag, b_frag, tiles, warp_m, warp_n, k);
            multiply(c_frag, a_frag, b_frag);
        }
        buffer = BUFFER - buffer;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS)
wmma_tiled(const T* A, const T* B, float* C, int M, int N, int K)
{
    const int m0 = blockIdx.y * BM;
    const int n0 = blockIdx.x * BN;
    const int warp = threadIdx.x / 32;
    const int warp_m = warp / WARPS_N * WM;  // the warp's tile inside the block's
    const int warp_n = warp % WARPS_N * WN;

    CFragment c_frag[M_TILES][N_TILES];
    #pragma unroll
    for (int i = 0; i < M_TILES; ++i) {
        #pragma unroll
        for (int j = 0; j < N_TILES; ++j) {
            wmma::fill_fragment(c_frag[i][j], 0.0f);
        }
    }
    if (rows_aligned(A, K) && rows_aligned(B, N)) {
        accumulate(c_frag, A, B, M, N, K, m0, n0, warp_m, warp_n);
    } else {
        accumulate_ragged(c_frag, A, B, M, N, K, m0, n0, warp_m, warp_n);
    }

    // Registers to global. A fragment that C holds whole, in rows that wmma can
    // address (multiples of 16 bytes from a multiple of 32), is stored at once;
    // others pass through shared memory.
    __syncthreads();  // everyone has read the tiles
    const bool direct = N % 4 == 0 && reinterpret_cast<size_t>(C) % 32 == 0;
    float* staged = reinterpret_cast<float*>(buffers) + warp * FRAG * FRAG;
    #pragma unroll
    for (int i = 0; i < M_TILES; ++i) {
        #pragma unroll
        for (int j = 0; j < N_TILES; ++j) {
            const int row = m0 + warp_m + i * FRAG;
            const int col = n0 + warp_n + j * FRAG;
            if (direct && row + FRAG <= M && col + FRAG <= N) {
                wmma::store_matrix_sync(C + size_t(row) * N + col, c_frag[i][j], N,
                                        wmma::mem_row_major);
            } else {
                wmma::store_matrix_sync(staged, c_frag[i][j], FRAG, wmma::mem_row_major);
                __syncwarp();
                for (int e = threadIdx.x % 32; e < FRAG * FRAG; e += 32) {
                    if (row + e / FRAG < M && col + e % FRAG < N) {
                        C[size_t(row + e / FRAG) * N + col + e % FRAG] = staged[e];
                    }
                }
                __syncwarp();
            }
        }
    }
}
