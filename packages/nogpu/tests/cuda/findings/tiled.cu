extern "C" __global__ void tiled(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float A_tile[16][16];
    __shared__ float B_tile[16][16];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 16) {
        A_tile[ty][tx] = row < M && k0 + tx < K ? A[row * K + k0 + tx] : 0.0f;
        B_tile[ty][tx] = k0 + ty < K && col < N ? B[(k0 + ty) * N + col] : 0.0f;
        __syncthreads();  // filled
        for (int k = 0; k < 16; ++k) {
            sum += A_tile[ty][k] * B_tile[k][tx];
        }
        __syncthreads();  // used
    }
    if (row < M && col < N) {
        C[row * N + col] = sum;
    }
}
