// A block computes a flat tile of C: TILE_ROWS rows, TILE_COLS columns.
//
// New since 06_tiled.cu: the tile is not square. A row of 32 keeps a warp's loads
// in one row of the matrix, and 8 rows keep the block at 256 threads, of which an
// SM can hold several. B's tile stays TILE_COLS high, so each thread copies several
// of its rows. (Document P.)
//
// A is M x K, B is K x N, C is M x N, all row-major.
// Block: TILE_COLS x TILE_ROWS threads, one element of C each.
// Grid: cdiv(N, TILE_COLS) x cdiv(M, TILE_ROWS).

#ifndef TILE_ROWS
#define TILE_ROWS 8  // rows of the tiles of A and C
#endif
#ifndef TILE_COLS
#define TILE_COLS 32  // columns of all three tiles, rows of the tile of B
#endif

static_assert(TILE_ROWS * TILE_COLS <= 1024, "a block holds at most 1024 threads");
static_assert(TILE_COLS % TILE_ROWS == 0,
              "every thread copies equally many rows of B");

extern "C" __global__ void __launch_bounds__(TILE_ROWS * TILE_COLS)
tiled_rect(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float A_tile[TILE_ROWS][TILE_COLS];
    __shared__ float B_tile[TILE_COLS][TILE_COLS];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int row = blockIdx.y * TILE_ROWS + ty;
    const int col = blockIdx.x * TILE_COLS + tx;

    // Its element of the first A tile.
    const float* A_src = A + size_t(row) * K + tx;
    const float* B_src = B + size_t(ty) * N + col;  // and of the first B tile

    // This thread has an element of A to copy while k0 < a_end; of row r of B while
    // k0 + r < b_end.
    const int a_end = row < M ? K - tx : 0;
    const int b_end = col < N ? K - ty : 0;

    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TILE_COLS) {
        // Global to shared: one element of A; zero where the tile leaves the
        // matrix.
        A_tile[ty][tx] = k0 < a_end ? *A_src : 0.0f;

        // Global to shared: every TILE_ROWS-th row of B.
        for (int r = 0; r < TILE_COLS; r += TILE_ROWS) {
            B_tile[r + ty][tx] = k0 + r < b_end ? *B_src : 0.0f;
            B_src += size_t(TILE_ROWS) * N;
        }
        __syncthreads();  // both tiles are complete

        // Shared to registers: a row of A_tile times a column of B_tile.
        for (int k = 0; k < TILE_COLS; ++k) {
            sum += A_tile[ty][k] * B_tile[k][tx];
        }
        __syncthreads();  // everyone has read the tiles: they may be overwritten

        A_src += TILE_COLS;  // on to the next columns of A; B_src is there already
    }

    // Registers to global.
    if (row < M && col < N) {
        C[size_t(row) * N + col] = sum;
    }
}
