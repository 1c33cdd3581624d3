// Hopper: every SM gets nearly the same share of C.
//
// C of 4096 x 4096 has 256 pairs of tiles, and 132 SMs hold 66 clusters: four
// rounds have room for 264, so eight clusters stand still in the last.
// Here columns of C are cut into more tiles, each a little lower, until the rounds
// are full or no tile may be lower.
// New since 22_5_overlapped.cu: which tile a cluster takes, and operands in turned
// roles, so that what may be any multiple of eight is the number of rows. The four
// warps of a consumer hold columns of each box of C, so they write it together; a
// low tile's last box begins earlier, over the box before, and both write the same
// elements there. The last tile leaves all at once.
//
// A is M x K, B is K x N, C is M x N, all row-major, of bfloat16; sums are FP32.
// A_map, B_map describe A and B in boxes of 64 x 64, C_map describes C in boxes of
// 16 x 64; rows of all three start at 16-byte addresses.
// Block: 384 threads. Grid: whole clusters, at most one block an SM.
#include "common/cluster.cuh"
#include "common/tile_order.cuh"
#include "common/wgmma_turned.cuh"

#ifndef BM
#define BM 256  // rows of C a block, at most
#endif
#ifndef BN
#define BN 128  // columns of C a block
#endif
#ifndef LOW
#define LOW 192  // rows of the lowest tile
#endif
#ifndef STAGES
#define STAGES 4  // tiles of A and B in the ring
#endif
#ifndef CLUSTER_M
#define CLUSTER_M 1  // blocks of a cluster, one below the other
#endif
#ifndef CLUSTER_N
#define CLUSTER_N 2  // and side by side
#endif
#ifndef GROUP_M
#define GROUP_M 8  // columns of clusters in a band of the walk
#endif
#ifndef C_BUFFERS
#define C_BUFFERS 8  // boxes of C that a consumer may have on their way
#endif
#ifndef SMS
#define SMS 132  // SMs to fill: the host starts at most this many blocks
#endif

using T = __nv_bfloat16;

#include "common/box_store.cuh"
#include "common/cluster_tiles.cuh"

// A thread; with the consumers' they must fit in.
constexpr int PRODUCER_REGISTERS = 40;
constexpr int CONSUMER_REGISTERS = 232;  // the 65536 of an SM

constexpr int UNIT = 8;             // a tile has a multiple of as many rows
constexpr int BOXES = BM / C_ROWS;  // of C a consumer

using BoxBuffer = T[C_ROWS * BOX];

struct Shared {
    Stage ring[STAGES];
    BoxBuffer C_tile[CONSUMERS][C_BUFFERS];
};

static_assert(BM == 256 && BN == CONSUMERS * BOX,
              "a consumer has a box of columns");
static_assert(CLUSTER_M == 1, "blocks of a cluster stand side by side");
static_assert(LOW >= 192 && LOW <= BM && LOW % UNIT == 0,
              "wgmma_turned.cuh holds 192 to 256 columns");
static_assert(BOXES % C_BUFFERS == 0 && C_BUFFERS > 1,
              "each tile of C begins with the first buffer");
static_assert(sizeof(Shared) <= MOST_BUFFERS,
              "a block has 227 KB of shared memory");

// A cluster's tile of C: its column among them, its first row, and its rows.
struct Share {
    int col, m0, rows;
};

// Which shares there are: as many as the rounds have room for, if none is lower
// than LOW. The first `whole` columns of tiles have `per` of them, the other `cut`
// columns one more.
struct Shares {
    int units, per, whole, cut;

    __device__ __forceinline__ Shares(int M, int N, int clusters)
        : units((M + UNIT - 1) / UNIT)
    {
        const int cols = (N + CLUSTER_N * BN - 1) / (CLUSTER_N * BN);
        const int least = (M + BM - 1) / BM;
        const int most = max(least, units / (LOW / UNIT));
        const int rounds = (least * cols + clusters - 1) / clusters;
        per = max(least, min(rounds * clusters / cols, most));
        cut = per < most ? rounds * clusters - per * cols : 0;
        whole = cols - cut;
    }

    __device__ __forceinline__ int count() const {
        return whole * per + cut * (per + 1);
    }

    __device__ __forceinline__ Share at(int index) const {
        const bool more = index >= whole * per;
        const int tiles = per + more;
        const TileIndex tile = tile_at<GROUP_M>(index - more * whole * per,
                                                more ? cut : whole, tiles);
        const int height = units / tiles;
        // Those at the end are a unit higher.
        const int higher = tile.col - (tiles - units % tiles);
        if (height * UNIT < LOW) {
            return {tile.row, tile.col * BM, BM};  // M is small
        }
        return {more * whole + tile.row,
                (tile.col * height + max(0, higher)) * UNIT,
                (height + (higher >= 0)) * UNIT};
    }
};

// A tile of C that is complete, rounded and packed two elements a register, and
// where it goes.
struct Packed {
    unsigned pairs[1][BM / 4];
    int m0, n0, rows;
    bool waits = false;  // it has not been stored yet

    // Where a box begins: the last one ends with the tile.
    __device__ __forceinline__ int row_of(int box) const {
        return m0 + min(box * C_ROWS, rows - C_ROWS);
    }
};

// All threads of a consumer meet.
__device__ __forceinline__ void consumer_sync() {
    asm volatile("bar.sync %0, %1;" ::"r"(threadIdx.x / WARPGROUP), "n"(WARPGROUP)
                 : "memory");
}

// A warp: registers to shared, its 16 columns of one box, by a stmatrix that turns
// them back. `box` is known at compile time: registers have no index at run time.
__device__ __forceinline__ void put(const Packed& c, int box,
                                    BoxBuffer (&buffers)[C_BUFFERS])
{
    const int lane = threadIdx.x % 32;
    const int row = lane / 16 * 8 + lane % 8;
    const int chunk = threadIdx.x % WARPGROUP / 32 * 2 + lane / 8 % 2;
    T* to = buffers[box % C_BUFFERS] + row * BOX + (chunk ^ row % 8) * 8;
    const bool early = box >= LOW / C_ROWS && (box + 1) * C_ROWS > c.rows;
    const unsigned* at = c.pairs[0] + box * 4;
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], "
                 "{%1, %2, %3, %4};" ::"r"(to_shared(to)),
                 "r"(early ? at[-2] : at[0]), "r"(early ? at[-1] : at[1]),
                 "r"(early ? at[0] : at[2]), "r"(early ? at[1] : at[3])
                 : "memory");
}

// The whole consumer: one box of a complete tile, and from shared to global.
__device__ __forceinline__ void store(const Packed& c, int box,
                                      BoxBuffer (&buffers)[C_BUFFERS],
                                      const TensorMap* C_map)
{
    #pragma unroll
    for (int i = 0; i < BOXES; ++i) {
        if (i == box) {
            put(c, i, buffers);
        }
    }
    tma_store_fence();
    const bool speaker = threadIdx.x % WARPGROUP == 0;
    if (speaker) {
        // The buffer of the next box has been read.
        tma_store_wait_read<C_BUFFERS - 2>();
    }
    consumer_sync();
    if (speaker) {
        if (box * C_ROWS < c.rows) {
            tma_store(C_map, buffers[box % C_BUFFERS], c.row_of(box), c.n0);
        }
        tma_store_commit();  // a group a buffer, with or without a box
    }
}

// The same of all boxes, as many at once as there are buffers.
__device__ __forceinline__ void store_all(const Packed& c,
                                          BoxBuffer (&buffers)[C_BUFFERS],
                                          const TensorMap* C_map)
{
    const bool speaker = threadIdx.x % WARPGROUP == 0;
    #pragma unroll
    for (int first = 0; first < BOXES; first += C_BUFFERS) {
        if (speaker) {
            tma_store_wait_read<0>();
        }
        consumer_sync();
        #pragma unroll
        for (int box = first; box < first + C_BUFFERS; ++box) {
            put(c, box, buffers);
        }
        tma_store_fence();
        consumer_sync();
        #pragma unroll
        for (int box = first; box < first + C_BUFFERS; ++box) {
            if (speaker && box * C_ROWS < c.rows) {
                tma_store(C_map, buffers[box % C_BUFFERS], c.row_of(box), c.n0);
            }
        }
        tma_store_commit();
    }
}

template <int rows>
struct Rows {
    static constexpr int value = rows;
};

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1)
    __launch_bounds__(THREADS, 1)
        wgmma_even_shares(const __grid_constant__ TensorMap A_map,
                          const __grid_constant__ TensorMap B_map,
                          const __grid_constant__ TensorMap C_map, int M, int N,
                          int K)
{
    extern __shared__ unsigned char shared[];
    Shared& tiles = *reinterpret_cast<Shared*>(swizzle_aligned(shared));
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
    const int steps = (K + BK - 1) / BK;
    const int first = blockIdx.x / CLUSTER;
    const int stride = gridDim.x / CLUSTER;
    const Shares shares(M, N, stride);
    const int warpgroup = threadIdx.x / WARPGROUP;
    RingPlace<STAGES> at;

    if (warpgroup == 0) {
        registers_decrease<PRODUCER_REGISTERS>();
        if (threadIdx.x == 0) {
            for (int index = first; index < shares.count(); index += stride) {
                const Share share = shares.at(index);
                const int n0 = (share.col * CLUSTER_N + place.col) * BN;
                for (int step = 0; step < steps; ++step) {
                    barrier_wait(&empty[at.stage], at.parity ^ 1);
                    fill(tiles.ring[at.stage], &full[at.stage], &A_map, &B_map,
                         place, share.m0, n0, step * BK);
                    at.advance();
                }
            }
        }
    } else {
        registers_increase<CONSUMER_REGISTERS>();
        const int consumer = warpgroup - 1;
        const int speaker = threadIdx.x % WARPGROUP;
        auto& buffers = tiles.C_tile[consumer];
        const int spacing = max(1, steps / BOXES);  // steps from a box to the next
        Packed done{};                              // the tile before
        float sum[1][BM / 2] = {};

        // All steps of a tile of so many rows.
        const auto multiply = [&](auto rows) {
            // Of the stage whose products are still running.
            Barrier* in_use = nullptr;
            int box = done.waits ? 0 : BOXES;
            for (int step = 0; step < steps; ++step) {
                barrier_wait(&full[at.stage], at.parity);
                const Stage& stage = tiles.ring[at.stage];
                wgmma_turned<rows.value>(
                    sum[0], describe_b(stage.B_tile + consumer * BOX * BK),
                    describe_a(stage.A_tile), step > 0);

                // Those of the step before are complete: its stage may be filled
                // again.
                wgmma_wait<1>();
                if (step > 0) {
                    place.arrive_at_peers(in_use, speaker);
                }
                in_use = &empty[at.stage];
                at.advance();

                // While this step's products run: a box of the tile before leaves.
                if (box < BOXES && step >= box * spacing) {
                    store(done, box++, buffers, &C_map);
                }
            }
            while (box < BOXES) {
                store(done, box++, buffers, &C_map);  // what so few steps have left
            }
            wgmma_finish(sum);
            place.arrive_at_peers(in_use, speaker);
        };
        for (int index = first; index < shares.count(); index += stride) {
            const Share share = shares.at(index);
            switch (share.rows) {
                case 192: multiply(Rows<192>()); break;
                case 200: multiply(Rows<200>()); break;
                case 208: multiply(Rows<208>()); break;
                case 216: multiply(Rows<216>()); break;
                case 224: multiply(Rows<224>()); break;
                case 232: multiply(Rows<232>()); break;
                case 240: multiply(Rows<240>()); break;
                case 248: multiply(Rows<248>()); break;
                default: multiply(Rows<256>());
            }

            // Rounded and packed, the tile makes room for the next.
            wgmma_pack<T>(done.pairs, sum);
            done.m0 = share.m0;
            done.n0 = (share.col * CLUSTER_N + place.col) * BN + consumer * BOX;
            done.rows = share.rows;
            done.waits = true;
        }
        if (done.waits) {
            store_all(done, buffers, &C_map);
        }
        // Shared memory stays until the copy engine has read it.
        tma_store_wait_read<0>();
    }
    cluster_sync();  // no block leaves while another may still copy into it
}
