// Hopper, step 5: C leaves through shared memory, by asynchronous copies, while the next tile starts.
//
// A tile's sums are rounded, arranged as boxes in shared memory by stmatrix, and handed to the copy
// engine, which writes whole rows of 128 bytes. Each warp does so for its own 16 rows and waits for
// no other; before it is done writing, the ring holds the first stages of the next tile.
// New since 16_4_cluster.cu: that epilogue, and the walk along k, which turns back at every other
// tile: what the last tile read last is still in L2 when the next one reads it first.
//
// A is M x K, B is K x N, C is M x N, all row-major, of bfloat16 (or half); sums are FP32.
// A_map, B_map describe A and B in boxes of 64 x 64, C_map describes C in boxes of 16 x 64; rows of
// all three start at 16-byte addresses.
// Block: 384 threads. Grid: whole clusters, at most one block an SM.
#include "common/stmatrix.cuh"
#include "common/tile_order.cuh"
#include "common/wgmma.cuh"

#ifndef ELEMENT
#define ELEMENT __nv_bfloat16  // or half
#endif
#ifndef BM
#define BM 128  // rows of C a block
#endif
#ifndef BN
#define BN 256  // columns of C a block
#endif
#ifndef STAGES
#define STAGES 4  // tiles of A and B in the ring
#endif
#ifndef GROUP_M
#define GROUP_M 8  // rows of clusters in a band of the walk
#endif
#ifndef CLUSTER_M
#define CLUSTER_M 2  // blocks of a cluster, one below the other
#endif
#ifndef CLUSTER_N
#define CLUSTER_N 1  // and side by side
#endif
#ifndef C_BUFFERS
#define C_BUFFERS 2  // boxes of C a warp may have on their way
#endif
#ifndef K_TURNS
#define K_TURNS 1
#endif
#ifndef DEFER
#define DEFER 1
#endif
#ifdef PROFILE
#define PROF(...) __VA_ARGS__
#define PROF_ARG , long long* prof
__device__ __forceinline__ long long now() { long long t; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)); return t; }
#else
#define PROF(...)
#define PROF_ARG
#endif

using T = ELEMENT;

constexpr int BK = BOX;  // steps of k a stage: one box
constexpr int CONSUMERS = 2;
constexpr int WM = BM / CONSUMERS;  // rows of C a consumer warpgroup
constexpr int THREADS = (1 + CONSUMERS) * WARPGROUP;
constexpr int PRODUCER_REGISTERS = 40;   // a thread; with the consumers' they must fit in
constexpr int CONSUMER_REGISTERS = 232;  // the 65536 of an SM

constexpr int CLUSTER = CLUSTER_M * CLUSTER_N;
constexpr int PEERS = CLUSTER_M + CLUSTER_N - 1;  // blocks that share a tile with this one, and it
constexpr int A_PART = BM / CLUSTER_N;            // rows of A_tile that this block fetches
constexpr int B_PART = BN / CLUSTER_M;            // columns of B_tile

// A tile of A, BM / 64 boxes one below the other, and one of B, BN / 64 boxes side by side.
struct Stage {
    T A_tile[BM * BK];
    T B_tile[BK * BN];
};

constexpr int C_ROWS = 16;  // rows of C a warp
constexpr int C_BOX = C_ROWS * BOX;

constexpr int C_CHUNKS = WM / MMA_M * (BN / BOX);  // boxes of C a warp

struct Shared {
    Stage ring[STAGES];
    T C_tile[CONSUMERS * WARPGROUP / 32][C_BUFFERS][C_BOX];  // box buffers, a warp's own
};

// The part of C that one consumer warpgroup computes of a tile, in its threads' registers.
using Sums = float[WM / MMA_M][BN / 2];

static_assert(sizeof(T) == 2, "a swizzled row is 64 elements of two bytes");
static_assert(WM % MMA_M == 0, "wgmma takes 64 rows");
static_assert(BN == 128 || BN == 256, "wgmma.cuh holds the shapes n128 and n256");
static_assert(WM / MMA_M * BN <= 256, "the sums of a thread must fit in its registers");
static_assert(STAGES >= 2, "one stage is used while another is filled");
static_assert(A_PART % BOX == 0 && B_PART % BOX == 0, "blocks share a tile in whole boxes");
static_assert(CLUSTER <= 8, "a cluster of more than 8 blocks does not run everywhere");

// This block's place in its cluster, and the blocks that get what it fetches, as bit masks.
struct Place {
    int row, col;
    unsigned short same_row, same_col;

    __device__ __forceinline__ explicit Place(int rank)
        : row(rank / CLUSTER_N),
          col(rank % CLUSTER_N),
          same_row(((1 << CLUSTER_N) - 1) << row * CLUSTER_N),
          same_col(0)
    {
        for (int i = 0; i < CLUSTER_M; ++i) {
            same_col |= 1 << (i * CLUSTER_N + col);
        }
    }
};

// The producer's one thread: this block's part of one step of k, into one stage of every block
// that needs it. The other parts come from those blocks; this block's barrier awaits them all.
__device__ __forceinline__ void fill(Stage& stage, Barrier* full, const TensorMap* A_map,
                                     const TensorMap* B_map, const Place& place, int m0, int n0,
                                     int k0)
{
    barrier_arrive_expect(full, sizeof(Stage));
    for (int i = 0; i < A_PART; i += BOX) {
        const int m = place.col * A_PART + i;
        tma_load_shared<CLUSTER_N>(stage.A_tile + m * BK, A_map, full, m0 + m, k0, place.same_row);
    }
    for (int i = 0; i < B_PART; i += BOX) {
        const int n = place.row * B_PART + i;
        tma_load_shared<CLUSTER_M>(stage.B_tile + n * BK, B_map, full, k0, n0 + n, place.same_col);
    }
}

// A consumer warpgroup: one thread for each peer tells it that this stage may be filled again.
__device__ __forceinline__ void release(Barrier* empty, const Place& place)
{
    const int peer = threadIdx.x % WARPGROUP;
    if (peer < CLUSTER && ((place.same_row | place.same_col) >> peer & 1)) {
        barrier_arrive_remote(empty, peer);
    }
}

// A consumer warpgroup: issues the products of one stage.
__device__ __forceinline__ void multiply(Sums& c_frag, const T* A_rows, const T* B_tile,
                                         bool accumulate)
{
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < BK; k += MMA_K) {
        const auto b = describe_b(B_tile + k * BOX);
#pragma unroll
        for (int i = 0; i < WM / MMA_M; ++i) {
            const auto a = describe_a(A_rows + i * MMA_M * BK + k);
            wgmma<T>(c_frag[i], a, b, accumulate || k > 0);
        }
    }
    wgmma_commit();
}

// A tile of C that is complete, rounded and packed two elements a register, and where it goes.
struct Packed {
    unsigned pairs[WM / MMA_M][BN / 4];
    int m0, n0;
    bool waits = false;  // it has not been stored yet
};

// A consumer warp: registers to shared to global, box `chunk` of its 16 rows.
__device__ __forceinline__ void store(const Packed& c, int chunk, T (&buffers)[C_BUFFERS][C_BOX],
                                      const TensorMap* C_map)
{
    const int lane = threadIdx.x % 32;
    const int row = lane % C_ROWS;  // that this lane's address stands for in stmatrix
    const int warp_row = threadIdx.x % WARPGROUP / 32 * C_ROWS;
    if (lane == 0) {
        tma_store_wait_read<C_BUFFERS - 1>();  // the buffer used C_BUFFERS boxes ago has been read
    }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < C_CHUNKS; ++i) {
        if (i == chunk) {  // registers have no index at run time: one branch for each box
            const unsigned* pairs = c.pairs[i / (BN / BOX)] + i % (BN / BOX) * (BOX / 4);
            T* C_tile = buffers[i % C_BUFFERS];

            // Registers to shared: 16 x 16 elements at a time, swizzled as the copy engine reads.
#pragma unroll
            for (int j = 0; j < BOX / 16; ++j) {
                const unsigned part[4] = {pairs[4 * j], pairs[4 * j + 1], pairs[4 * j + 2],
                                          pairs[4 * j + 3]};
                const int column = (2 * j + lane / C_ROWS) ^ (row % 8);
                stmatrix_x4(C_tile + row * BOX + column * 8, part);
            }
            tma_store_fence();
            __syncwarp();

            // Shared to global: the copy engine leaves out what lies outside C.
            if (lane == 0) {
                tma_store(C_map, C_tile, c.m0 + i / (BN / BOX) * MMA_M + warp_row,
                          c.n0 + i % (BN / BOX) * BOX);
                tma_store_commit();
            }
        }
    }
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(THREADS, 1)
wgmma_store_tma(const __grid_constant__ TensorMap A_map, const __grid_constant__ TensorMap B_map,
                const __grid_constant__ TensorMap C_map, int M, int N, int K PROF_ARG)
{
    extern __shared__ unsigned char shared[];
    auto& [ring, C_tile] = *reinterpret_cast<Shared*>(swizzle_aligned(shared));
    __shared__ Barrier full[STAGES];
    __shared__ Barrier empty[STAGES];

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            barrier_init(&full[s], 1);                   // the producer, and the bytes
            barrier_init(&empty[s], CONSUMERS * PEERS);  // one thread of each consumer
        }
        barrier_init_fence();
    }
    cluster_sync();  // no block copies into another whose barriers are not ready

    const Place place(cluster_rank());
    const int rows = (M + CLUSTER_M * BM - 1) / (CLUSTER_M * BM);  // clusters over C
    const int cols = (N + CLUSTER_N * BN - 1) / (CLUSTER_N * BN);
    const int steps = (K + BK - 1) / BK;
    const int first = blockIdx.x / CLUSTER;
    const int stride = gridDim.x / CLUSTER;
    const int warpgroup = threadIdx.x / WARPGROUP;
    RingPlace<STAGES> at;

    if (warpgroup == 0) {
        registers_decrease<PRODUCER_REGISTERS>();
        if (threadIdx.x == 0) {
            for (int index = first; index < rows * cols; index += stride) {
                const TileIndex tile = tile_at<GROUP_M>(index, rows, cols);
                const int m0 = (tile.row * CLUSTER_M + place.row) * BM;
                const int n0 = (tile.col * CLUSTER_N + place.col) * BN;
                const bool back = K_TURNS && (index - first) / stride % 2 == 1;
                for (int step = 0; step < steps; ++step) {
                    const int k0 = (back ? steps - 1 - step : step) * BK;
                    barrier_wait(&empty[at.stage], at.parity ^ 1);
                    fill(ring[at.stage], &full[at.stage], &A_map, &B_map, place, m0, n0, k0);
                    at.advance();
                }
            }
        }
    } else {
        registers_increase<CONSUMER_REGISTERS>();
        const int consumer = warpgroup - 1;
        auto& buffers = C_tile[threadIdx.x / 32 - WARPGROUP / 32];
        Packed done;  // the tile before
        PROF(long long t_wait = 0, t_main = 0, t_epi = 0, t_begin = clock64(), g_begin = now(););
        for (int index = first; index < rows * cols; index += stride) {
            const TileIndex tile = tile_at<GROUP_M>(index, rows, cols);
            Sums c_frag;
            Barrier* in_use = nullptr;  // of the stage whose products are still running
            PROF(long long t0 = clock64(););
            for (int step = 0; step < steps; ++step) {
                PROF(long long w0 = clock64(););
                barrier_wait(&full[at.stage], at.parity);
                PROF(t_wait += clock64() - w0;);
                const Stage& stage = ring[at.stage];
                multiply(c_frag, stage.A_tile + consumer * WM * BK, stage.B_tile, step > 0);
#if DEFER == 2
                // While they run: a box of the tile before leaves.
                if (done.waits && step < C_CHUNKS) {
                    store(done, step, buffers, &C_map);
                }
#endif
                // Those of the step before are complete: its stage may be filled again.
                wgmma_wait<1>();
                if (step > 0) {
                    release(in_use, place);
                }
                in_use = &empty[at.stage];
                at.advance();
#if DEFER == 1
                // While this step's products run: a box of the tile before leaves.
                if (done.waits && step < C_CHUNKS) {
                    store(done, step, buffers, &C_map);
                }
#endif
            }
#if DEFER
            for (int chunk = steps; done.waits && chunk < C_CHUNKS; ++chunk) {
                store(done, chunk, buffers, &C_map);  // what few steps of k left
            }
#endif
            wgmma_finish(c_frag);
            release(in_use, place);
            PROF(t_main += clock64() - t0; t0 = clock64(););

            // Rounded and packed, the tile takes half the registers, and the next one can begin.
#pragma unroll
            for (int i = 0; i < WM / MMA_M; ++i) {
#pragma unroll
                for (int j = 0; j < BN / 4; ++j) {
                    done.pairs[i][j] = pack(c_frag[i][2 * j], c_frag[i][2 * j + 1], T());
                }
            }
            done.m0 = (tile.row * CLUSTER_M + place.row) * BM + consumer * WM;
            done.n0 = (tile.col * CLUSTER_N + place.col) * BN;
            done.waits = true;
#if !DEFER
            for (int chunk = 0; chunk < C_CHUNKS; ++chunk) store(done, chunk, buffers, &C_map);
            done.waits = false;
#endif
            PROF(t_epi += clock64() - t0;);
        }
        for (int chunk = 0; done.waits && chunk < C_CHUNKS; ++chunk) {
            store(done, chunk, buffers, &C_map);
        }
        tma_store_wait_read<0>();  // shared memory stays until the copy engine has read it
        PROF(if (threadIdx.x % 128 == 0) { long long* p = prof + (blockIdx.x * 2 + consumer) * 8;
             p[0] = clock64() - t_begin; p[1] = now() - g_begin; p[2] = t_wait; p[3] = t_main; p[4] = t_epi; p[5] = g_begin; });
    }
    cluster_sync();  // no block leaves while another may still copy into it
}
