// C = A B with a patch of 2 x 16 a thread. Blocks of 32 x 8 threads, tiles of 16 x
// 16 and 16 x 512.
// M, K are multiples of 16, N of 512.

extern "C" __global__ void
thin_patch(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float A_tile[16][16];
    __shared__ float B_tile[16][512];
    const int tx = threadIdx.x, ty = threadIdx.y, t = ty * 32 + tx;
    const int m0 = blockIdx.y * 16, n0 = blockIdx.x * 512;
    float sum[2][16] = {};
    for (int k0 = 0; k0 < K; k0 += 16) {
        A_tile[t / 16][t % 16] = A[(m0 + t / 16) * K + k0 + t % 16];
        for (int i = t; i < 16 * 512; i += 256) {
            B_tile[i / 512][i % 512] = B[(k0 + i / 512) * N + n0 + i % 512];
        }
        __syncthreads();
        for (int k = 0; k < 16; ++k) {
            const float top = A_tile[2 * ty][k], low = A_tile[2 * ty + 1][k];
            for (int j = 0; j < 16; ++j) {
                const float b_frag = B_tile[k][tx + 32 * j];
                sum[0][j] += top * b_frag;
                sum[1][j] += low * b_frag;
            }
        }
        __syncthreads();
    }
    for (int j = 0; j < 16; ++j) {
        C[(m0 + 2 * ty) * N + n0 + tx + 32 * j] = sum[0][j];
        C[(m0 + 2 * ty + 1) * N + n0 + tx + 32 * j] = sum[1][j];
    }
}
