__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    const int n = (blockIdx.x * 16 + threadIdx.x) * 4, m = blockIdx.y * 8 + threadIdx.y;
    if (m >= M || n >= N) return;
    float4 acc = {0, 0, 0, 0};
    const bool whole = n + 3 < N && N % 4 == 0;
    for (int k = 0; k < K; ++k) {
        const float a = A[m * K + k];
        float4 b = {0, 0, 0, 0};
        if (whole) b = reinterpret_cast<const float4*>(B + k * N + n)[0];
        else for (int j = 0; j < 4 && n + j < N; ++j) (&b.x)[j] = B[k * N + n + j];
        acc.x += a * b.x; acc.y += a * b.y; acc.z += a * b.z; acc.w += a * b.w;
    }
    if (whole) *(float4*)&C[m * N + n] = acc;
    else for (int j = 0; j < 4 && n + j < N; ++j) C[m * N + n + j] = (&acc.x)[j];
}
