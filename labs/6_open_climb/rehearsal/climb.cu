// 8 x 8 of C a thread, everything in fours, lanes in squares of two by two, two buffers.
const bool A_TRANSPOSED = true, B_TRANSPOSED = false, C_TRANSPOSED = false;
const int BM = 128, BN = 128, BK = 16, THREADS = 256, PAD = 4;

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

using Tile = float[BK][128 + PAD];  // a row holds one k of 128 rows of A, or columns of B

// This thread's two fours of a tile of R. BY_K: neighbours in memory lie along k.
template <bool BY_K, bool ALIGNED>
struct Copy {
    const float* src;
    int left_r, k, step;
    float4 fours[2];

    __device__ Copy(const float* X, int R, int K, int r0)
    {
        const int t = threadIdx.x;
        const int r = BY_K ? r0 + t % 32 / 2 + t / 32 * 16 : r0 + t % 32 * 4;
        k = BY_K ? t % 2 * 4 : t / 32;
        left_r = R - r;
        step = BY_K ? 8 : 8 * R;
        src = BY_K ? X + size_t(r) * K + k : X + size_t(k) * R + r;
    }
    __device__ void load(int k0, int K)
    {
        for (int i = 0; i < 2; ++i) {
            const int left_k = K - (k0 + k + 8 * i);
            const int left = BY_K ? (left_r > 0 ? left_k : 0) : (left_k > 0 ? left_r : 0);
            fours[i] = load4<ALIGNED>(src, left);
            src += step;
        }
    }
    __device__ void put_down(Tile& tile)
    {
        const int t = threadIdx.x, r = BY_K ? t % 32 / 2 + t / 32 * 16 : t % 32 * 4;
        for (int i = 0; i < 2; ++i) {
            if (BY_K) {
                tile[k + 8 * i + 0][r] = fours[i].x;
                tile[k + 8 * i + 1][r] = fours[i].y;
                tile[k + 8 * i + 2][r] = fours[i].z;
                tile[k + 8 * i + 3][r] = fours[i].w;
            } else {
                *reinterpret_cast<float4*>(&tile[k + 8 * i][r]) = fours[i];
            }
        }
    }
};

template <bool ALIGNED>
__device__ void multiply(const float* A, const float* B, float* C, int M, int N, int K, Tile* A_tile, Tile* B_tile)
{
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int c_row = (warp / 2 * 4 + lane / 2 % 4) * 4;  // and 64 rows on
    const int c_col = (warp % 2 * 8 + lane / 8 * 2 + lane % 2) * 4;  // and 64 columns on

    Copy<!A_TRANSPOSED, ALIGNED> a_copy(A, M, K, m0);
    Copy<B_TRANSPOSED, ALIGNED> b_copy(B, N, K, n0);
    a_copy.load(0, K);
    b_copy.load(0, K);

    float sum[8][8] = {};
    for (int k0 = 0, buffer = 0; k0 < K; k0 += BK, buffer = 1 - buffer) {
        a_copy.put_down(A_tile[buffer]);
        b_copy.put_down(B_tile[buffer]);
        __syncthreads();  // this buffer is complete, everyone has left the other
        a_copy.load(k0 + BK, K);
        b_copy.load(k0 + BK, K);
        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            __align__(16) float a_frag[8], b_frag[8];
            for (int h = 0; h < 2; ++h) {
                *reinterpret_cast<float4*>(&a_frag[h * 4]) = *reinterpret_cast<float4*>(&A_tile[buffer][k][c_row + h * 64]);
                *reinterpret_cast<float4*>(&b_frag[h * 4]) = *reinterpret_cast<float4*>(&B_tile[buffer][k][c_col + h * 64]);
            }
            for (int i = 0; i < 8; ++i)
                for (int j = 0; j < 8; ++j) sum[i][j] += a_frag[i] * b_frag[j];
        }
    }

    for (int i = 0; i < 8; ++i)
        for (int h = 0; h < 2; ++h) {
            if (C_TRANSPOSED) {  // column i of the patch
                const int col = n0 + c_col + i / 4 * 64 + i % 4, row = m0 + c_row + h * 64;
                store4<ALIGNED>(C + size_t(col) * M + row,
                                make_float4(sum[h * 4][i], sum[h * 4 + 1][i], sum[h * 4 + 2][i], sum[h * 4 + 3][i]),
                                col < N ? M - row : 0);
            } else {
                const int row = m0 + c_row + i / 4 * 64 + i % 4, col = n0 + c_col + h * 64;
                store4<ALIGNED>(C + size_t(row) * N + col,
                                make_float4(sum[i][h * 4], sum[i][h * 4 + 1], sum[i][h * 4 + 2], sum[i][h * 4 + 3]),
                                row < M ? N - col : 0);
            }
        }
}

extern "C" __global__ void __launch_bounds__(THREADS)
lab6(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ __align__(16) Tile A_tile[2];
    __shared__ __align__(16) Tile B_tile[2];
    if (M % 4 == 0 && N % 4 == 0 && K % 4 == 0)
        multiply<true>(A, B, C, M, N, K, A_tile, B_tile);
    else
        multiply<false>(A, B, C, M, N, K, A_tile, B_tile);
}
