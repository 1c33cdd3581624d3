__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ volatile float part[64];
    const int t = threadIdx.x, m = blockIdx.y, n = blockIdx.x;
    float s = 0;
    for (int k = t; k < K; k += 64) s += A[m * K + k] * B[k * N + n];
    part[t] = s;
    __syncthreads();
    if (t < 32) {
        for (int d = 32; d; d >>= 1) {
            const float v = part[t + d];
            SYNC
            part[t] = part[t] + v;
            SYNC
        }
    }
    if (t == 0) C[m * N + n] = part[0];
}
