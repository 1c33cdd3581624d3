#define AT(p, i, j, ld) p[(j) * (ld) + (i)]
__global__ void gemm(int m, int n, int k, float alpha, const float* a, int lda, const float* b,
                     int ldb, float beta, float* c, int ldc) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i < m && j < n) {
        float s = 0;
        for (int p = 0; p < k; ++p) s += AT(a, i, p, lda) * AT(b, p, j, ldb);
        AT(c, i, j, ldc) = alpha * s + beta * AT(c, i, j, ldc);
    }
}
