extern "C" __global__ void k(const unsigned* A, const unsigned* B, u64 a, u64 b, int add, OUT* D)
{
    extern __shared__ __align__(1024) unsigned tiles[];
    fill(tiles, A, A_WORDS);
    fill(tiles + A_ROOM / 4, B, B_WORDS);
    settled();
    REG d[COUNT];
    for (int i = 0; i < COUNT; ++i) d[i] = START;
    fence();
    multiply(d, a, b, add);
    commit();
    wait<0>();
    STORE
}
