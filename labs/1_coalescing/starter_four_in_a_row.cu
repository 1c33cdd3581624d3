// Lab 1: C = A B. A, B and C all lie row by row. The kernel is right, and it is slow.
// A block has 32 x 8 threads and computes 8 rows of 128 elements of C: a thread computes four of a row.
extern "C" __global__ void
lab1(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int row = blockIdx.y * 8 + threadIdx.y;
    const int n0 = blockIdx.x * 128;
    for (int i = 0; i < 4; ++i) {
        const int col = n0 + threadIdx.x * 4 + i;
        if (row < M && col < N) {
            float sum = 0.0f;
            for (int k = 0; k < K; ++k) {
                sum += A[row * K + k] * B[k * N + col];
            }
            C[row * N + col] = sum;
        }
    }
}
