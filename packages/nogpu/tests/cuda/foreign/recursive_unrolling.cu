template <int I> struct Steps {
    static __device__ void run(float (&acc)[2][2], const float (*a)[4], const float (*b)[16], int y, int x) {
        for (int i = 0; i < 2; ++i)
            for (int j = 0; j < 2; ++j) acc[i][j] += a[y * 2 + i][I - 1] * b[I - 1][x * 2 + j];
        Steps<I - 1>::run(acc, a, b, y, x);
    }
};
template <> struct Steps<0> {
    static __device__ void run(float (&)[2][2], const float (*)[4], const float (*)[16], int, int) {}
};
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[8][4], b[4][16];
    const int t = threadIdx.x, y = t / 8, x = t % 8, m0 = blockIdx.y * 8, n0 = blockIdx.x * 16;
    float acc[2][2] = {};
    for (int k = 0; k < K; k += 4) {
        a[t / 4][t % 4] = m0 + t / 4 < M && k + t % 4 < K ? A[(m0 + t / 4) * K + k + t % 4] : 0;
        for (int i = t; i < 64; i += 32)
            b[i / 16][i % 16] = k + i / 16 < K && n0 + i % 16 < N ? B[(k + i / 16) * N + n0 + i % 16] : 0;
        __syncwarp();
        Steps<4>::run(acc, a, b, y, x);
        __syncwarp();
    }
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) {
            const int m = m0 + y * 2 + i, n = n0 + x * 2 + j;
            if (m < M && n < N) C[m * N + n] = acc[i][j];
        }
}
