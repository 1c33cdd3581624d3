#include "common/cluster.cuh"
#include "common/tma.cuh"
extern "C" __global__ void k(int* out, int n)
{
    __shared__ __align__(16) int mine[256], theirs[256];
    __shared__ Barrier full;
    const int rank = cluster_rank(), t = threadIdx.x;
    if (t == 0) { barrier_init(&full, 1); barrier_init_fence(); }
    for (int i = t; i < 256; i += 64) mine[i] = blockIdx.x * 1000 + i;
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    cluster_sync();
    if (t == 0) {
        barrier_arrive_expect(&full, n * 4);
        unsigned to, bar;
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(to_shared(theirs)), "r"(rank ^ 1));
        asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(bar) : "r"(to_shared(&full)), "r"(rank ^ 1));
        asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
            :: "r"(to), "r"(to_shared(mine)), "r"(n * 4), "r"(bar) : "memory");
    }
    barrier_wait(&full, 0);
    for (int i = t; i < n; i += 64) out[blockIdx.x * 256 + i] = theirs[i];
    cluster_sync();
}
