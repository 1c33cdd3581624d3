extern "C" __global__ void k(long long* out)
{
    long long t, u;
    unsigned sm, sms, warps, high;
    const long long start = clock64();
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t));
    asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
    asm volatile("mov.u32 %0, %%nsmid;" : "=r"(sms));
    asm volatile("mov.u32 %0, %%nwarpid;" : "=r"(warps));
    asm volatile("mov.u32 %0, %%clock_hi;" : "=r"(high));
    long long spent = clock64() - start;
    while (clock64() - start < 10000) {
    }
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(u));
    long long* mine = out + 8 * (blockIdx.x * blockDim.x + threadIdx.x);
    mine[0] = spent, mine[1] = start, mine[2] = t, mine[3] = u - t, mine[4] = sm, mine[5] = sms;
    mine[6] = warps, mine[7] = high;
}
