extern "C" __global__ void k(const float* x, float* y)
{
    __shared__ __align__(128) float row[32];
    __shared__ u64 bar;
    if (threadIdx.x == 0) init(&bar, 1);
    __syncthreads();
    if (threadIdx.x == 0) {
        expect(&bar, 128);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
            :: "r"(at(row)), "l"(x + 32 * blockIdx.x), "r"(128), "r"(at(&bar)) : "memory");
    }
    wait(&bar, 0);
    y[32 * blockIdx.x + threadIdx.x] = row[threadIdx.x];
}
