// A finished tile of C, rounded and packed two elements a register, that leaves box
// by box: by stmatrix to shared memory and from there by the copy engine (sm_90a).
//
// What comes in: as for cluster_tiles.cuh, and the macro C_BUFFERS.
#pragma once

#include "common/box_store.cuh"
#include "common/cluster_tiles.cuh"

constexpr int C_COLS = BN / BOX;
constexpr int C_BOXES = WM / MMA_M * C_COLS;  // boxes of C a warp

using BoxBuffer = T[C_ROWS * BOX];

struct Shared {
    Stage ring[STAGES];
    BoxBuffer C_tile[CONSUMERS * WARPGROUP / 32][C_BUFFERS];  // of each warp
};

static_assert(sizeof(Shared) <= MOST_BUFFERS,
              "a block has 227 KB of shared memory");
static_assert(C_BOXES % C_BUFFERS == 0,
              "each tile of C begins with the first buffer");

// A consumer warp: registers to shared to global, one box of its rows of a complete
// tile, unless its bit in `boxes` is 0. Packed: the tile in pairs, as wgmma_pack
// leaves it, and where it goes, m0 and n0.
template <typename Packed>
__device__ __forceinline__ void store(const Packed& c, int box,
                                      BoxBuffer (&buffers)[C_BUFFERS],
                                      const TensorMap* C_map,
                                      const unsigned& boxes = ~0u)
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
        if (i == box && boxes >> i & 1) {
            const unsigned* pairs = c.pairs[i / C_COLS] + i % C_COLS * (BOX / 4);
            T* C_tile = buffers[i % C_BUFFERS];
            box_to_shared(C_tile, pairs, lane, row);

            // Shared to global: the copy engine leaves out what lies outside C.
            if (lane == 0) {
                tma_store(C_map, C_tile, c.m0 + i / C_COLS * MMA_M + warp_row,
                          c.n0 + i % C_COLS * BOX);
                tma_store_commit();
            }
        }
    }
}
