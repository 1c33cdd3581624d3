__global__ void mm(const int* A4, const int* Bt4, int* C, int M, int N, int K4) {
    const int n = blockIdx.x * 16 + threadIdx.x, m = blockIdx.y * 4 + threadIdx.y;
    if (m >= M || n >= N) return;
    int sum = 0;
    for (int k = 0; k < K4; ++k) sum = __dp4a(A4[m * K4 + k], Bt4[n * K4 + k], sum);
    C[m * N + n] = sum;
}
