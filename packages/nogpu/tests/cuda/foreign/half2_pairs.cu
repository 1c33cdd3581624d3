#include <cuda_fp16.h>
__global__ void mm(const __half* A, const __half* B, __half* C, int M, int N, int K) {
    const int n = 2 * (blockIdx.x * 16 + threadIdx.x), m = blockIdx.y * 4 + threadIdx.y;
    if (m >= M || n >= N) return;
    __half2 sum = __float2half2_rn(0.0f);
    for (int k = 0; k < K; ++k) {
        const __half low = B[k * N + n], high = n + 1 < N ? B[k * N + n + 1] : __half(0.0f);
        sum = __hfma2(__half2half2(A[m * K + k]), __halves2half2(low, high), sum);
    }
    C[m * N + n] = __low2half(sum);
    if (n + 1 < N) C[m * N + n + 1] = __high2half(sum);
}
