// In which order persistent blocks walk the tiles of C.
//
// The tiles that are computed at the same time share operands in the L2 cache. A band of group rows
// of tiles is walked column by column, so that P blocks at work cover about group x (P / group)
// tiles and read group rows of A and P / group columns of B, far less than a whole row of tiles
// would. Every other band is walked backwards: it starts in the columns of B that the band before
// it ended with.
#pragma once

struct TileIndex {
    int row, col;
};

// The tile at place `index` of the walk over rows x cols tiles.
template <int group>
__device__ __forceinline__ TileIndex tile_at(int index, int rows, int cols) {
    const int band = index / (group * cols);
    const int height = min(group, rows - band * group);
    const int within = index - band * group * cols;
    const int col = within / height;
    return {band * group + within % height, band % 2 == 0 ? col : cols - 1 - col};
}
