#define STEP s += a[k] * b[k * N]; ++k;
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    const int n = blockIdx.x * 32 + threadIdx.x, m = blockIdx.y * 4 + threadIdx.y;
    if (m >= M || n >= N) return;
    const float *a = A + m * K, *b = B + n;
    float s = 0;
    int k = 0;
    switch (K & 7) {
        case 7: STEP
        case 6: STEP
        case 5: STEP
        case 4: STEP
        case 3: STEP
        case 2: STEP
        case 1: STEP
        default: break;
    }
    while (k < K) { STEP STEP STEP STEP STEP STEP STEP STEP }
    C[m * N + n] = s;
}
