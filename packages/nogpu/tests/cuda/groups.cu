#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
#define KERNEL(name) extern "C" __global__ void name(const int* x, int* y, int n)

KERNEL(shuffles) {
    auto tile = cg::tiled_partition<16>(cg::this_thread_block());
    int i = threadIdx.x, v = x[i];
    y[8 * i + 0] = tile.shfl(v, 5);
    y[8 * i + 1] = tile.shfl_down(v, 3);
    y[8 * i + 2] = tile.shfl_up(v, 2);
    y[8 * i + 3] = tile.shfl_xor(v, 9);
    y[8 * i + 4] = tile.ballot(v & 1);
    y[8 * i + 5] = tile.match_any(v & 3);
    y[8 * i + 6] = 2 * tile.any(v == 7) + tile.all(v >= 0);
    y[8 * i + 7] = 1000 * tile.meta_group_rank() + tile.thread_rank();
}
KERNEL(sums) {
    auto tile = cg::tiled_partition<8>(cg::this_thread_block());
    int i = threadIdx.x, v = x[i];
    y[4 * i + 0] = cg::reduce(tile, v, cg::plus<int>());
    y[4 * i + 1] = cg::reduce(tile, v, cg::greater<int>());
    y[4 * i + 2] = cg::inclusive_scan(tile, v, cg::plus<int>());
    y[4 * i + 3] = cg::exclusive_scan(tile, v, cg::plus<int>());
}
KERNEL(sizes_at_run_time) {
    auto tile = cg::tiled_partition(cg::this_thread_block(), n);
    tile.sync();
    y[threadIdx.x] = 100 * tile.size() + tile.thread_rank();
}
KERNEL(together) {
    int i = threadIdx.x;
    y[i] = -1;
    if (x[i] % 3 == 0) {
        auto here = cg::coalesced_threads();
        int first = here.shfl(i, 0), total = cg::reduce(here, x[i], cg::plus<int>());
        y[i] = 10000 * first + 100 * here.size() + here.thread_rank() + 1000000 * (total % 100);
    }
}
KERNEL(partitions) {
    auto warp = cg::tiled_partition<32>(cg::this_thread_block());
    int i = threadIdx.x;
    auto same = cg::labeled_partition(warp, x[i] % 5);
    auto two = cg::binary_partition(warp, x[i] % 7 < 3);
    y[i] = 10000 * cg::reduce(same, x[i], cg::plus<int>()) + 100 * same.size() + two.size();
}
KERNEL(copied) {
    __shared__ __align__(16) int s[256];
    auto block = cg::this_thread_block();
    cg::memcpy_async(block, s, x, sizeof(int) * n);
    cg::wait(block);
    y[threadIdx.x] = s[n - 1 - threadIdx.x];
}
KERNEL(arrive_and_wait) {
    __shared__ int s[256];
    auto block = cg::this_thread_block();
    s[threadIdx.x] = x[threadIdx.x];
    auto token = block.barrier_arrive();
    int mine = 2 * x[threadIdx.x];
    block.barrier_wait(std::move(token));
    y[threadIdx.x] = s[threadIdx.x ^ 37] + mine;
}
KERNEL(arrive_only) {
    __shared__ int s[256];
    auto block = cg::this_thread_block();
    s[threadIdx.x] = x[threadIdx.x];
    block.sync();
    int v = s[threadIdx.x ^ 37];
    y[threadIdx.x] = v;
    s[threadIdx.x] = v;
}
KERNEL(whole_grid) {
    auto grid = cg::this_grid();
    y[grid.thread_rank()] = grid.is_valid() + 10 * grid.num_blocks();
    if (n) grid.sync();
    y[grid.thread_rank()] += 100;
}
KERNEL(wide_tile) {
    __shared__ cg::block_tile_memory<256> memory;
    auto tile = cg::tiled_partition<64>(cg::this_thread_block(memory));
    y[threadIdx.x] = cg::reduce(tile, x[threadIdx.x], cg::plus<int>());
}
