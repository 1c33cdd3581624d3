extern "C" __global__ void k(const unsigned* A, const unsigned* B, u64 b, float* D, int n)
{
    extern __shared__ __align__(1024) unsigned tiles[];
    fill(tiles, B, 128);
    settled();
    const unsigned* from = A + threadIdx.x / 32 * 128 + threadIdx.x % 32 / 4 * 8 + threadIdx.x % 4;
    float d[8] = {};
    #pragma unroll 1
    for (int i = 0; i < n; ++i) {
        unsigned a[4] = {from[512 * i], from[512 * i + 64], from[512 * i + 4], from[512 * i + 68]};
        fence();
        multiply(d, a, b, 1);
        commit();
        INSIDE
    }
    wait<0>();
    for (int i = 0; i < 8; ++i) D[row_of(i) * 16 + column_of(i)] = d[i];
}
