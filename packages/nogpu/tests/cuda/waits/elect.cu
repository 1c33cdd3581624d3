extern "C" __global__ void k(int* out)
{
    __shared__ volatile int flag;
    const int t = threadIdx.x;
    if (t == 0) flag = 0;
    __syncthreads();
    if (t >= 16 && t < 32) while (flag == 0) { }
    unsigned first, chosen;
    asm volatile("{.reg .pred p; elect.sync %0|p, MASK; selp.u32 %1, 1, 0, p;}"
                 : "=r"(first), "=r"(chosen) :: "memory");
    if (t == 32) flag = 1;
    out[t] = first + 100 * chosen;
}
