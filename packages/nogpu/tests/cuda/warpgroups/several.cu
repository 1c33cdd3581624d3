extern "C" __global__ void k(const unsigned* A, const unsigned* B, u64 a, u64 b, float* D)
{
    extern __shared__ __align__(1024) unsigned tiles[];
    fill(tiles, A + blockIdx.x * 1024, 1024);
    fill(tiles + 1024, B, 128);
    settled();
    const int group = threadIdx.x / 128;
    if (group < PART) {
        SPREAD
        float d[8];
        for (int i = 0; i < 8; ++i) d[i] = group;
        fence();
        multiply(d, a + group * (2048 / 16), b, 1);
        commit();
        wait<0>();
        for (int i = 0; i < 8; ++i)
            D[((blockIdx.x * 2 + group) * 64 + row_of(i)) * 16 + column_of(i)] = d[i];
    }
}
