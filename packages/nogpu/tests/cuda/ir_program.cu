struct Pair { float a; int b; };
__device__ __noinline__ float twice(float v, int n) { return n > 40 ? v : v + v; }
__constant__ int table[4] = {3, 1, 4, 1};
extern "C" __global__ void k(const float* x, float* y, Pair p) {
    __shared__ float4 tile[8];
    int t = threadIdx.x;
    ((float*)tile)[t] = x[t] * p.a;
    __syncthreads();
    float4 v = tile[t / 4];
    float part[4] = {v.x, v.y, v.z, v.w}, sum = 0;
    for (int i = 0; i <= t % 4; ++i) sum += part[i] * x[i] - p.b;
    switch (table[t & 3]) {
        case 3: sum = fmaxf(sum, v.y); break;
        case 1: sum -= v.w; break;
        default: sum = __popc(t) + floorf(sum);
    }
    if (__any_sync(~0u, t == 3) && t > 6) sum += (signed char)(t * 37) / 5 + (t % 3 ? 1.5f : -2.f);
    y[t] = twice(sum + __shfl_xor_sync(~0u, sum, 4), t);
}
