extern "C" __global__ void
lab2(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int T = 16;
    __shared__ float A_tile[T][T + 1];
    __shared__ float B_tile[T][T];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * T + ty, col = blockIdx.x * T + tx;
    const int a_row = blockIdx.y * T + tx;  // neighbours along a column of A, which is stored K x M
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += T) {
        A_tile[ty][tx] = a_row < M && k0 + ty < K ? A[(k0 + ty) * M + a_row] : 0.0f;
        B_tile[ty][tx] = k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : 0.0f;
        __syncthreads();  // complete
        for (int k = 0; k < T; ++k) {
            sum += A_tile[k][ty] * B_tile[k][tx];
        }
        __syncthreads();  // read
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
