__global__ void mm(const float* At, const float* Bt, float* C, int M, int N, int K) {
    __shared__ float a[16][16 + 1], b[16][16 + 1];
    const int x = threadIdx.x, y = threadIdx.y, m0 = blockIdx.y * 16, n0 = blockIdx.x * 16;
    float sum = 0;
    for (int k = 0; k < K; k += 16) {
        a[y][x] = k + y < K && m0 + x < M ? At[(k + y) * M + m0 + x] : 0;  // a[k][m]
        b[y][x] = n0 + y < N && k + x < K ? Bt[(n0 + y) * K + k + x] : 0;  // b[n][k]
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += a[i][y] * b[x][i];
        __syncthreads();
    }
    if (m0 + y < M && n0 + x < N) C[(m0 + y) * N + n0 + x] = sum;
}
