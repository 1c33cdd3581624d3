// Few columns of B: read A once, 16 bytes a lane, and keep every sum in registers.
//
// New since 16_thin_rows.cu: the large matrix is A, and its rows lie along k. So
// the lanes of a warp take neighbouring k of ROWS rows of A, each with COLUMNS sums
// a row, and lanes are added at the end, by shuffles. B is small and every row of A
// needs all of it: a block keeps a chunk of it in shared memory, transposed, where
// neighbouring k of a column are one read. Slices of K as there; all is added in a
// fixed order, so C is the same to the bit in every run.
//
// A is M x K, B is K x N, C is M x N, all row-major. partial has BM * COLUMNS
// floats for each slice of each tile of C; arrived has a counter for each tile,
// zero before the launch and after it.
// Block: WARPS warps. Grid: cdiv(M, BM) * cdiv(N, COLUMNS) * slices,
// one-dimensional.

#include "common/arrivals.cuh"
#include "common/elements.cuh"

#ifndef ELEMENT
#define ELEMENT float  // of A, B and C; or half, or __nv_bfloat16
#endif
#ifndef ROWS
#define ROWS 4  // rows of A a warp: how often it uses an element of B_tile
#endif
#ifndef COLUMNS
#define COLUMNS 4  // columns of B a block: how often it uses an element of A
#endif
#ifndef WARPS
#define WARPS 8  // of a block
#endif
#ifndef AHEAD
#define AHEAD 2  // steps of k for which a warp has its rows of A under way
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 2  // blocks that an SM must hold: limits a thread's registers
#endif

using T = ELEMENT;

constexpr int VEC = 16 / sizeof(T);  // elements in 16 bytes: steps of k a lane
constexpr int STEP = 32 * VEC;       // steps of k a warp
constexpr int STEPS = COLUMNS < 4 ? 16 / COLUMNS : 4;
constexpr int CHUNK = STEPS * STEP;  // rows of B in shared memory
constexpr int TURN = AHEAD * STEP;   // of which a warp has A's elements under way
constexpr int BM = WARPS * ROWS;     // rows of C a block
constexpr int THREADS = 32 * WARPS;
constexpr int SUMS = ROWS * COLUMNS;  // a lane
constexpr int HELD = SUMS > 32 ? SUMS / 32 : 1;  // sums a lane once lanes are added
constexpr int SHARE = SUMS < 32 ? 32 / SUMS : 1;  // lanes that hold the same sum

static_assert(4 % ROWS == 0 && 16 % COLUMNS == 0,
              "sums are halved from lane to lane");
static_assert(WARPS <= 32, "a block holds at most 1024 threads");
static_assert(STEPS % AHEAD == 0, "a chunk is whole turns of what is under way");

static_assert(sizeof(T) * COLUMNS * (CHUNK + VEC) <= 48 * 1024,
              "a block has 48 KB of static shared memory");

// B_tile is transposed: a row holds one column of B. Rows are 16 bytes longer than
// the chunk, which keeps stores to it apart.
using Tile = T[COLUMNS][CHUNK + VEC];

// sum += rows m0 ... of A times columns n0 ... of B, over the k of [begin, end)
// that are this lane's. WIDTH: elements to a read of A, VEC where its rows start on
// 16 bytes, else 1.
template <int WIDTH>
__device__ void multiply(float (&sum)[SUMS], Tile& B_tile, const T* A, const T* B,
                         int M, int N, int K, int m0, int n0, int begin, int end)
{
    const int lane_k = threadIdx.x % 32 * WIDTH;
    const int a_row = m0 + threadIdx.x / 32 * ROWS;

    // Global to registers: the next STEP elements of ROWS rows of A.
    int a_col = begin + lane_k;
    const T* A_src = A + size_t(a_row) * K + a_col;
    const auto read = [&](Fragment<T, WIDTH> (&a)[ROWS]) {
        for (int i = 0; i < ROWS; ++i) {
            a[i].read(A_src + size_t(i) * K, a_row + i < M ? end - a_col : 0);
        }
        a_col += STEP;
        A_src += STEP;
    };

    Fragment<T, WIDTH> a_frag[AHEAD][ROWS];
    #pragma unroll
    for (int u = 0; u < AHEAD; ++u) {
        read(a_frag[u]);
    }

    for (int k0 = begin; k0 < end; k0 += CHUNK) {
        __syncthreads();  // everyone has read the chunk before
        // Global to shared: a chunk of B in whole turns, zeros outside the matrix.
        const int depth = min(CHUNK, (end - k0 + TURN - 1) / TURN * TURN);
        #pragma unroll 4
        for (int i = threadIdx.x; i < depth * COLUMNS; i += THREADS) {
            const int k = i / COLUMNS;
            const int col = i % COLUMNS;
            const bool inside = k0 + k < end && n0 + col < N;
            B_tile[col][k] = inside ? B[size_t(k0 + k) * N + n0 + col] : T(0.0f);
        }
        __syncthreads();  // the chunk is complete

        #pragma unroll 1
        for (int k = 0; k < depth && a_row < M; k += TURN) {
            #pragma unroll
            for (int u = 0; u < AHEAD; ++u) {
                #pragma unroll
                for (int j = 0; j < COLUMNS; ++j) {
                    // Shared to registers: this lane's k of one column of B.
                    Fragment<T, WIDTH> b_frag;
                    b_frag.read_shared(&B_tile[j][k + u * STEP + lane_k]);
                    #pragma unroll
                    for (int i = 0; i < ROWS; ++i) {
                        #pragma unroll
                        for (int v = 0; v < VEC; ++v) {
                            sum[i * COLUMNS + j] += a_frag[u][i][v] * b_frag[v];
                        }
                    }
                }
                read(a_frag[u]);  // in the place of those just used
            }
        }
    }
}

// One step of adding the lanes' sums: of COUNT sums a lane keeps half, those of its
// half of each 2 * APART lanes, and gives the others to the lane APART away. A
// single sum is kept by both.
template <int COUNT, int APART>
__device__ void halve(float (&sum)[SUMS])
{
    if constexpr (COUNT == 1) {
        sum[0] += __shfl_xor_sync(~0u, sum[0], APART);
    } else {
        const bool upper = threadIdx.x & APART;
        #pragma unroll
        for (int i = 0; i < COUNT / 2; ++i) {
            const float kept = upper ? sum[i + COUNT / 2] : sum[i];
            const float given = upper ? sum[i] : sum[i + COUNT / 2];
            sum[i] = kept + __shfl_xor_sync(~0u, given, APART);
        }
    }
    if constexpr (APART > 1) halve<(COUNT > 1 ? COUNT / 2 : 1), APART / 2>(sum);
}

// The sums of the warp's lanes, added: put(number, sum) is called once for each of
// the SUMS.
template <typename Put>
__device__ void add_lanes(float (&sum)[SUMS], Put put)
{
    halve<SUMS, 16>(sum);
    const int lane = threadIdx.x % 32;
    if (lane % SHARE != 0) return;
    #pragma unroll
    for (int i = 0; i < HELD; ++i) {
        put(lane / SHARE * HELD + i, sum[i]);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
thin_columns(const T* A, const T* B, T* C, int M, int N, int K, int slices,
             float* partial, int* arrived)
{
    __shared__ __align__(16) Tile B_tile;

    // Neighbouring blocks read neighbouring rows of A; the tiles of C that need the
    // same ones come first.
    const int tiles_n = (N + COLUMNS - 1) / COLUMNS;
    const int tiles = tiles_n * ((M + BM - 1) / BM);
    const int tile = blockIdx.x % tiles;
    const int slice = blockIdx.x / tiles;
    const int m0 = tile / tiles_n * BM;
    const int n0 = tile % tiles_n * COLUMNS;
    const int steps = (K + STEP - 1) / STEP;
    const int begin = int(size_t(steps) * slice / slices) * STEP;
    const int end = min(K, int(size_t(steps) * (slice + 1) / slices) * STEP);

    float sum[SUMS] = {};
    if (whole_rows(A, K)) {
        multiply<VEC>(sum, B_tile, A, B, M, N, K, m0, n0, begin, end);
    } else {
        multiply<1>(sum, B_tile, A, B, M, N, K, m0, n0, begin, end);
    }

    const int warp = threadIdx.x / 32;
    if (slices > 1) {
        partial += (size_t(tile) * slices * WARPS + warp) * SUMS;
        float* own = partial + size_t(slice) * WARPS * SUMS;
        // Registers to global: the sums of this slice.
        add_lanes(sum, [&](int number, float total) {
            __stcg(own + number, total);
        });
        if (!last_to_arrive(arrived + tile, slices)) return;

        // Global to registers: as the lanes took every 32nd part of k, so now every
        // 32nd slice.
        #pragma unroll
        for (int i = 0; i < SUMS; ++i) {
            sum[i] = 0.0f;
        }
        for (int s = threadIdx.x % 32; s < slices; s += 32) {
            #pragma unroll
            for (int i = 0; i < SUMS; ++i) {
                sum[i] += __ldcg(partial + size_t(s) * WARPS * SUMS + i);
            }
        }
    }

    // Registers to global: C.
    add_lanes(sum, [&](int number, float total) {
        const int row = m0 + warp * ROWS + number / COLUMNS;
        const int col = n0 + number % COLUMNS;
        if (row < M && col < N) C[size_t(row) * N + col] = T(total);
    });
}
