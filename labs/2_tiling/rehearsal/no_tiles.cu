extern "C" __global__ void lab2(const float* A, const float* B, float* C, int M, int N, int K)
{
    int row = blockIdx.y * 16 + threadIdx.y, col = blockIdx.x * 16 + threadIdx.x;
    if (row >= M || col >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[k * M + row] * B[k * N + col];
    C[row * N + col] = sum;
}
