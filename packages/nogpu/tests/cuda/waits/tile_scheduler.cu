#define T 8
extern "C" __global__ void mm(const float* A, const float* B, float* C, int* next,
                              int M, int N, int K) {
    __shared__ float a[T][T], b[T][T];
    __shared__ int tile;
    int tx = threadIdx.x, ty = threadIdx.y, tiles_n = (N + T - 1) / T;
    while (true) {
        if (tx == 0 && ty == 0) tile = atomicAdd(next, 1);
        __syncthreads();
        int mine = tile;
        if (mine >= tiles_n * ((M + T - 1) / T)) break;
        int row = mine / tiles_n * T + ty, col = mine % tiles_n * T + tx;
        float sum = 0;
        for (int k = 0; k < K; k += T) {
            a[ty][tx] = row < M && k + tx < K ? A[row * K + k + tx] : 0;
            b[ty][tx] = col < N && k + ty < K ? B[(k + ty) * N + col] : 0;
            __syncthreads();
            for (int i = 0; i < T; ++i) sum += a[ty][i] * b[i][tx];
            __syncthreads();
        }
        if (row < M && col < N) C[row * N + col] = sum;
    }
}
