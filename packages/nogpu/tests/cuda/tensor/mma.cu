#define G (threadIdx.x / 4)
#define T (threadIdx.x % 4)
extern "C" __global__ void k(const IN* A, const IN* B, const OUT* C, OUT* D)
{
    unsigned a[NA], b[NB];
    IN* pa = reinterpret_cast<IN*>(a);
    IN* pb = reinterpret_cast<IN*>(b);
    for (int i = 0; i < NA * PER; ++i) {
        const int row = ROW_A, col = COL_A;
        pa[i] = A[row * K + col];
    }
    for (int i = 0; i < NB * PER; ++i) {
        const int row = ROW_B, col = COL_B;
        pb[i] = B[row * N + col];
    }
    OUT c[NC], d[NC];
    for (int i = 0; i < NC; ++i) c[i] = C[(G + 8 * (i / 2)) * N + 2 * T + i % 2];
    ASM
    for (int i = 0; i < NC; ++i) D[(G + 8 * (i / 2)) * N + 2 * T + i % 2] = d[i];
}
