extern "C" __global__ void
lab1(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int m0 = blockIdx.x * 128;
    const int col = blockIdx.y * 8 + threadIdx.y;
    for (int i = 0; i < 128; i += 32) {
        const int row = m0 + i + threadIdx.x;  // dealt out in turn: neighbours to neighbours
        if (row < M && col < N) {
            float sum = 0.0f;
            for (int k = 0; k < K; ++k) {
                sum += A[k * M + row] * B[col * K + k];
            }
            C[col * M + row] = sum;
        }
    }
}
