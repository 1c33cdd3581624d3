// The core of 04_naive.cu: one thread, one element of C; the next one is below.
// Whole blocks only: M and N are multiples of 32.

extern "C" __global__ void
naive_core(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int BX = 32, BY = 32;  // threads of a block: rows and columns of C

    const int row = blockIdx.x * BX + threadIdx.x;
    const int col = blockIdx.y * BY + threadIdx.y;

    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        // Global to registers: one element of A and one of B.
        sum += A[row * K + k] * B[k * N + col];
    }
    C[row * N + col] = sum;  // register to global
}
