// A block computes a BM x BN tile of C; each thread a TM x 1 column of it, in
// registers.
//
// New since 06_tiled.cu: a thread owns TM results instead of one. At each k it
// reads one value of B_tile into a register and uses it TM times. With TM results a
// thread, the block needs TM times fewer threads than C_tile has elements, and the
// tiles shrink along K to BK so that every thread copies exactly one element of
// each.
//
// A is M x K, B is K x N, C is M x N, all row-major.
// Block: BM * BN / TM threads. Grid: cdiv(N, BN) x cdiv(M, BM).

#ifndef BM
#define BM 64  // rows of C a block
#endif
#ifndef BN
#define BN 64  // columns of C a block
#endif
#ifndef BK
#define BK 8  // steps of k between barriers
#endif
#ifndef TM
#define TM 8  // rows of C a thread
#endif

#if __CUDA_ARCH__ < 800
constexpr int SM_THREADS = 1024;  // threads that an SM holds at most
#else
constexpr int SM_THREADS = 2048;  // if 1536: BLOCKS_PER_SM is ignored
#endif

constexpr int THREADS = BM * BN / TM;
// To fill the SM: limits a thread's registers.
constexpr int BLOCKS_PER_SM = SM_THREADS / THREADS;

static_assert(BM % TM == 0, "threads split the rows of the tile evenly");
static_assert(BM * BK == THREADS, "each thread copies one element of A");
static_assert(BK * BN == THREADS, "each thread copies one element of B");
static_assert(THREADS <= 1024, "a block holds at most 1024 threads");

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM)
block_1d(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float A_tile[BM][BK];
    __shared__ float B_tile[BK][BN];

    const int m0 = blockIdx.y * BM;  // origin of the block's tile of C
    const int n0 = blockIdx.x * BN;

    // The element of each tile that this thread copies: neighbours along a row of A
    // and of B.
    const int a_row = threadIdx.x / BK;
    const int a_col = threadIdx.x % BK;
    const int b_row = threadIdx.x / BN;
    const int b_col = threadIdx.x % BN;
    const float* A_src = A + size_t(m0 + a_row) * K + a_col;
    const float* B_src = B + size_t(b_row) * N + n0 + b_col;
    const int a_end = m0 + a_row < M ? K - a_col : 0;  // copies A while k0 < a_end
    const int b_end = n0 + b_col < N ? K - b_row : 0;  // and B while k0 < b_end

    // The column of C that this thread computes: TM rows from c_row on.
    const int c_row = threadIdx.x / BN * TM;
    const int c_col = threadIdx.x % BN;

    float sum[TM] = {};
    for (int k0 = 0; k0 < K; k0 += BK) {
        // Global to shared: one element of A and one of B; zero where the tile
        // leaves the matrix.
        A_tile[a_row][a_col] = k0 < a_end ? *A_src : 0.0f;
        B_tile[b_row][b_col] = k0 < b_end ? *B_src : 0.0f;
        __syncthreads();  // both tiles are complete

        // Advance to the next BK columns of A and the next BK rows of B.
        A_src += BK;
        B_src += size_t(BK) * N;

        for (int k = 0; k < BK; ++k) {
            const float b_frag = B_tile[k][c_col];  // read once for TM products
            for (int i = 0; i < TM; ++i) {
                sum[i] += A_tile[c_row + i][k] * b_frag;
            }
        }
        __syncthreads();  // everyone has read the tiles: they may be overwritten
    }

    // Registers to global: a warp stores 32 neighbours of one row at a time.
    for (int i = 0; i < TM; ++i) {
        const int row = m0 + c_row + i;
        const int col = n0 + c_col;
        if (row < M && col < N) {
            C[size_t(row) * N + col] = sum[i];
        }
    }
}
