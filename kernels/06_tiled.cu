// A block computes a TILE x TILE tile of C from tiles of A and B kept in shared
// memory.
//
// New since 05_coalesced.cu: the block walks along K in steps of TILE. Each thread
// copies one element of A and one of B into shared memory; after a barrier every
// thread reads TILE elements of each from there. Global memory is read TILE times
// less often.
//
// A is M x K, B is K x N, C is M x N, all row-major.
// Block: TILE x TILE threads, one element of C each. Grid: cdiv(N, TILE) x cdiv(M,
// TILE).

#ifndef ELEMENT
#define ELEMENT float  // element type: float or int
#endif
#ifndef TILE
#define TILE 32  // edge of the tiles of A, B and C
#endif

using T = ELEMENT;

static_assert(TILE * TILE <= 1024,
              "one thread an element: a block holds at most 1024 threads");

extern "C" __global__ void __launch_bounds__(TILE * TILE)
tiled(const T* A, const T* B, T* C, int M, int N, int K)
{
    __shared__ T A_tile[TILE][TILE];
    __shared__ T B_tile[TILE][TILE];

    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int row = blockIdx.y * TILE + ty;
    const int col = blockIdx.x * TILE + tx;

    const T* A_src = A + size_t(row) * K + tx;  // its element of the first A tile
    const T* B_src = B + size_t(ty) * N + col;  // and of the first B tile

    // This thread has an element of A to copy while k0 < a_end, and one of B while
    // k0 < b_end.
    const int a_end = row < M ? K - tx : 0;
    const int b_end = col < N ? K - ty : 0;

    T sum = 0;
    for (int k0 = 0; k0 < K; k0 += TILE) {
        // Global to shared: one element of A and one of B; zero where the tile
        // leaves the matrix.
        A_tile[ty][tx] = k0 < a_end ? *A_src : T(0);
        B_tile[ty][tx] = k0 < b_end ? *B_src : T(0);
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

    // Registers to global: threads outside C helped to load, and store nothing.
    if (row < M && col < N) {
        C[size_t(row) * N + col] = sum;
    }
}
