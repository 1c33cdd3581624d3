// C = A Bt: A is M x K, B is stored N x K, C is M x N. Tiles of 32 in shared
// memory.
// Blocks of 32 x 32 threads; M, N and K are multiples of 32.

extern "C" __global__ void
transposed_b(const float* A, const float* B, float* C, int M, int N, int K)
{
    // volatile: every read of them is a read of its own
    __shared__ volatile float A_tile[32][32];
    __shared__ volatile float B_tile[32][32];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * 32 + ty, col = blockIdx.x * 32 + tx;
    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += 32) {
        A_tile[ty][tx] = A[row * K + k0 + tx];
        B_tile[ty][tx] = B[(blockIdx.x * 32 + ty) * K + k0 + tx];
        __syncthreads();
        for (int k = 0; k < 32; ++k) {
            sum += A_tile[ty][k] * B_tile[tx][k];
        }
        __syncthreads();
    }
    C[row * N + col] = sum;
}
