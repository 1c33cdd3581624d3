// The tiled kernel with PAD unused words at the end of every row in shared memory.
//
// New since 06_tiled.cu: rows of the tiles lie TILE + PAD words apart, so that the
// elements of a COLUMN fall into different banks. Count before you believe that it
// helps: this kernel never reads a column. A warp reads one word of A_tile (or a
// few), and a row of B_tile. (Document S, version 6; its prefetch is in
// 11_prefetch.cu.)
//
// A is M x K, B is K x N, C is M x N, all row-major.
// Block: TILE x TILE threads, one element of C each. Grid: cdiv(N, TILE) x cdiv(M,
// TILE).

#ifndef TILE
#define TILE 32  // edge of the tiles of A, B and C
#endif
#ifndef PAD
#define PAD 1  // unused words at the end of a row of shared memory
#endif

static_assert(TILE * TILE <= 1024,
              "one thread an element: a block holds at most 1024 threads");

extern "C" __global__ void __launch_bounds__(TILE * TILE)
tiled_pad_rows(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float A_tile[TILE][TILE + PAD];
    __shared__ float B_tile[TILE][TILE + PAD];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty;
    const int col = blockIdx.x * TILE + tx;

    // Its element of the first A tile.
    const float* A_src = A + size_t(row) * K + tx;
    const float* B_src = B + size_t(ty) * N + col;  // and of the first B tile

    // This thread has an element of A to copy while k0 < a_end, and one of B while
    // k0 < b_end.
    const int a_end = row < M ? K - tx : 0;
    const int b_end = col < N ? K - ty : 0;

    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        // Global to shared: one element of A and one of B; zero where the tile
        // leaves the matrix.
        A_tile[ty][tx] = k0 < a_end ? *A_src : 0.0f;
        B_tile[ty][tx] = k0 < b_end ? *B_src : 0.0f;
        __syncthreads();  // both tiles are complete

        // Shared to registers: a row of A_tile times a column of B_tile.
        for (int k = 0; k < TILE; ++k) {
            sum += A_tile[ty][k] * B_tile[k][tx];
        }
        __syncthreads();  // everyone has read the tiles: they may be overwritten

        // On to the next TILE columns of A and the next TILE rows of B.
        A_src += TILE;
        B_src += size_t(TILE) * N;
    }

    // Registers to global.
    if (row < M && col < N) {
        C[size_t(row) * N + col] = sum;
    }
}
