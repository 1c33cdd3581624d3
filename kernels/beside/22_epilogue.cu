// An epilogue that a network needs, and many products in one launch.
//
// A layer is C = f(A B + bias + R): before the sums are rounded they are still in
// registers, and there bias, residual and GELU cost no trip to memory. Macros say
// which of them (epilogue.cuh). R comes through the ring, as if it were steps of k
// beyond the last one, so it has long arrived when the sums are complete.
// Operands are stacks of matrices: each map has a third dimension, the slice. A
// walk goes through the tiles of one slice after the other, and a slice may have
// rows of its own: experts of a network get as many rows as were sent to them.
// New since 22_5_overlapped.cu: the epilogue, R in the ring, and slices.
//
// A is S x M x K, B is S x K x N, C and R are S x M x N, bias is S x N, all
// row-major, of bfloat16 (or half); sums are FP32. Slice s has rows_of[s] <= M rows
// of A and C; beyond them C is left or overwritten, but never beyond the 16 rows of
// a box. A_map, B_map, R_map describe boxes of 1 x 64 x 64, C_map of 1 x 16 x 64;
// rows of all, and of bias, start at 16-byte addresses.
// Block: 384 threads. Grid: whole clusters, at most one block an SM.
#include "common/cluster.cuh"
#include "common/elements.cuh"
#include "common/epilogue.cuh"
#include "common/hand_over.cuh"
#include "common/tile_order.cuh"
#include "common/tma_slices.cuh"
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
#ifndef CLUSTER_M
#define CLUSTER_M 2  // blocks of a cluster, one below the other
#endif
#ifndef CLUSTER_N
#define CLUSTER_N 1  // and side by side
#endif
#ifndef GROUP_M
#define GROUP_M 8  // rows of clusters in a band of the walk
#endif
#ifndef C_BUFFERS
#define C_BUFFERS 2  // boxes of C that a warp may have on their way
#endif
#ifndef SMS
#define SMS 132  // SMs to fill: the host starts at most this many blocks
#endif

using T = ELEMENT;

#include "common/leaving_tile.cuh"

// A thread; with the consumers' they must fit in.
constexpr int PRODUCER_REGISTERS = 56;
constexpr int CONSUMER_REGISTERS = 224;  // the 65536 of an SM

// Columns of boxes of R that a stage holds: all rows of the tile, in place of A, B.
constexpr int R_COLS = BM <= BN ? 2 : 1;

static_assert(R_COLS * BM * BOX <= BM * BK + BN * BK,
              "a part of R must fit into a stage");

// A tile of C that is complete, rounded and packed two elements a register, and
// where it goes.
struct Packed {
    unsigned pairs[WM / MMA_M][BN / 4];
    int slice, m0, n0;
    int rows;  // of C in this slice
    bool waits = false;  // it has not been stored yet
};

// Walks through the slices: which one a place in the list of all clusters' tiles
// falls into.
struct Slice {
    int index = -1, begin = 0;  // and the place of its first tile
    int rows = 0, high = 0;     // rows of C, and clusters above each other

    __device__ __forceinline__ TileIndex tile(int at, const int* rows_of, int cols)
    {
        while (at - begin >= high * cols) {
            begin += high * cols;
            rows = rows_of[++index];
            high = (rows + CLUSTER_M * BM - 1) / (CLUSTER_M * BM);
        }
        return tile_at<GROUP_M>(at - begin, high, cols);
    }
};

// The producer's one thread: this block's part of one step of k, into one stage of
// every block that needs it. The other parts come from those blocks; this block's
// barrier awaits them all.
__device__ __forceinline__ void fill(Stage& stage, Barrier* full,
                                     const TensorMap* A_map, const TensorMap* B_map,
                                     const Place& place, int slice, int m0, int n0,
                                     int k0)
{
    barrier_arrive_expect(full, sizeof(Stage));
    for (int i = 0; i < A_PART; i += BOX) {
        const int m = place.col * A_PART + i;
        tma_load_slice<CLUSTER_N>(stage.A_tile + m * BK, A_map, full, slice, m0 + m,
                                  k0, place.same_row);
    }
    for (int i = 0; i < B_PART; i += BOX) {
        const int n = place.row * B_PART + i;
        tma_load_slice<CLUSTER_M>(stage.B_tile + n * BK, B_map, full, slice, k0,
                                  n0 + n, place.same_col);
    }
}

// The same thread: R_COLS columns of boxes of R, into a stage of this block alone.
__device__ __forceinline__ void fill_residual(Stage& stage, Barrier* full,
                                              const TensorMap* R_map, int slice,
                                              int m0, int n0)
{
    barrier_arrive_expect(full, R_COLS * BM / BOX * BOX_BYTES);
    for (int i = 0; i < R_COLS * BM; i += BOX) {
        tma_load_slice<1>(reinterpret_cast<T*>(&stage) + i * BOX, R_map, full, slice,
                          m0 + i % BM, n0 + i / BM * BOX, 0);
    }
}

// Shared to registers: sum += the part of R that begins with column `col` of boxes.
// R_rows is this warpgroup's first row. A pair of neighbours lies where wgmma.cuh
// has their sums, in a chunk of 16 bytes that the copy engine has swizzled.
__device__ __forceinline__ void add_residual(float (&sum)[WM / MMA_M][BN / 2],
                                             const T* R_rows, int col)
{
    const int group = threadIdx.x % 32 / 4;
    const int row = threadIdx.x % WARPGROUP / 32 * C_ROWS + group;
    const int pair = threadIdx.x % 4 * 2;
    #pragma unroll
    for (int i = 0; i < WM / MMA_M * R_COLS * BOX / 2; i += 2) {
        const int tile = i / (R_COLS * BOX / 2);
        const int box = i / (BOX / 2) % R_COLS;
        const int chunk = i / 4 % (BOX / 8);
        const int at = box * BM + tile * MMA_M + row + i / 2 % 2 * 8;
        const unsigned two = *reinterpret_cast<const unsigned*>(
            R_rows + at * BOX + (chunk ^ group) * 8 + pair);
        float* to = sum[tile] + (col + box) * (BOX / 2) + i % (BOX / 2);
        to[0] += unpacked(two, false, T());
        to[1] += unpacked(two, true, T());
    }
}

// Global to registers: the bias of this thread's columns, in pairs.
__device__ __forceinline__ void load_bias(unsigned (&bias)[BN / 8], const T* from,
                                          int n0, int N)
{
    #pragma unroll
    for (int i = 0; i < BN / 8; ++i) {
        const int col = n0 + 8 * i + threadIdx.x % 4 * 2;
        bias[i] = col < N ? *reinterpret_cast<const unsigned*>(from + col) : 0;
    }
}

// A consumer warp: registers to shared to global, one box of its rows of a complete
// tile.
__device__ __forceinline__ void store(const Packed& c, int box,
                                      BoxBuffer (&buffers)[C_BUFFERS],
                                      const TensorMap* C_map)
{
    const int lane = threadIdx.x % 32;
    const int row = lane % C_ROWS;
    const int warp_row = threadIdx.x % WARPGROUP / 32 * C_ROWS;
    if (lane == 0) {
        // This buffer's last box has been read.
        tma_store_wait_read<C_BUFFERS - 1>();
    }
    __syncwarp();
    #pragma unroll
    for (int i = 0; i < C_BOXES; ++i) {
        // Registers have no index at run time: one branch for each box.
        if (i == box) {
            const unsigned* pairs = c.pairs[i / C_COLS] + i % C_COLS * (BOX / 4);
            T* C_tile = buffers[i % C_BUFFERS];
            box_to_shared(C_tile, pairs, lane, row);

            // Shared to global: the copy engine leaves out what lies outside C.
            if (lane == 0) {
                const int m = c.m0 + i / C_COLS * MMA_M + warp_row;
                if (m < c.rows) {
                    tma_store_slice(C_map, C_tile, c.slice, m,
                                    c.n0 + i % C_COLS * BOX);
                }
                tma_store_commit();
            }
        }
    }
}

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1)
    __launch_bounds__(THREADS, 1)
        wgmma_epilogue(const __grid_constant__ TensorMap A_map,
                       const __grid_constant__ TensorMap B_map,
                       const __grid_constant__ TensorMap C_map,
                       const __grid_constant__ TensorMap R_map, const T* bias,
                       const int* rows_of, int tiles, int N, int K)
{
    extern __shared__ unsigned char shared[];
    auto& [ring, C_tile] = *reinterpret_cast<Shared*>(swizzle_aligned(shared));
    __shared__ Barrier full[STAGES];
    __shared__ Barrier empty[STAGES];

    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            // The producer, and the bytes.
            barrier_init(&full[s], 1);
            // One thread of each consumer.
            barrier_init(&empty[s], CONSUMERS * PEERS);
        }
        barrier_init_fence();
    }
    cluster_sync();  // no block copies into another whose barriers are not ready

    const Place place;
    // Clusters beside each other; `tiles` counts those over all slices of C.
    const int cols = (N + CLUSTER_N * BN - 1) / (CLUSTER_N * BN);
    const int steps = (K + BK - 1) / BK;
    const int first = blockIdx.x / CLUSTER;
    const int stride = gridDim.x / CLUSTER;
    const int warpgroup = threadIdx.x / WARPGROUP;
    const int bias_row = (N + 7) / 8 * 8;
    RingPlace<STAGES> at;
    Slice slice;

    if (warpgroup == 0) {
        registers_decrease<PRODUCER_REGISTERS>();
        if (threadIdx.x == 0) {
            for (int index = first; index < tiles; index += stride) {
                const TileIndex tile = slice.tile(index, rows_of, cols);
                const int m0 = (tile.row * CLUSTER_M + place.row) * BM;
                const int n0 = (tile.col * CLUSTER_N + place.col) * BN;
                for (int step = 0; step < steps; ++step) {
                    barrier_wait(&empty[at.stage], at.parity ^ 1);
                    fill(ring[at.stage], &full[at.stage], &A_map, &B_map, place,
                         slice.index, m0, n0, step * BK);
                    at.advance();
                }
                for (int col = 0; RESIDUAL && col < C_COLS; col += R_COLS) {
                    barrier_wait(&empty[at.stage], at.parity ^ 1);
                    fill_residual(ring[at.stage], &full[at.stage], &R_map,
                                  slice.index, m0, n0 + col * BOX);
                    at.advance();
                }
            }
        }
    } else {
        registers_increase<CONSUMER_REGISTERS>();
        const int consumer = warpgroup - 1;
        const int speaker = threadIdx.x % WARPGROUP;
        auto& buffers = C_tile[threadIdx.x / 32 - WARPGROUP / 32];
        Packed done;  // the tile before
        for (int index = first; index < tiles; index += stride) {
            const TileIndex tile = slice.tile(index, rows_of, cols);
            const int n0 = (tile.col * CLUSTER_N + place.col) * BN;
            float sum[WM / MMA_M][BN / 2];
            // Of the stage whose products are still running.
            Barrier* in_use = nullptr;
            for (int step = 0; step < steps; ++step) {
                barrier_wait(&full[at.stage], at.parity);
                const Stage& stage = ring[at.stage];
                wgmma_boxes(sum, stage.A_tile + consumer * WM * BK, stage.B_tile,
                            step > 0);

                // Those of the step before are complete: its stage may be filled
                // again.
                wgmma_wait<1>();
                if (step > 0) {
                    place.arrive_at_peers(in_use, speaker);
                }
                in_use = &empty[at.stage];
                at.advance();

                // While this step's products run: a box of the tile before leaves.
                if (done.waits && step < C_BOXES) {
                    store(done, step, buffers, &C_map);
                }
            }
            for (int box = steps; done.waits && box < C_BOXES; ++box) {
                store(done, box, buffers, &C_map);  // what so few steps have left
            }
            unsigned column[BN / 8];  // the bias, while the last products run
            if (BIAS) {
                const size_t row = static_cast<size_t>(slice.index) * bias_row;
                load_bias(column, bias + row, n0, N);
            }
            wgmma_finish(sum);
            place.arrive_at_peers(in_use, speaker);

            // R adds to the sums.
            #pragma unroll
            for (int col = 0; RESIDUAL && col < C_COLS; col += R_COLS) {
                barrier_wait(&full[at.stage], at.parity);
                add_residual(sum,
                             reinterpret_cast<const T*>(&ring[at.stage]) +
                                 consumer * WM * BOX,
                             col);
                // All of the warpgroup have read, so one may speak for it.
                warpgroup_sync();
                place.arrive_at_peers(&empty[at.stage], speaker);
                at.advance();
            }

            // Finished, rounded and packed, the tile makes room for the next.
            #pragma unroll
            for (int i = 0; i < WM / MMA_M * BN / 2; ++i) {
                const int j = i % (BN / 2);
                float& x = sum[i / (BN / 2)][j];
                x = finished(x, BIAS ? unpacked(column[j / 4], j % 2, T()) : 0);
            }
            wgmma_pack<T>(done.pairs, sum);
            done.slice = slice.index;
            done.rows = slice.rows;
            done.m0 = (tile.row * CLUSTER_M + place.row) * BM + consumer * WM;
            done.n0 = n0;
            done.waits = true;
        }
        for (int box = 0; done.waits && box < C_BOXES; ++box) {
            store(done, box, buffers, &C_map);
        }
        // Shared memory stays until the copy engine has read it.
        tma_store_wait_read<0>();
    }
    cluster_sync();  // no block leaves while another may still copy into it
}
