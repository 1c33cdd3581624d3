template <int S> __device__ float dot(const float (&x)[S][S + 1], const float (&y)[S][S + 1]) {
    float d = 0;
    for (int i = 0; i < S; ++i) d += x[threadIdx.y][i] * y[threadIdx.x][i];
    return d;
}
extern "C" __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float x[16][17];
    __shared__ float y[16][17];  // y[column][k]
    const int m = blockIdx.y * 16 + threadIdx.y, n = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (int k = 0; k < K; k += 16) {
        x[threadIdx.y][threadIdx.x] = 0; y[threadIdx.x][threadIdx.y] = 0;
        if (m < M && k + threadIdx.x < K) x[threadIdx.y][threadIdx.x] = A[m * K + k + threadIdx.x];
        if (n < N && k + threadIdx.y < K) y[threadIdx.x][threadIdx.y] = B[(k + threadIdx.y) * N + n];
        __syncthreads();
        sum += dot<16>(x, y);
        __syncthreads();
    }
    if (m < M && n < N) C[m * N + n] = sum;
}
