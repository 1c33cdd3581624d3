// Lab 1: C = A B. A, B and C all lie column by column. The kernel is right, and it is slow.
// A block has 32 x 8 threads and computes 8 columns of 128 elements of C: a thread computes four of a column.
extern "C" __global__ void
lab1(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int m0 = blockIdx.x * 128;
    const int col = blockIdx.y * 8 + threadIdx.y;
    for (int i = 0; i < 4; ++i) {
        const int row = m0 + threadIdx.x * 4 + i;
        if (row < M && col < N) {
            float sum = 0.0f;
            for (int k = 0; k < K; ++k) {
                sum += A[k * M + row] * B[col * K + k];
            }
            C[col * M + row] = sum;
        }
    }
}
