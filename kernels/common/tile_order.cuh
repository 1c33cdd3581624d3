// In which order persistent blocks walk the tiles of C.
//
// The tiles that are computed at the same time share operands in the L2 cache. A
// band of G rows of tiles is walked column by column, so that P blocks at work
// cover about G x (P / G) tiles and read G rows of A and P / G columns of B, far
// less than a whole row of tiles would. Every other band is walked backwards: it
// starts in the columns of B that the band before it ended with.
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

// Steps [begin, end) of k of one tile.
struct Piece {
    int tile, begin, end;
};

// The pieces of one worker (a block or a cluster) when the last tiles are cut along
// k: whole tiles, one in every round, then a range of the steps that are left, as
// long as every other worker's.
struct Walk {
    int next, stride, whole_end;  // the next whole tile, and where they end
    // The next of the steps beyond, and where the range ends.
    int at, range_end;

    __device__ __forceinline__ Walk(int worker, int workers, int tiles, int steps)
        : next(worker), stride(workers), whole_end(tiles), at(0), range_end(0)
    {
        if (tiles > workers && tiles % workers != 0) {
            // With one to two tiles a worker left, no tile is cut into more than
            // two pieces.
            whole_end = (tiles / workers - 1) * workers;
            const long long left =
                static_cast<long long>(tiles - whole_end) * steps;
            at = left * worker / workers;
            range_end = left * (worker + 1) / workers;
        }
    }

    __device__ __forceinline__ bool take(Piece& piece, int steps)
    {
        if (next < whole_end) {
            piece = {next, 0, steps};
            next += stride;
            return true;
        }
        if (at < range_end) {
            const int begin = at % steps;
            piece = {whole_end + at / steps, begin,
                     min(steps, begin + range_end - at)};
            at += piece.end - begin;
            return true;
        }
        return false;
    }
};
