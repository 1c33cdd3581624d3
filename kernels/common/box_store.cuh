// A warp's part of C on its way out: 16 rows of 64 columns, packed two elements a
// register as wgmma.cuh leaves them, by stmatrix to shared memory and from there by
// the copy engine (sm_90).
#pragma once

#include "common/stmatrix.cuh"
#include "common/wgmma.cuh"

constexpr int C_ROWS = 16;  // rows of C a warp holds of each 64

template <typename T>
using WarpBox = T[C_ROWS * BOX];

// Registers to shared: 16 x 16 elements at a time, swizzled as the copy engine
// reads; then any lane may ask it to store the box. row: lane % C_ROWS, that this
// lane's address stands for in stmatrix.
template <typename T>
__device__ __forceinline__ void box_to_shared(T* C_tile, const unsigned* pairs,
                                              int lane, int row)
{
    #pragma unroll
    for (int j = 0; j < BOX / 16; ++j) {
        const int chunk = (2 * j + lane / C_ROWS) ^ (row % 8);
        stmatrix_x4(C_tile + row * BOX + chunk * 8, pairs + 4 * j);
    }
    tma_store_fence();
    __syncwarp();
}
