// The core of 06_tiled.cu: a block multiplies tiles that it keeps in shared memory.
// Whole tiles only: M, N and K are multiples of 32.

extern "C" __global__ void
tiled_core(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int TILE = 32;  // edge of the tiles of A, B and C
    __shared__ float A_tile[TILE][TILE];
    __shared__ float B_tile[TILE][TILE];

    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty;  // this thread's element of C
    const int col = blockIdx.x * TILE + tx;

    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        // Global to shared: one element of A and one of B.
        A_tile[ty][tx] = A[row * K + k0 + tx];
        B_tile[ty][tx] = B[(k0 + ty) * N + col];
        __syncthreads();  // both tiles are complete

        for (int k = 0; k < TILE; ++k) {
            // Shared to registers: one element of each tile.
            sum += A_tile[ty][k] * B_tile[k][tx];
        }
        __syncthreads();  // everyone has read them: they may be overwritten
    }
    C[row * N + col] = sum;  // register to global
}
