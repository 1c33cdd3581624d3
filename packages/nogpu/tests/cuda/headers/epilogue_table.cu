namespace NAME_of {
__device__ __noinline__ float keep(float x) { return x; }
__device__ __noinline__ float relu(float x) { return x > 0 ? x : 0; }
__device__ __noinline__ float twice(float x) { return 2 * x; }
__device__ float (*const epilogues[3])(float) = {keep, relu, twice};
}
// What is done to each element is chosen at run time.
extern "C" __global__ void epilogue_table(const float* A, const float* B, float* C, int M, int N, int K,
                                          int which) {
    int n = blockIdx.x * 16 + threadIdx.x, m = blockIdx.y * 16 + threadIdx.y;
    if (m >= M || n >= N) return;
    float sum = 0;
    for (int k = 0; k < K; ++k) sum += A[m * K + k] * B[k * N + n];
    C[m * N + n] = NAME_of::epilogues[(which + n) % 3](sum);
}
