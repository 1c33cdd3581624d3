extern "C" __global__ void
lab1(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int row = blockIdx.y * 8 + threadIdx.y;
    const int col = blockIdx.x * 128 + threadIdx.x;  // and 32, 64, 96 columns on
    if (row >= M) return;
    float sum[4] = {};
    for (int k = 0; k < K; ++k) {
        const float a = A[row * K + k];
        for (int i = 0; i < 4; ++i) {
            if (col + i * 32 < N) sum[i] += a * B[k * N + col + i * 32];
        }
    }
    for (int i = 0; i < 4; ++i) {
        if (col + i * 32 < N) C[row * N + col + i * 32] = sum[i];
    }
}
