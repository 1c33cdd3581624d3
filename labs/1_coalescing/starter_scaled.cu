// Lab 1: C = alpha A B + beta C. A, B and C all lie column by column. The kernel is right, and it is slow.
// A block has 32 x 8 threads and computes 32 x 32 elements of C: a thread computes four of them.
extern "C" __global__ void
lab1(const float* A, const float* B, float* C, int M, int N, int K,
     float alpha, float beta)
{
    const int m0 = blockIdx.y * 32, n0 = blockIdx.x * 32;
    for (int i = 0; i < 32; i += 8) {
        const int row = m0 + threadIdx.y + i;
        const int col = n0 + threadIdx.x;
        if (row < M && col < N) {
            float sum = 0.0f;
            for (int k = 0; k < K; ++k) {
                sum += A[k * M + row] * B[col * K + k];
            }
            C[col * M + row] = alpha * sum + beta * C[col * M + row];
        }
    }
}
