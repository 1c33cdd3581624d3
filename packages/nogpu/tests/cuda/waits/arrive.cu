extern "C" __global__ void k(float* out)
{
    __shared__ float s[32];
    const int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        BEFORE
        asm volatile("bar.arrive 1, 64;" ::: "memory");
        AFTER
    } else if (threadIdx.x < 64) {
        asm volatile("bar.sync 1, 64;" ::: "memory");
        out[blockIdx.x * 32 + lane] = s[31 - lane];
        asm volatile("bar.arrive 2, 64;" ::: "memory");
    }
    if (threadIdx.x < 32) {
        asm volatile("bar.sync 2, 64;" ::: "memory");
        s[lane] = -1.0f;
    }
}
