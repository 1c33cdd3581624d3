__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K, int share) {
    const int n = blockIdx.x * blockDim.x + threadIdx.x, m = blockIdx.y * blockDim.y + threadIdx.y;
    if (m >= M || n >= N) return;
    const int end = min(K, int(blockIdx.z + 1) * share);
    float part = 0;
    for (int k = blockIdx.z * share; k < end; ++k) part += A[m * K + k] * B[k * N + n];
    atomicAdd(C + m * N + n, part);
}
