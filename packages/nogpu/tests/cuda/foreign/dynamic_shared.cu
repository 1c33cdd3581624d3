extern __shared__ char raw[];
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K, int edge) {
    float* a = (float*)raw;
    float* b = a + edge * (edge + 1);
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int r = blockIdx.y * edge + ty, c = blockIdx.x * edge + tx;
    float s = 0;
    for (int k = 0; k < K; k += edge) {
        a[ty * (edge + 1) + tx] = r < M && k + tx < K ? A[r * K + k + tx] : 0;
        b[ty * edge + tx] = c < N && k + ty < K ? B[(k + ty) * N + c] : 0;
        __syncthreads();
        for (int i = 0; i < edge; ++i) s += a[ty * (edge + 1) + i] * b[i * edge + tx];
        __syncthreads();
    }
    if (r < M && c < N) C[r * N + c] = s;
}
