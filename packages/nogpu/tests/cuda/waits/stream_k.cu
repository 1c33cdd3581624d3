__device__ __forceinline__ int look(const int* flag) {
    int value;
    asm volatile("ld.global.acquire.gpu.b32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
    return value;
}
__device__ __forceinline__ void raise(int* flag) {
    asm volatile("st.global.release.gpu.b32 [%0], %1;" :: "l"(flag), "r"(1) : "memory");
}
#define T 8
extern "C" __global__ void mm(const float* A, const float* B, float* C, float* parts, int* flags,
                              int M, int N, int K) {
    __shared__ float a[T][T], b[T][T];
    int tx = threadIdx.x, ty = threadIdx.y, tiles_n = (N + T - 1) / T;
    int tiles = tiles_n * ((M + T - 1) / T), steps = (K + T - 1) / T;
    int total = tiles * steps, share = (total + gridDim.x - 1) / gridDim.x;
    int at = blockIdx.x * share, end = min(at + share, total);
    while (at < end) {
        int tile = at / steps, from = at % steps, to = min(steps, from + end - at);
        int row = tile / tiles_n * T + ty, col = tile % tiles_n * T + tx;
        float sum = 0;
        for (int s = from; s < to; ++s) {
            int k = s * T;
            a[ty][tx] = row < M && k + tx < K ? A[row * K + k + tx] : 0;
            b[ty][tx] = col < N && k + ty < K ? B[(k + ty) * N + col] : 0;
            __syncthreads();
            for (int i = 0; i < T; ++i) sum += a[ty][i] * b[i][tx];
            __syncthreads();
        }
        if (from > 0) {
            parts[(blockIdx.x * T + ty) * T + tx] = sum;
            __syncthreads();
            if (tx == 0 && ty == 0) raise(&flags[blockIdx.x]);
        } else {
            int done = to;
            for (int other = blockIdx.x + 1; done < steps; ++other) {
                if (tx == 0 && ty == 0) while (look(&flags[other]) == 0) { }
                __syncthreads();
                sum += parts[(other * T + ty) * T + tx];
                done = min(steps, done + share);
            }
            if (row < M && col < N) C[row * N + col] = sum;
        }
        at += to - from;
    }
}
