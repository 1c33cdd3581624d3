extern "C" __global__ void k(const unsigned* A, const unsigned* B, u64 a, u64 b, int groups, float* D)
{
    extern __shared__ __align__(1024) unsigned tiles[];
    fill(tiles, A, 512);
    fill(tiles + 512, B, 128);
    settled();
    const int group = threadIdx.x / 128;
    float d[8];
    for (int i = 0; i < 8; ++i) d[i] = group;
    fence();
    multiply(d, a, b, group < groups);
    commit();
    wait<0>();
    for (int i = 0; i < 8; ++i) D[(group * 64 + row_of(i)) * 16 + column_of(i)] = d[i];
}
