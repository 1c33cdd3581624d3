extern "C" __global__ void k(const int* at, unsigned* out)
{
    SPACE __align__(16) volatile unsigned char mine[32];
    if (threadIdx.x == 0 || WHO) for (int i = 0; i < 32; ++i) mine[i] = i;
    __syncthreads();
    unsigned long long to;
    asm volatile("cvta.to.NAME.u64 %0, %1;" : "=l"(to) : "l"(&mine[0]));
    unsigned v = 0xa5a5a5a5u, sum = 0;
    if (WHO)
        asm volatile("{.reg .u64 x; .reg .u32 a, b, c; DO}"
                     : "+r"(v) : "l"(to + at[threadIdx.x]) : "memory");
    if (WHO) for (int i = 0; i < 32; ++i) sum += mine[i] << i % 8;
    out[threadIdx.x] = v;
    out[4 + threadIdx.x] = sum;
}
