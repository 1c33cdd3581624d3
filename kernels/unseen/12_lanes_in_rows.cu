// C = A B with 8 x 8 a thread and A turned in shared memory; a warp's lanes are 2
// rows of 16.
// Blocks of 256 threads, tiles of 128 x 8 and 8 x 128; M, N multiples of 128, K of
// 8.

extern "C" __global__ void
lanes_in_rows(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float A_tile[8][128];
    __shared__ float B_tile[8][128];
    const int t = threadIdx.x;
    const int m0 = blockIdx.y * 128, n0 = blockIdx.x * 128;
    const int c_row = t / 16 * 8, c_col = t % 16 * 8;
    float sum[8][8] = {};
    for (int k0 = 0; k0 < K; k0 += 8) {
        for (int i = t; i < 1024; i += 256) {
            A_tile[i / 128][i % 128] = A[(m0 + i % 128) * K + k0 + i / 128];
            B_tile[i / 128][i % 128] = B[(k0 + i / 128) * N + n0 + i % 128];
        }
        __syncthreads();
        for (int k = 0; k < 8; ++k) {
            float a_frag[8], b_frag[8];
            *(float4*)&a_frag[0] = *(float4*)&A_tile[k][c_row];
            *(float4*)&a_frag[4] = *(float4*)&A_tile[k][c_row + 4];
            *(float4*)&b_frag[0] = *(float4*)&B_tile[k][c_col];
            *(float4*)&b_frag[4] = *(float4*)&B_tile[k][c_col + 4];
            for (int i = 0; i < 8; ++i) {
                for (int j = 0; j < 8; ++j) sum[i][j] += a_frag[i] * b_frag[j];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 8; ++i) {
        for (int j = 0; j < 8; ++j)
            C[(m0 + c_row + i) * N + n0 + c_col + j] = sum[i][j];
    }
}
