// Few rows of A: read B once, 16 bytes a lane, and keep every sum in registers.
//
// New since 16_sliced.cu: no tile of B. An element of B meets ROWS elements of A
// and is not needed again, so it goes from global memory to registers. A warp reads
// 512 bytes of a row of B, AHEAD rows under way; its lanes' columns are their own.
// The warps of a block take every WARPS-th k, the blocks of a tile of C take slices
// of K, and both are added in a fixed order: C is the same to the bit in every run.
//
// A is M x K, B is K x N, C is M x N, all row-major. partial has ROWS * BN floats
// for each slice of each tile of C; arrived has a counter for each tile, zero
// before the launch and after it.
// Block: WARPS warps. Grid: cdiv(M, ROWS) * cdiv(N, BN) * slices, one-dimensional.

#include "common/arrivals.cuh"
#include "common/elements.cuh"

#ifndef ELEMENT
#define ELEMENT float  // of A, B and C; or half, or __nv_bfloat16
#endif
#ifndef ROWS
#define ROWS 1  // rows of A a block: how often it uses an element of B
#endif
#ifndef WARPS
#define WARPS 8  // of a block
#endif
#ifndef AHEAD
#define AHEAD 8  // rows of B that a warp has under way
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 4  // blocks that an SM must hold: limits a thread's registers
#endif

using T = ELEMENT;

constexpr int VEC = 16 / sizeof(T);  // elements in 16 bytes: columns a lane
constexpr int BN = 32 * VEC;         // columns of C a block
constexpr int THREADS = 32 * WARPS;
constexpr int STEP = WARPS * AHEAD;   // rows of B that a block has under way
constexpr int CHUNK = 4 * STEP;       // columns of A in shared memory
constexpr int SECTOR = 8;             // columns of A that lanes copy side by side
constexpr int A_PAD = ROWS < 8 ? 0 : 4;  // keeps stores to A_tile apart
// Rows of sums in shared memory at once: 16 KB of them, or one row.
constexpr int MOST = 4096 / (WARPS * BN) > 1 ? 4096 / (WARPS * BN) : 1;
constexpr int PASS = ROWS < MOST ? ROWS : MOST;

static_assert(16 % ROWS == 0, "rows of A are read from shared memory in fours");
static_assert(ROWS * VEC <= 64, "a lane keeps its sums in registers");
static_assert(WARPS <= 32, "a block holds at most 1024 threads");
static_assert(ROWS % PASS == 0, "sums pass through shared memory in equal parts");
static_assert(4 * (CHUNK * (ROWS + A_PAD) + WARPS * PASS * BN) <= 48 * 1024,
              "a block has 48 KB of static shared memory");
static_assert(CHUNK % SECTOR == 0, "lanes copy whole sectors of A");

// In shared memory: A transposed, so that a row holds one k; sums of each warp.
using Tile = float[CHUNK][ROWS + A_PAD];
using Parts = float[WARPS][PASS][BN];

// sum += rows m0 ... of A times columns n0 ... of B, over every WARPS-th k of
// [begin, end). WIDTH: elements to a read of B, VEC where its rows start on 16
// bytes, else 1.
template <int WIDTH>
__device__ void multiply(float (&sum)[ROWS][VEC], Tile& A_tile, const T* A,
                         const T* B, int M, int N, int K, int m0, int n0, int begin,
                         int end)
{
    const int warp = threadIdx.x / 32;
    const int col = n0 + threadIdx.x % 32 * WIDTH;

    // Global to registers: the next row of B for this warp.
    int b_row = begin + warp;
    const T* B_src = B + size_t(b_row) * N + col;
    const auto read = [&](Fragment<T, WIDTH>& b) {
        b.read(B_src, b_row < end ? N - col : 0);
        b_row += WARPS;
        B_src += size_t(WARPS) * N;
    };

    Fragment<T, WIDTH> b_frag[AHEAD];
    #pragma unroll
    for (int u = 0; u < AHEAD; ++u) {
        read(b_frag[u]);
    }

    for (int k0 = begin; k0 < end; k0 += CHUNK) {
        __syncthreads();  // everyone has read the chunk before
        // Global to shared: a chunk of A, with zeros outside the matrix.
        #pragma unroll 4
        for (int i = threadIdx.x; i < ROWS * CHUNK; i += THREADS) {
            const int row = i / SECTOR % ROWS;
            const int k = i / (SECTOR * ROWS) * SECTOR + i % SECTOR;
            const bool inside = m0 + row < M && k0 + k < end;
            const T* A_src = A + size_t(m0 + row) * K + k0 + k;
            A_tile[k][row] = inside ? float(*A_src) : 0.0f;
        }
        __syncthreads();  // the chunk is complete

        const int depth = min(CHUNK, end - k0);
        #pragma unroll 1
        for (int k = warp; k < depth; k += STEP) {
            #pragma unroll
            for (int u = 0; u < AHEAD; ++u) {
                // Shared to registers: one k of A, the same to all lanes.
                const float* a_frag = A_tile[k + u * WARPS];
                #pragma unroll
                for (int i = 0; i < ROWS; ++i) {
                    #pragma unroll
                    for (int j = 0; j < VEC; ++j) {
                        sum[i][j] += a_frag[i] * b_frag[u][j];
                    }
                }
                read(b_frag[u]);  // in the place of the row just used
            }
        }
    }
}

// The sums of the block's warps, added in their order; put(row, column, sum) is
// called once for each element of the tile. Lane l's sum j is of column
// l * apart + j * next.
template <typename Put>
__device__ void add_warps(const float (&sum)[ROWS][VEC], Parts& parts, int apart,
                          int next, Put put)
{
    const int warp = threadIdx.x / 32;
    const int lane = threadIdx.x % 32;
    #pragma unroll
    for (int i0 = 0; i0 < ROWS; i0 += PASS) {
        __syncthreads();  // everyone has read the rows before
        #pragma unroll
        for (int i = 0; i < PASS; ++i) {
            #pragma unroll
            for (int j = 0; j < VEC; ++j) {
                parts[warp][i][lane * apart + j * next] = sum[i0 + i][j];
            }
        }
        __syncthreads();  // the sums of all warps are there
        #pragma unroll 1
        for (int e = threadIdx.x; e < PASS * BN; e += THREADS) {
            float total = 0.0f;
            for (int w = 0; w < WARPS; ++w) {
                total += parts[w][e / BN][e % BN];
            }
            put(i0 + e / BN, e % BN, total);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
thin_rows(const T* A, const T* B, T* C, int M, int N, int K, int slices,
          float* partial, int* arrived)
{
    __shared__ __align__(16) Tile A_tile;
    __shared__ __align__(16) Parts parts;

    // Neighbouring blocks read neighbouring columns of B; the tiles of C that need
    // the same ones come first.
    const int tiles_m = (M + ROWS - 1) / ROWS;
    const int tiles = tiles_m * ((N + BN - 1) / BN);
    const int tile = blockIdx.x % tiles;
    const int slice = blockIdx.x / tiles;
    const int m0 = tile % tiles_m * ROWS;
    const int n0 = tile / tiles_m * BN;
    const int begin = size_t(K) * slice / slices;
    const int end = size_t(K) * (slice + 1) / slices;

    float sum[ROWS][VEC] = {};
    const bool whole = whole_rows(B, N);
    if (whole) {
        multiply<VEC>(sum, A_tile, A, B, M, N, K, m0, n0, begin, end);
    } else {
        multiply<1>(sum, A_tile, A, B, M, N, K, m0, n0, begin, end);
    }
    int apart = whole ? VEC : 1;  // columns from a lane to the next
    int next = whole ? 1 : 32;    // and from one of its columns to the next

    if (slices > 1) {
        partial += size_t(tile) * slices * ROWS * BN;
        float* own = partial + size_t(slice) * ROWS * BN;
        // Registers to global: the sums of this slice.
        add_warps(sum, parts, apart, next, [&](int row, int col, float total) {
            __stcg(own + row * BN + col, total);
        });
        if (!last_to_arrive(arrived + tile, slices)) return;

        // Global to registers: as the warps took every WARPS-th k, so now every
        // WARPS-th slice.
        apart = 1, next = 32;
        #pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            #pragma unroll
            for (int j = 0; j < VEC; ++j) {
                sum[i][j] = 0.0f;
            }
        }
        for (int s = threadIdx.x / 32; s < slices; s += WARPS) {
            const float* from = partial + size_t(s) * ROWS * BN + threadIdx.x % 32;
            #pragma unroll
            for (int i = 0; i < ROWS; ++i) {
                #pragma unroll
                for (int j = 0; j < VEC; ++j) {
                    sum[i][j] += __ldcg(from + i * BN + j * 32);
                }
            }
        }
    }

    // Registers to global: C.
    add_warps(sum, parts, apart, next, [&](int row, int col, float total) {
        if (m0 + row < M && n0 + col < N) {
            C[size_t(m0 + row) * N + n0 + col] = T(total);
        }
    });
}
