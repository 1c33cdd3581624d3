// Complex numbers, interleaved.
extern "C" __global__ void complex_tiles(const cuFloatComplex* A, const cuFloatComplex* B,
                                         cuFloatComplex* C, int M, int N, int K) {
    __shared__ cuFloatComplex a_tile[16][16], b_tile[16][16];
    int i = threadIdx.y, j = threadIdx.x, m = blockIdx.y * 16 + i, n = blockIdx.x * 16 + j;
    cuFloatComplex sum = make_cuFloatComplex(0, 0), zero = sum;
    for (int k0 = 0; k0 < K; k0 += 16) {
        a_tile[i][j] = m < M && k0 + j < K ? A[m * K + k0 + j] : zero;
        b_tile[i][j] = k0 + i < K && n < N ? B[(k0 + i) * N + n] : zero;
        __syncthreads();
        for (int k = 0; k < 16; ++k) sum = cuCfmaf(a_tile[i][k], b_tile[k][j], sum);
        __syncthreads();  // all have multiplied
    }
    if (m < M && n < N) C[m * N + n] = sum;
}
