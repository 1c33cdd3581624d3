extern "C" __global__ void k(const unsigned* A, const unsigned* B, u64 b, float* D)
{
    extern __shared__ __align__(1024) unsigned tiles[];
    fill(tiles, B, B_WORDS);
    settled();
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4, word = threadIdx.x % 4;
    unsigned a[4] = {A[row * 8 + word], A[(row + ROWS) * 8 + word],
                     A[row * 8 + word + 4], A[(row + ROWS) * 8 + word + 4]};
    float d[COUNT] = {};
    fence();
    multiply(d, a, b, 1);
    commit();
    wait<0>();
    for (int i = 0; i < COUNT; ++i) D[row_of(i) * N + column_of(i)] = d[i];
}
