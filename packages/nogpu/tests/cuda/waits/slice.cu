__device__ __forceinline__ float part_of(const float* A, const float* B, int row, int col,
                                         int k0, int k1, int M, int N, int K) {
    float sum = 0.f;
    if (row < M && col < N)
        for (int k = k0; k < min(k1, K); ++k) sum += A[row * K + k] * B[k * N + col];
    return sum;
}
