extern "C" __global__ void mm(const float* A, const float* B, float* C, int* next,
                              int M, int N, int K) {
    int lane = threadIdx.x % 32, row;
    for (;;) {
        if (lane == 0) row = atomicAdd(next, 1);
        row = __shfl_sync(0xffffffff, row, 0);
        if (row >= M) break;
        for (int col = lane; col < N; col += 32) {
            float sum = 0;
            for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
            C[row * N + col] = sum;
        }
    }
}
