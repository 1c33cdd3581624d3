// y = x transposed (both square, `edge` wide), tiles of 32 x 32 with rows of 36
// words.
// Blocks of 32 x 8 threads; edge is a multiple of 32.

extern "C" __global__ void turned_tile(const float* x, float* y, int edge)
{
    __shared__ float tile[32][36];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row0 = blockIdx.y * 32, col0 = blockIdx.x * 32;
    for (int i = ty; i < 32; i += 8) {
        tile[i][tx] = x[(row0 + i) * edge + col0 + tx];
    }
    __syncthreads();
    for (int i = ty; i < 32; i += 8) {
        y[(col0 + i) * edge + row0 + tx] = tile[tx][i];
    }
}
