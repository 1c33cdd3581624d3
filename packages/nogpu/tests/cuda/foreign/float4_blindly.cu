__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    const int n = threadIdx.x * 4, m = blockIdx.x;
    if (n + 3 >= N) return;
    float4 s = make_float4(0, 0, 0, 0);
    for (int k = 0; k < K; ++k) {
        const float4 b = *reinterpret_cast<const float4*>(&B[k * N + n]);
        s.x += A[m * K + k] * b.x; s.y += A[m * K + k] * b.y;
        s.z += A[m * K + k] * b.z; s.w += A[m * K + k] * b.w;
    }
    for (int j = 0; j < 4; ++j) C[m * N + n + j] = (&s.x)[j];
}
