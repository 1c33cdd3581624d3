__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K,
                   long long stride_a, long long stride_b, long long stride_c) {
    const int n = blockIdx.x * 8 + threadIdx.x, m = blockIdx.y * 8 + threadIdx.y;
    A += blockIdx.z * stride_a; B += blockIdx.z * stride_b; C += blockIdx.z * stride_c;
    if (m >= M || n >= N) return;
    float s = 0;
    for (int k = 0; k < K; ++k) s += A[m * K + k] * B[k * N + n];
    C[m * N + n] = s;
}
