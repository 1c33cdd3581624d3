__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float part[4][8][8];
    const int n = blockIdx.x * 8 + threadIdx.x, m = blockIdx.y * 8 + threadIdx.y;
    float s = 0;
    if (m < M && n < N)
        for (int k = threadIdx.z; k < K; k += blockDim.z) s += A[m * K + k] * B[k * N + n];
    part[threadIdx.z][threadIdx.y][threadIdx.x] = s;
    for (int half = 2; half; half >>= 1) {
        __syncthreads();
        if (threadIdx.z < half)
            part[threadIdx.z][threadIdx.y][threadIdx.x] +=
                part[threadIdx.z + half][threadIdx.y][threadIdx.x];
    }
    if (threadIdx.z == 0 && m < M && n < N) C[m * N + n] = part[0][threadIdx.y][threadIdx.x];
}
