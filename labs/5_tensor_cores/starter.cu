// Lab 5: C = A B on Tensor Cores, from tiles of halves, for any M, N and K.
// Blocks have 128 threads, four warps; there is one for each 64 x 64 elements of C.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;

const int BM = 64, BN = 64, BK = 32;

extern "C" __global__ void
lab5(const half* A, const half* B, float* C, int M, int N, int K)
{
    __shared__ __align__(32) half A_tile[BM][BK];
    __shared__ __align__(32) half B_tile[BK][BN];

    // Each warp holds a part of the block's 64 x 64 in fragments. Load tiles, meet, multiply,
    // meet; at the end let the fragments out.
}
