__global__ void partial(const float* A, const float* B, float* W, int M, int N, int K, int parts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= M * N * parts) return;
    int part = i / (M * N), m = i % (M * N) / N, n = i % N;
    float sum = 0;
    for (int k = part; k < K; k += parts) sum += A[m * K + k] * B[k * N + n];
    W[i] = sum;
}
__global__ void reduce(const float* W, float* C, int MN, int parts) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < MN) { float s = 0; for (int p = 0; p < parts; ++p) s += W[p * MN + i]; C[i] = s; }
}
