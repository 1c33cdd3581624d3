// Everything moves in fours; both tiles hold one k a row; rows are padded by four floats.
const bool A_TRANSPOSED = true, B_TRANSPOSED = true, C_TRANSPOSED = false;
const int BM = 64, BN = 64, BK = 16, PAD = 4;

// Four neighbours of which `left` lie inside the matrix, and zeros.
template <bool ALIGNED>
__device__ float4 load4(const float* src, int left)
{
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (ALIGNED) {
        if (left > 0) v = *reinterpret_cast<const float4*>(src);
    } else {
        if (left > 0) v.x = src[0];
        if (left > 1) v.y = src[1];
        if (left > 2) v.z = src[2];
        if (left > 3) v.w = src[3];
    }
    return v;
}

template <bool ALIGNED>
__device__ void store4(float* dst, float4 v, int left)
{
    if (ALIGNED) {
        if (left > 0) *reinterpret_cast<float4*>(dst) = v;
    } else {
        if (left > 0) dst[0] = v.x;
        if (left > 1) dst[1] = v.y;
        if (left > 2) dst[2] = v.z;
        if (left > 3) dst[3] = v.w;
    }
}

// A tile of BK steps of k by 64 rows (of A) or columns (of B): "of R". BY_K: neighbours in
// memory lie along k, so that four of them go into four rows of the tile.
template <bool BY_K, bool ALIGNED>
__device__ void copy(float (&tile)[BK][64 + PAD], const float* X, int R, int K, int r0, int k0)
{
    const int t = threadIdx.x;
    if (BY_K) {
        const int r = t / 4, k = t % 4 * 4;
        const float4 v = load4<ALIGNED>(X + size_t(r0 + r) * K + k0 + k, r0 + r < R ? K - (k0 + k) : 0);
        tile[k + 0][r] = v.x;
        tile[k + 1][r] = v.y;
        tile[k + 2][r] = v.z;
        tile[k + 3][r] = v.w;
    } else {
        const int k = t / 16, r = t % 16 * 4;
        *reinterpret_cast<float4*>(&tile[k][r]) =
            load4<ALIGNED>(X + size_t(k0 + k) * R + r0 + r, k0 + k < K ? R - (r0 + r) : 0);
    }
}

template <bool ALIGNED>
__device__ void multiply(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ __align__(16) float A_tile[BK][BM + PAD];
    __shared__ __align__(16) float B_tile[BK][BN + PAD];
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int c_row = threadIdx.x / 16 * 4, c_col = threadIdx.x % 16 * 4;

    float sum[4][4] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        copy<!A_TRANSPOSED, ALIGNED>(A_tile, A, M, K, m0, k0);
        copy<B_TRANSPOSED, ALIGNED>(B_tile, B, N, K, n0, k0);
        __syncthreads();  // complete
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            const float4 a = *reinterpret_cast<const float4*>(&A_tile[k][c_row]);
            const float4 b = *reinterpret_cast<const float4*>(&B_tile[k][c_col]);
            const float a_frag[4] = {a.x, a.y, a.z, a.w}, b_frag[4] = {b.x, b.y, b.z, b.w};
            for (int i = 0; i < 4; ++i)
                for (int j = 0; j < 4; ++j) sum[i][j] += a_frag[i] * b_frag[j];
        }
        __syncthreads();  // read
    }

    for (int i = 0; i < 4; ++i) {
        const int row = m0 + c_row, col = n0 + c_col;
        if (C_TRANSPOSED)
            store4<ALIGNED>(C + size_t(col + i) * M + row, make_float4(sum[0][i], sum[1][i], sum[2][i], sum[3][i]),
                            col + i < N ? M - row : 0);
        else
            store4<ALIGNED>(C + size_t(row + i) * N + col, make_float4(sum[i][0], sum[i][1], sum[i][2], sum[i][3]),
                            row + i < M ? N - col : 0);
    }
}

extern "C" __global__ void __launch_bounds__(256)
lab4(const float* A, const float* B, float* C, int M, int N, int K)
{
    if (M % 4 == 0 && N % 4 == 0 && K % 4 == 0)
        multiply<true>(A, B, C, M, N, K);
    else
        multiply<false>(A, B, C, M, N, K);
}
