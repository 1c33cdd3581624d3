template <typename Scalar, int EDGE>
__global__ void mm(const Scalar* A, const Scalar* B, Scalar* C, int M, int N, int K) {
    __shared__ Scalar a[EDGE][EDGE], b[EDGE][EDGE];
    const int m = blockIdx.y * EDGE + threadIdx.y, n = blockIdx.x * EDGE + threadIdx.x;
    Scalar sum{};
    for (int k = 0; k < K; k += EDGE) {
        a[threadIdx.y][threadIdx.x] = m < M && k + threadIdx.x < K ? A[m * K + k + threadIdx.x] : Scalar{};
        b[threadIdx.y][threadIdx.x] = n < N && k + threadIdx.y < K ? B[(k + threadIdx.y) * N + n] : Scalar{};
        __syncthreads();
        for (int i = 0; i < EDGE; ++i) sum += a[threadIdx.y][i] * b[i][threadIdx.x];
        __syncthreads();
    }
    if (m < M && n < N) C[m * N + n] = sum;
}
