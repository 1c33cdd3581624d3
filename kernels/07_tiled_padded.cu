// The tiled kernel without a single bounds check: the matrices fit the tiles.
//
// New since 06_tiled.cu: whoever calls pads A, B and C with zeros until TILE
// divides M, N and K, and cuts the result out of C afterwards. Zeros add nothing to
// a dot product, no thread takes another path than its neighbours, and every load
// is unconditional. (Document P.)
//
// A is M x K, B is K x N, C is M x N, all row-major; M, N and K are multiples of
// TILE.
// Block: TILE x TILE threads, one element of C each. Grid: N / TILE x M / TILE.

#ifndef TILE
#define TILE 32  // edge of the tiles of A, B and C
#endif

static_assert(TILE * TILE <= 1024,
              "one thread an element: a block holds at most 1024 threads");

extern "C" __global__ void __launch_bounds__(TILE * TILE)
tiled_padded(const float* A, const float* B, float* C, int M, int N, int K)
{
    __shared__ float A_tile[TILE][TILE];
    __shared__ float B_tile[TILE][TILE];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty;
    const int col = blockIdx.x * TILE + tx;

    // Its element of the first A tile.
    const float* A_src = A + size_t(row) * K + tx;
    const float* B_src = B + size_t(ty) * N + col;  // and of the first B tile

    float sum = 0.0f;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        // Global to shared: one element of A and one of B.
        A_tile[ty][tx] = *A_src;
        B_tile[ty][tx] = *B_src;
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
    C[size_t(row) * N + col] = sum;
}
