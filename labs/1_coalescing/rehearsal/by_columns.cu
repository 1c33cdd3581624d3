extern "C" __global__ void
lab1(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int row = blockIdx.y * 32 + threadIdx.x;  // down a column of A and of C, where neighbours lie
    const int n0 = blockIdx.x * 32;
    for (int i = 0; i < 32; i += 8) {
        const int col = n0 + threadIdx.y + i;  // one for all lanes of a warp
        if (row < M && col < N) {
            float sum = 0.0f;
            for (int k = 0; k < K; ++k) {
                sum += A[k * M + row] * B[col * K + k];
            }
            C[col * M + row] = sum;
        }
    }
}
