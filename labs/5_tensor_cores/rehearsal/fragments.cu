// Tiles of halves, zero outside the matrices; a warp holds 32 x 32 of C in four fragments.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

const bool A_TRANSPOSED = true, B_TRANSPOSED = false;
const int BM = 64, BN = 64, BK = 32, PAD = 8, THREADS = 128;

// An operand's tile lies as the operand does: ROWS x COLS of it, from (row0, col0) on.
template <int ROWS, int COLS>
__device__ void copy(half (&tile)[ROWS][COLS + PAD], const half* X, int rows, int cols, int row0, int col0)
{
    for (int e = threadIdx.x; e < ROWS * COLS; e += THREADS) {
        const int r = e / COLS, c = e % COLS;
        const bool inside = row0 + r < rows && col0 + c < cols;
        tile[r][c] = inside ? X[size_t(row0 + r) * cols + col0 + c] : __float2half(0.0f);
    }
}

const int A_ROWS = A_TRANSPOSED ? BK : BM, A_COLS = A_TRANSPOSED ? BM : BK;
const int B_ROWS = B_TRANSPOSED ? BN : BK, B_COLS = B_TRANSPOSED ? BK : BN;
template <bool T> struct Lies { using Way = wmma::row_major; };
template <> struct Lies<true> { using Way = wmma::col_major; };

extern "C" __global__ void __launch_bounds__(THREADS)
lab5(const half* A, const half* B, float* C, int M, int N, int K)
{
    __shared__ __align__(32) half A_tile[A_ROWS][A_COLS + PAD];
    __shared__ __align__(32) half B_tile[B_ROWS][B_COLS + PAD];
    __shared__ __align__(32) float C_tile[BM][BN + 4];
    const int m0 = blockIdx.y * BM, n0 = blockIdx.x * BN;
    const int warp = threadIdx.x / 32, warp_m = warp / 2 * 32, warp_n = warp % 2 * 32;

    wmma::fragment<wmma::accumulator, 16, 16, 16, float> c_frag[2][2];
    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j) wmma::fill_fragment(c_frag[i][j], 0.0f);

    for (int k0 = 0; k0 < K; k0 += BK) {
        copy<A_ROWS, A_COLS>(A_tile, A, A_TRANSPOSED ? K : M, A_TRANSPOSED ? M : K, A_TRANSPOSED ? k0 : m0, A_TRANSPOSED ? m0 : k0);
        copy<B_ROWS, B_COLS>(B_tile, B, B_TRANSPOSED ? N : K, B_TRANSPOSED ? K : N, B_TRANSPOSED ? n0 : k0, B_TRANSPOSED ? k0 : n0);
        __syncthreads();  // complete
        for (int k = 0; k < BK; k += 16) {
            wmma::fragment<wmma::matrix_a, 16, 16, 16, half, Lies<A_TRANSPOSED>::Way> a_frag[2];
            wmma::fragment<wmma::matrix_b, 16, 16, 16, half, Lies<B_TRANSPOSED>::Way> b_frag[2];
            for (int i = 0; i < 2; ++i) {
                const int m = warp_m + i * 16, n = warp_n + i * 16;
                wmma::load_matrix_sync(a_frag[i], A_TRANSPOSED ? &A_tile[k][m] : &A_tile[m][k], A_COLS + PAD);
                wmma::load_matrix_sync(b_frag[i], B_TRANSPOSED ? &B_tile[n][k] : &B_tile[k][n], B_COLS + PAD);
            }
            for (int i = 0; i < 2; ++i)
                for (int j = 0; j < 2; ++j) wmma::mma_sync(c_frag[i][j], a_frag[i], b_frag[j], c_frag[i][j]);
        }
        __syncthreads();  // read
    }

    for (int i = 0; i < 2; ++i)
        for (int j = 0; j < 2; ++j)
            wmma::store_matrix_sync(&C_tile[warp_m + i * 16][warp_n + j * 16], c_frag[i][j], BN + 4, wmma::mem_row_major);
    __syncthreads();  // all of the block's C is there
    for (int e = threadIdx.x; e < BM * BN; e += THREADS) {
        const int row = m0 + e / BN, col = n0 + e % BN;
        if (row < M && col < N) C[size_t(row) * N + col] = C_tile[e / BN][e % BN];
    }
}
