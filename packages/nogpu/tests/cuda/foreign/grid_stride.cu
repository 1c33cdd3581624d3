__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < (long long)M * N;
         i += (long long)gridDim.x * blockDim.x) {
        const float* a = A + i / N * K;
        const float* b = B + i % N;
        float s = 0;
        for (int k = K; k--; ++a, b += N) s += *a * *b;
        C[i] = s;
    }
}
