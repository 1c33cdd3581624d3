__device__ void load(unsigned& r, const void* at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x1LOAD.shared.b16 {%0}, [%1];"
        : "=r"(r) : "r"((unsigned)__cvta_generic_to_shared(at)) : "memory");
}
__device__ void store(void* at, unsigned r) {
    asm volatile("stmatrix.sync.aligned.m8n8.x1STORE.shared.b16 [%0], {%1};"
        :: "r"((unsigned)__cvta_generic_to_shared(at)), "r"(r) : "memory");
}
extern "C" __global__ void k(const unsigned short* x, unsigned short* y)
{
    __shared__ __align__(16) unsigned short a[64], b[64];
    for (int i = threadIdx.x; i < 64; i += 32) a[i] = x[i];
    __syncwarp();
    unsigned r;
    load(r, a + threadIdx.x % 8 * 8);
    store(b + threadIdx.x % 8 * 8, r);
    __syncwarp();
    for (int i = threadIdx.x; i < 64; i += 32) y[i] = b[i] + EXTRA;
}
