__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K, int* next) {
    __shared__ int tile;
    const int across = (N + 15) / 16, tiles = across * ((M + 7) / 8);
    for (;;) {
        if (threadIdx.x == 0) tile = atomicAdd(next, 1);
        __syncthreads();
        const int mine = tile;
        __syncthreads();
        if (mine >= tiles) break;
        const int m = mine / across * 8 + threadIdx.x / 16, n = mine % across * 16 + threadIdx.x % 16;
        if (m < M && n < N) {
            float s = 0;
            for (int k = 0; k < K; ++k) s += A[m * K + k] * B[k * N + n];
            C[m * N + n] = s;
        }
    }
}
