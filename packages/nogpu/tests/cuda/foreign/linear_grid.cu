__global__ void mm(const float* A, const float* B, float* C, unsigned M, unsigned N, unsigned K) {
    const unsigned id = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned row = id / N, col = id % N;
    if (row < M) {
        float acc = 0.f;
        for (unsigned i = 0; i < K; i++) acc += A[row * K + i] * B[i * N + col];
        C[id] = acc;
    }
}
