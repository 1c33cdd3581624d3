__device__ void copy(float* to, const float* from, int bytes)
{
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes) : "memory");
}
extern "C" __global__ void k(const float* x, float* y, int n)
{
    __shared__ float s[2][64];
    const int t = threadIdx.x;
    copy(&s[0][t], x + t, 4);
    asm volatile("cp.async.commit_group;");
    copy(&s[1][t], x + 64 + t, t + 64 < n ? 4 : 0);
    asm volatile("cp.async.commit_group;");
    asm volatile("cp.async.wait_group 1;");
    __syncthreads();  // first
    y[t] = s[0][63 - t];
    asm volatile("cp.async.wait_group 0;");
    __syncthreads();  // second
    y[64 + t] = s[1][63 - t];
}
