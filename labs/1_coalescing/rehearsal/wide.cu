extern "C" __global__ void
lab1(const float* A, const float* B, float* C, int M, int N, int K)
{
    const int row = blockIdx.y * 8 + threadIdx.y;
    const int col = blockIdx.x * 128 + threadIdx.x * 4;
    if (row >= M || col >= N) return;
    if (col + 4 <= N) {
        float4 sum = make_float4(0, 0, 0, 0);
        for (int k = 0; k < K; ++k) {
            const float a = A[row * K + k];
            const float4 b = *reinterpret_cast<const float4*>(B + k * N + col);
            sum.x += a * b.x, sum.y += a * b.y, sum.z += a * b.z, sum.w += a * b.w;
        }
        *reinterpret_cast<float4*>(C + row * N + col) = sum;
    } else {
        for (int j = col; j < N; ++j) {
            float sum = 0.0f;
            for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + j];
            C[row * N + j] = sum;
        }
    }
}
