// C = A B: a thread computes a row of eight elements of C, 16 columns apart.
// Blocks of 16 x 16 threads, tiles of 16 x 16 and 16 x 128; M, K multiples of 16,
// N of 128.

extern "C" __global__ void
row_of_eight(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float A_tile[16][16];
    __shared__ float B_tile[16][128];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int m0 = blockIdx.y * 16, n0 = blockIdx.x * 128;
    float sum[8] = {};
    for (int k0 = 0; k0 < K; k0 += 16) {
        A_tile[ty][tx] = A[(m0 + ty) * K + k0 + tx];
        for (int j = 0; j < 8; ++j) {
            B_tile[ty][tx + 16 * j] = B[(k0 + ty) * N + n0 + tx + 16 * j];
        }
        __syncthreads();
        for (int k = 0; k < 16; ++k) {
            const float a_frag = A_tile[ty][k];
            for (int j = 0; j < 8; ++j) {
                sum[j] += a_frag * B_tile[k][tx + 16 * j];
            }
        }
        __syncthreads();
    }
    for (int j = 0; j < 8; ++j) {
        C[(m0 + ty) * N + n0 + tx + 16 * j] = sum[j];
    }
}
