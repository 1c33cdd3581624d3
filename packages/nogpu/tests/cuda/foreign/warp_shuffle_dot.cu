__inline__ __device__ float total(float v) {
    for (int d = warpSize / 2; d > 0; d /= 2) v += __shfl_down_sync(0xffffffff, v, d);
    return v;
}
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    const int warp = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (warp >= M * N) return;
    const int m = warp / N, n = warp % N;
    float sum = 0;
    for (int k = lane; k < K; k += 32) sum += A[m * K + k] * B[k * N + n];
    sum = total(sum);
    if (lane == 0) C[warp] = sum;
}
