// A block computes a BM x BN tile of C; each thread a TM x TN patch of it, in
// registers.
//
// New since 08_block_1d.cu: a thread's results form a patch instead of a column. At
// each k it reads TM values of A_tile and TN of B_tile into registers and
// multiplies every one with every other: TM * TN multiply-adds for TM + TN reads.
// The tile of C grows to 128 x 128, so a thread now copies several elements of each
// tile.
//
// A is M x K, B is K x N, C is M x N, all row-major.
// Block: (BM / TM) * (BN / TN) threads. Grid: cdiv(N, BN) x cdiv(M, BM).

#ifndef BM
#define BM 128  // rows of C a block
#endif
#ifndef BN
#define BN 128  // columns of C a block
#endif
#ifndef BK
#define BK 8  // steps of k between barriers
#endif
#ifndef TM
#define TM 8  // rows of C a thread
#endif
#ifndef TN
#define TN 8  // columns of C a thread
#endif

constexpr int THREADS = (BM / TM) * (BN / TN);
constexpr int A_STEP = THREADS / BK;  // rows of A copied in one go
constexpr int B_STEP = THREADS / BN;  // rows of B copied in one go

static_assert(BM % TM == 0 && BN % TN == 0, "threads split the tile of C evenly");
static_assert(THREADS % BK == 0, "the block copies whole rows of A in one go");
static_assert(BM % A_STEP == 0, "every thread copies equally many elements of A");
static_assert(THREADS % BN == 0, "the block copies whole rows of B in one go");
static_assert(BK % B_STEP == 0, "every thread copies equally many elements of B");
static_assert(BK * (BM + BN) * sizeof(float) <= 48 * 1024,
              "the tiles fit the 48 KB of static shared memory");
static_assert(THREADS <= 1024, "a block holds at most 1024 threads");

extern "C" __global__ void __launch_bounds__(THREADS)
block_2d(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float A_tile[BM][BK];
    __shared__ float B_tile[BK][BN];

    const int m0 = blockIdx.y * BM;  // origin of the block's tile of C
    const int n0 = blockIdx.x * BN;

    // The elements that this thread copies: every A_STEP-th row of A, every
    // B_STEP-th row of B.
    const int a_row = threadIdx.x / BK;
    const int a_col = threadIdx.x % BK;
    const int b_row = threadIdx.x / BN;
    const int b_col = threadIdx.x % BN;
    const int rows_left = M - (m0 + a_row);  // rows of A from its first one on
    const bool b_inside = n0 + b_col < N;
    const float* A_src = A + size_t(m0 + a_row) * K + a_col;
    const float* B_src = B + size_t(b_row) * N + n0 + b_col;

    // The patch of C that this thread computes starts here, within the tile.
    const int c_row = threadIdx.x / (BN / TN) * TM;
    const int c_col = threadIdx.x % (BN / TN) * TN;

    float sum[TM][TN] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        // Global to shared; zero where a tile leaves the matrix.
        for (int i = 0; i < BM; i += A_STEP) {
            const bool inside = i < rows_left && k0 + a_col < K;
            A_tile[a_row + i][a_col] = inside ? A_src[size_t(i) * K] : 0.0f;
        }
        for (int i = 0; i < BK; i += B_STEP) {
            const bool inside = b_inside && k0 + b_row + i < K;
            B_tile[b_row + i][b_col] = inside ? B_src[size_t(i) * N] : 0.0f;
        }
        __syncthreads();  // both tiles are complete

        // Advance to the next BK columns of A and the next BK rows of B.
        A_src += BK;
        B_src += size_t(BK) * N;

        #pragma unroll
        for (int k = 0; k < BK; ++k) {
            // Shared to registers: TM values of A, TN values of B.
            float a_frag[TM];
            float b_frag[TN];
            for (int i = 0; i < TM; ++i) {
                a_frag[i] = A_tile[c_row + i][k];
            }
            for (int j = 0; j < TN; ++j) {
                b_frag[j] = B_tile[k][c_col + j];
            }

            // Registers only: their outer product.
            for (int i = 0; i < TM; ++i) {
                for (int j = 0; j < TN; ++j) {
                    sum[i][j] += a_frag[i] * b_frag[j];
                }
            }
        }
        __syncthreads();  // everyone has read the tiles: they may be overwritten
    }

    // Registers to global.
    for (int i = 0; i < TM; ++i) {
        for (int j = 0; j < TN; ++j) {
            const int row = m0 + c_row + i;
            const int col = n0 + c_col + j;
            if (row < M && col < N) {
                C[size_t(row) * N + col] = sum[i][j];
            }
        }
    }
}
