// A block computes TILE rows and TILE * REG_TILE columns of C; each thread REG_TILE
// elements of one row, TILE columns apart, in private registers.
//
// New since 06_tiled.cu: a value of A_tile read from shared memory feeds REG_TILE
// multiply-adds. The grid has REG_TILE times fewer blocks in x. (Document S,
// version 5, whose blocks overlap unless its grid is divided like this, and which
// reads A_tile again for every element.)
//
// A is M x K, B is K x N, C is M x N, all row-major.
// Block: TILE x TILE threads. Grid: cdiv(N, TILE * REG_TILE) x cdiv(M, TILE).

#ifndef TILE
#define TILE 16  // edge of the tile of A, rows of the tile of B
#endif
#ifndef REG_TILE
#define REG_TILE 2  // elements of C a thread
#endif

constexpr int BN = TILE * REG_TILE;  // columns of C a block

static_assert(TILE * TILE <= 1024, "a block holds at most 1024 threads");
static_assert(TILE * (TILE + BN) * sizeof(float) <= 48 * 1024,
              "the tiles fit the 48 KB of static shared memory");

extern "C" __global__ void __launch_bounds__(TILE * TILE)
privatised(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float A_tile[TILE][TILE];
    __shared__ float B_tile[TILE][BN];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty;
    const int col = blockIdx.x * BN + tx;  // the first of this thread's columns

    const float* A_src = A + size_t(row) * K + tx;
    const float* B_src = B + size_t(ty) * N + col;

    float sum[REG_TILE] = {};
    for (int k0 = 0; k0 < K; k0 += TILE) {
        // Global to shared: one element of A, REG_TILE of B; zero where a tile
        // leaves the matrix.
        A_tile[ty][tx] = row < M && k0 + tx < K ? *A_src : 0.0f;
        for (int r = 0; r < REG_TILE; ++r) {
            const bool inside = col + r * TILE < N && k0 + ty < K;
            B_tile[ty][tx + r * TILE] = inside ? B_src[r * TILE] : 0.0f;
        }
        __syncthreads();  // both tiles are complete

        for (int k = 0; k < TILE; ++k) {
            const float a_frag = A_tile[ty][k];  // read once for REG_TILE products
            for (int r = 0; r < REG_TILE; ++r) {
                sum[r] += a_frag * B_tile[k][tx + r * TILE];
            }
        }
        __syncthreads();  // everyone has read the tiles: they may be overwritten

        // On to the next TILE columns of A and the next TILE rows of B.
        A_src += TILE;
        B_src += size_t(TILE) * N;
    }

    // Registers to global.
    for (int r = 0; r < REG_TILE; ++r) {
        if (row < M && col + r * TILE < N) {
            C[size_t(row) * N + col + r * TILE] = sum[r];
        }
    }
}
