extern "C" __global__ void k(const float* x, float* y, int n) {
    extern __shared__ __align__(128) float row[];
    __shared__ u64 bar;
    int t = threadIdx.x;
    if (t == 0) { init(&bar, 1); }
    __syncthreads();
    if (t == 0) {
        expect(&bar, n);
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
            :: "r"(at(row)), "l"(x), "r"(n), "r"(at(&bar)) : "memory");
    }
    wait(&bar, 0);
    row[t] += 1;
    FENCE
    __syncthreads();
    if (t == 0) {
        asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;"
            :: "l"(y), "r"(at(row)), "r"(n) : "memory");
        commit(); drained();
    }
}