// C = A B with a patch of 4 x 4 a thread, and the loop over k inside those over
// the patch.
// Blocks of 16 x 16 threads, tiles of 64 x 16 and 16 x 64; M, N multiples of 64, K
// of 16.

extern "C" __global__ void
loops_swapped(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float A_tile[64][16];
    __shared__ float B_tile[16][64];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int m0 = blockIdx.y * 64, n0 = blockIdx.x * 64;
    float sum[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += 16) {
        for (int i = 0; i < 4; ++i) {
            A_tile[ty + 16 * i][tx] = A[(m0 + ty + 16 * i) * K + k0 + tx];
            B_tile[ty][tx + 16 * i] = B[(k0 + ty) * N + n0 + tx + 16 * i];
        }
        __syncthreads();
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            #pragma unroll
            for (int j = 0; j < 4; ++j) {
                // read anew for each product
                volatile float* a = &A_tile[ty + 16 * i][0];
                volatile float* b = &B_tile[0][tx + 16 * j];
                for (int k = 0; k < 16; ++k) {
                    sum[i][j] += a[k] * b[64 * k];
                }
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
            C[(m0 + ty + 16 * i) * N + n0 + tx + 16 * j] = sum[i][j];
        }
    }
}
