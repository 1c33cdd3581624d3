extern "C" __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float tile[32];
    __shared__ int lock;
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, warps = blockDim.x / 32;
    int row = blockIdx.y, col = blockIdx.x * 32 + lane;
    if (warp == 0) tile[lane] = 0;
    if (threadIdx.x == 0) lock = 0;
    __syncthreads();
    float sum = 0;
    for (int k = warp; k < K; k += warps) sum += col < N ? A[row * K + k] * B[k * N + col] : 0;
    if (lane == 0) {
        while (atomicCAS(&lock, 0, 1)) { }
        __threadfence_block();
    }
    __syncwarp();
    tile[lane] += sum;
    __syncwarp();
    if (lane == 0) {
        __threadfence_block();
        atomicExch(&lock, 0);
    }
    __syncthreads();
    if (warp == 0 && col < N) C[row * N + col] = tile[lane];
}
