// Tiles whose steps of k are cut into ranges, one for each worker (stream-K), and
// who of the workers that share a tile stores what of it.
//
// The host says how many tiles are taken whole, and into how many ranges the steps
// of the others are cut: as many as there are workers, or fewer where ranges would
// be thin. A tile may have a piece in two ranges or in many.
#pragma once

#include "common/tile_order.cuh"

// No cut lies nearer to an end of its tile: a thin piece would cost a whole
// hand-over.
constexpr int LEAST_STEPS = 4;

// The workers that have pieces of one tile: `first` has its beginning, the others
// follow. The first `owners` of them store a share each; it is the last that they
// do. Only who goes on to another tile owns nothing, so nobody waits while others
// wait for him.
struct Sharers {
    int first, parts, owners;
};

struct StreamK : Walk {
    int whole, ranges, left, steps;  // left: steps of the tiles that are cut

    // `worker` of `workers`: whole tiles [0, whole), then one of the ranges. Both
    // the steps that are left and those times the ranges fit an int.
    __device__ __forceinline__ StreamK(int worker, int workers, int tiles,
                                       int steps, int whole, int ranges)
        : Walk(worker, workers, 0, steps), whole(whole), ranges(ranges),
          left((tiles - whole) * steps), steps(steps)
    {
        whole_end = whole;
        if (worker < ranges) {
            at = begin_of(worker);
            range_end = begin_of(worker + 1);
        }
    }

    // Where a range begins, in steps from the first tile that is cut.
    __device__ __forceinline__ int begin_of(int range) const {
        const int even = left * range / ranges;
        const int within = even % steps;
        if (within < LEAST_STEPS) {
            return even - within;
        }
        return steps - within < LEAST_STEPS ? even + steps - within : even;
    }

    // In which range a step lies: a cut moves by no whole range.
    __device__ __forceinline__ int range_of(int step) const {
        const int even = ((step + 1) * ranges - 1) / left;
        return even + (begin_of(even + 1) <= step) - (begin_of(even) > step);
    }

    __device__ __forceinline__ Sharers sharers(const Piece& piece) const {
        const int begin = (piece.tile - whole) * steps, end = begin + steps;
        const int first = range_of(begin), last = range_of(end - 1);
        const bool ends_here = begin_of(last + 1) == end;
        return {first, last - first + 1, last - first + ends_here};
    }
};
