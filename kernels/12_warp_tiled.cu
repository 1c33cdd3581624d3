// Warp tiling: a third level between the block's tile and the thread's.
//
// Each block computes a BM x BN tile of C, each warp a WM x WN part of it, each
// thread TM x TN elements of that, in 4 x 4 pieces that are LANES_M * 4 rows and
// LANES_N * 4 columns apart. A warp then reads only WM + WN floats of shared
// memory for each k, every 16-byte read is free of bank conflicts, and neighbouring
// lanes share what they read.
// New since double_buffer: the warp's tile and its lane map.
//
// A is (M, K), B is (K, N), C is (M, N), all row-major; any M, N, K >= 1.
// A_tile is 2 x (BK, BM + PAD), transposed; B_tile is 2 x (BK, BN).
#ifndef BM
#define BM 128
#endif
#ifndef BN
#define BN 256
#endif
#ifndef BK
#define BK 8
#endif
#ifndef WM
#define WM 64
#endif
#ifndef WN
#define WN 64
#endif
#ifndef TM
#define TM 16
#endif
#ifndef TN
#define TN 8
#endif
#ifndef MIN_BLOCKS
#define MIN_BLOCKS 1  // blocks an SM should hold: caps the registers of a thread
#endif

constexpr int WARP = 32;
constexpr int VEC = 4;     // floats in a 16-byte access
constexpr int SECTOR = 8;  // floats in a 32-byte sector
constexpr int WARPS_N = BN / WN;
constexpr int THREADS = (BM / WM) * WARPS_N * WARP;
constexpr int LANES_M = WM / TM;  // a warp is LANES_M x LANES_N threads
constexpr int LANES_N = WN / TN;

// A warp copies SECTOR k of four rows of A. In shared memory these are SECTOR rows of
// BM + PAD floats, so that the 32 stores fall into 32 different banks.
constexpr int PAD = 4;
constexpr int LD_A = BM + PAD;
constexpr int A_ROWS = THREADS / SECTOR;  // rows of A that one pass of the block copies
constexpr int A_PASSES = BM / A_ROWS;
constexpr int A_SECTORS = BK / SECTOR;

static_assert(BM % WM == 0 && BN % WN == 0, "whole warp tiles must fill the block's tile");
static_assert(WM % TM == 0 && WN % TN == 0 && LANES_M * LANES_N == WARP,
              "32 thread tiles must fill the warp's tile");
static_assert(TM % VEC == 0 && TN % VEC == 0, "fragments are read four floats at a time");
static_assert(LANES_N % 2 == 0, "lanes are paired along N");
static_assert(BK % SECTOR == 0, "A is copied in sectors of eight floats");
static_assert(BM % A_ROWS == 0, "every thread copies the same number of rows of A");

// Four floats of shared memory into four registers.
__device__ __forceinline__ void load4(float* frag, const float* shared) {
    const float4 v = *reinterpret_cast<const float4*>(shared);
    frag[0] = v.x, frag[1] = v.y, frag[2] = v.z, frag[3] = v.w;
}

// WIDTH: floats in one access to a row of B or C, 4 where rows start on 16 bytes, else 1.
template <int WIDTH>
__device__ __forceinline__ void block_tile(const float* A, const float* B, float* C, int M, int N,
                                           int K, int m0, int n0, float* A_tile, float* B_tile) {
    constexpr int B_THREADS = BN / WIDTH < THREADS ? BN / WIDTH : THREADS;  // along a row of B
    constexpr int B_SEGMENTS = BN / WIDTH / B_THREADS;
    constexpr int B_ROWS = THREADS / B_THREADS;  // rows of B that one pass copies
    constexpr int B_PASSES = BK / B_ROWS;
    static_assert(THREADS % B_THREADS == 0 && BN % (WIDTH * B_THREADS) == 0 && BK % B_ROWS == 0,
                  "every thread copies the same part of B");

    // What this thread copies: one float of A and WIDTH floats of B a pass. Rows and columns
    // beyond the edge are clamped to the last one: what they give is never stored.
    const int a_k = threadIdx.x % SECTOR, a_m = threadIdx.x / SECTOR;
    const int b_k = threadIdx.x / B_THREADS, b_n = threadIdx.x % B_THREADS * WIDTH;
    const float* a_from[A_PASSES];
    const float* b_from[B_SEGMENTS];
    float a_next[A_PASSES][A_SECTORS], b_next[B_PASSES][B_SEGMENTS][WIDTH];
#pragma unroll
    for (int p = 0; p < A_PASSES; ++p)
        a_from[p] = A + size_t(min(m0 + a_m + p * A_ROWS, M - 1)) * K + a_k;
#pragma unroll
    for (int s = 0; s < B_SEGMENTS; ++s)
        b_from[s] = B + size_t(b_k) * N + min(n0 + b_n + s * B_THREADS * WIDTH, N - WIDTH);

    // Global memory to registers: the next k_end steps of K, zeros for the rest of the BK.
    auto fetch = [&](int k_end) {
#pragma unroll
        for (int p = 0; p < A_PASSES; ++p) {
#pragma unroll
            for (int s = 0; s < A_SECTORS; ++s)
                a_next[p][s] = a_k + s * SECTOR < k_end ? a_from[p][s * SECTOR] : 0.0f;
            a_from[p] += k_end;
        }
#pragma unroll
        for (int s = 0; s < B_SEGMENTS; ++s) {
            const float* from = b_from[s];
#pragma unroll
            for (int p = 0; p < B_PASSES; ++p) {
                const bool inside = b_k + p * B_ROWS < k_end;
                if (WIDTH == VEC) {
                    float4 v = {0.0f, 0.0f, 0.0f, 0.0f};
                    if (inside) v = *reinterpret_cast<const float4*>(from);
                    *reinterpret_cast<float4*>(b_next[p][s]) = v;
                } else {
                    b_next[p][s][0] = inside ? *from : 0.0f;
                }
                from += size_t(B_ROWS) * N;
            }
            b_from[s] += size_t(k_end) * N;
        }
    };
    // Registers to shared memory; A is transposed on the way.
    auto stage = [&](int buffer) {
#pragma unroll
        for (int p = 0; p < A_PASSES; ++p)
#pragma unroll
            for (int s = 0; s < A_SECTORS; ++s)
                A_tile[(buffer * BK + a_k + s * SECTOR) * LD_A + a_m + p * A_ROWS] = a_next[p][s];
#pragma unroll
        for (int s = 0; s < B_SEGMENTS; ++s)
#pragma unroll
            for (int p = 0; p < B_PASSES; ++p) {
                const int k = buffer * BK + b_k + p * B_ROWS;
                float* to = B_tile + k * BN + b_n + s * B_THREADS * WIDTH;
                if (WIDTH == VEC)
                    *reinterpret_cast<float4*>(to) = *reinterpret_cast<float4*>(b_next[p][s]);
                else
                    *to = b_next[p][s][0];
            }
    };

    // The lane map. Lane bits 1.. pick the row, bit 0 and the rest the column: of eight lanes
    // that are served together, neighbours share rows and every second one shares columns.
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    const int lane_m = lane / 2 % LANES_M, lane_n = lane / (2 * LANES_M) * 2 + lane % 2;
    const int m_warp = warp / WARPS_N * WM + lane_m * VEC;
    const int n_warp = warp % WARPS_N * WN + lane_n * VEC;
    float acc[TM][TN] = {}, a_frag[2][TM], b_frag[2][TN];

    // Shared memory to fragment k % 2.
    auto load_fragments = [&](int buffer, int k) {
#pragma unroll
        for (int i = 0; i < TM; i += VEC)
            load4(a_frag[k % 2] + i, A_tile + (buffer * BK + k) * LD_A + m_warp + i * LANES_M);
#pragma unroll
        for (int j = 0; j < TN; j += VEC)
            load4(b_frag[k % 2] + j, B_tile + (buffer * BK + k) * BN + n_warp + j * LANES_N);
    };

    // The ragged tile of K comes first; every later tile is whole.
    const int tiles_k = (K + BK - 1) / BK;
    fetch(K - (tiles_k - 1) * BK);
    stage(0);
    __syncthreads();
    load_fragments(0, 0);

    for (int t = 0; t < tiles_k; ++t) {
        const int buffer = t % 2;
        const bool more = t + 1 < tiles_k;
        fetch(more ? BK : 0);  // in flight during the multiply-adds below
#pragma unroll
        for (int k = 0; k < BK; ++k) {
            if (k < BK - 1) {
                load_fragments(buffer, k + 1);
            } else {
                stage(buffer ^ 1);
                __syncthreads();
                load_fragments(buffer ^ 1, 0);
            }
#pragma unroll
            for (int i = 0; i < TM; ++i)
#pragma unroll
                for (int jj = 0; jj < TN; ++jj) {
                    const int j = i % 2 ? TN - 1 - jj : jj;
                    acc[i][j] += a_frag[k % 2][i] * b_frag[k % 2][j];
                }
        }
    }

    // Registers to C, four columns at a time where rows of C allow it.
#pragma unroll
    for (int i = 0; i < TM; ++i) {
        const int m = m0 + m_warp + i / VEC * LANES_M * VEC + i % VEC;
        if (m >= M) continue;
#pragma unroll
        for (int j = 0; j < TN; j += VEC) {
            const int n = n0 + n_warp + j * LANES_N;
            float* to = C + size_t(m) * N + n;
            if (WIDTH == VEC) {
                if (n < N)
                    *reinterpret_cast<float4*>(to) =
                        make_float4(acc[i][j] + 0.0f, acc[i][j + 1] + 0.0f, acc[i][j + 2] + 0.0f, acc[i][j + 3] + 0.0f);
            } else {
#pragma unroll
                for (int v = 0; v < VEC; ++v)
                    if (n + v < N) to[v] = acc[i][j + v];
            }
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
    warp_tiled(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float4 A_shared[2 * BK * LD_A / VEC], B_shared[2 * BK * BN / VEC];
    float* A_tile = reinterpret_cast<float*>(A_shared);
    float* B_tile = reinterpret_cast<float*>(B_shared);

    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const bool aligned =
        N % VEC == 0 && (reinterpret_cast<size_t>(B) | reinterpret_cast<size_t>(C)) % 16 == 0;
    if (aligned)
        block_tile<VEC>(A, B, C, M, N, K, m0, n0, A_tile, B_tile);
    else
        block_tile<1>(A, B, C, M, N, K, m0, n0, A_tile, B_tile);
}
