#include <cooperative_groups.h>
namespace cg = cooperative_groups;
extern "C" __global__ void k(const int* x, int* part, int* y)
{
    auto grid = cg::this_grid();
    int i = grid.thread_rank(), n = grid.num_threads();
    part[i] = x[i] * 2;
    SYNC;
    y[i] = part[n - 1 - i];
    for (int round = 0; round < 3; ++round) {
        SYNC;
        part[i] = y[(i + 1) % n] + 1;
        SYNC;
        y[i] = part[(i + 7) % n];
    }
}
