__device__ __forceinline__ int spot(int row, int col) { return row * 16 + (col ^ row); }
__global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float At[256], Bs[256];
    int x = threadIdx.x & 15, y = threadIdx.x >> 4;
    int m = blockIdx.y << 4 | y, n = blockIdx.x << 4 | x;
    float sum = 0;
    for (int k = 0; k < K; k += 16) {
        At[spot(x, y)] = m < M && k + x < K ? A[m * K + k + x] : 0;
        Bs[spot(y, x)] = n < N && k + y < K ? B[(k + y) * N + n] : 0;
        __syncthreads();
        for (int i = 0; i != 16; ++i) sum += At[spot(i, y)] * Bs[spot(i, x)];
        __syncthreads();
    }
    if (m < M && n < N) C[m * N + n] = sum;
}
