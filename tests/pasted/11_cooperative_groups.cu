#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cstdio>

namespace cg = cooperative_groups;

__global__ void tile_sums(const int *in, int *out) {
    cg::thread_block block = cg::this_thread_block();
    cg::thread_block_tile<16> tile = cg::tiled_partition<16>(block);
    int v = in[block.group_index().x * block.size() + block.thread_rank()];
    for (int d = tile.size() / 2; d > 0; d /= 2) v += tile.shfl_down(v, d);
    if (tile.thread_rank() == 0) out[block.group_index().x * (block.size() / 16) + tile.meta_group_rank()] = v;
}

int main() {
    int *d;
    cudaMallocManaged(&d, 64);
    tile_sums<<<2, 64>>>(d, d);
    cudaDeviceSynchronize();
}
