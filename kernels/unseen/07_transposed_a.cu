// C = At B: A is stored K x M, B is K x N, C is M x N. A thread computes one
// element of C.
// Blocks of 32 x 8 threads; M and N are multiples of 32 and 8.

extern "C" __global__ void
transposed_a(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int col = blockIdx.x * 32 + threadIdx.x;
    const int row = blockIdx.y * 8 + threadIdx.y;
    float sum = 0.0f;
    for (int k = 0; k < K; ++k) {
        sum += A[k * M + row] * B[k * N + col];
    }
    C[row * N + col] = sum;
}
