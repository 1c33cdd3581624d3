__device__ __forceinline__ void put(float* y, int i) {
    y[i] = 1;
}
__device__ __forceinline__ void both(float* y, int i) {
    put(y, i);
    put(y, i + 1);
}
struct Meet { __device__ void all() {
    if (threadIdx.x < 3) __syncthreads();
} };
extern "C" __global__ void k(float* y, int n) {
    both(y, n);
    if (n > 3) {
        y[0] = 7;
        both(y, 2 * n);
    }
    Meet meet;
    meet.all();
    put(y, 7);
}
