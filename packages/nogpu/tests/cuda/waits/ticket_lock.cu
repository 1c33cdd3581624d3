extern "C" __global__ void mm(const float* A, const float* B, float* C, int* queue,
                              int M, int N, int K) {
    __shared__ int turn;
    int* tickets = queue + 2 * blockIdx.x;
    volatile int* serving = tickets + 1;
    int col = blockIdx.x * 64 + threadIdx.x, step = (K + gridDim.z - 1) / gridDim.z;
    int row = blockIdx.y;
    float sum = part_of(A, B, row, col, blockIdx.z * step, (blockIdx.z + 1) * step, M, N, K);
    if (threadIdx.x == 0) {
        turn = atomicAdd(tickets, 1);
        while (*serving != turn) { }
        __threadfence();
    }
    __syncthreads();
    if (col < N) C[row * N + col] += sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        __threadfence();
        *serving = turn + 1;
    }
}
