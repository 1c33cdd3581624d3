template <int ROWS> struct Column { float v[ROWS]; };
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    constexpr int ROWS = 5;
    const int n = blockIdx.x * blockDim.x + threadIdx.x, m0 = blockIdx.y * ROWS;
    if (n >= N) return;
    Column<ROWS> c{};
    for (int k = 0; k < K; ++k) {
        const float b = B[k * N + n];
        #pragma unroll
        for (int r = 0; r < ROWS; ++r) if (m0 + r < M) c.v[r] += A[(m0 + r) * K + k] * b;
    }
    #pragma unroll
    for (int r = 0; r < ROWS; ++r) if (m0 + r < M) C[(m0 + r) * N + n] = c.v[r];
}
