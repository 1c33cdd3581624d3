// Lab 2: C = A B in tiles of shared memory, for any M, N and K.
// Blocks have 16 x 16 threads; there is one for each 16 x 16 elements of C.
extern "C" __global__ void
lab2(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int T = 16;
    __shared__ float A_tile[T][T];
    __shared__ float B_tile[T][T];

    // Load a tile of each, meet, multiply, meet; store the sum.
}
