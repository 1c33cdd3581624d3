extern "C" __global__ void k(const int* x, int* y, int skipped) {
    __shared__ alignas(16) int to[150 * 4];
    __shared__ u64 bars[150];
    if (threadIdx.x == 0) {
        for (int i = 0; i < 150; ++i) init(bars + i, 1);
        for (int i = 0; i < 150; ++i) {
            expect(bars + i, 16);
            asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 16, [%2];"
                :: "r"(at(to + 4 * i)), "l"(x + 4 * i), "r"(at(bars + i)) : "memory");
        }
        for (int i = 0; i < 150; ++i) if (i != skipped) wait(bars + i, 0);
        for (int i = 0; i < 600; ++i) y[i] = to[i];
    }
}
