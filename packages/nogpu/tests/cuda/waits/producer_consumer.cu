#define T 16
extern "C" __global__ void mm(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[2][T][T], b[2][T][T];
    __shared__ volatile int full[2], used[2][8];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    int m0 = blockIdx.y * T, n0 = blockIdx.x * T, steps = (K + T - 1) / T;
    if (threadIdx.x < 2) full[threadIdx.x] = 0;
    if (threadIdx.x < 16) used[threadIdx.x / 8][threadIdx.x % 8] = 0;
    __syncthreads();
    if (warp == 8) {
        for (int s = 0; s < steps; ++s) {
            int stage = s % 2, turn = s / 2;
            if (lane < 8) while (used[stage][lane] < turn) { }
            __syncwarp();
            __threadfence_block();
            for (int e = lane; e < T * T; e += 32) {
                int r = e / T, q = e % T, k = s * T;
                a[stage][r][q] = m0 + r < M && k + q < K ? A[(m0 + r) * K + k + q] : 0;
                b[stage][r][q] = k + r < K && n0 + q < N ? B[(k + r) * N + n0 + q] : 0;
            }
            __threadfence_block();
            __syncwarp();
            if (lane == 0) full[stage] = turn + 1;
        }
    } else {
        float sum = 0;
        int r = threadIdx.x / T, q = threadIdx.x % T;
        for (int s = 0; s < steps; ++s) {
            int stage = s % 2, turn = s / 2;
            if (lane == 0) while (full[stage] <= turn) { }
            __syncwarp();
            __threadfence_block();
            for (int i = 0; i < T; ++i) sum += a[stage][r][i] * b[stage][i][q];
            __threadfence_block();
            __syncwarp();
            if (lane == 0) used[stage][warp] = turn + 1;
        }
        if (m0 + r < M && n0 + q < N) C[(m0 + r) * N + n0 + q] = sum;
    }
}
