#define W 16
__global__ void mm(float *a, float *b, float *c, int m, int n, int k) {
    __shared__ float at[W][W], bt[W][W];
    int r = blockIdx.y * W + threadIdx.y, q = blockIdx.x * W + threadIdx.x;
    float acc = 0;
    for (int s = 0; s < (k + W - 1) / W; s++) {
        int ka = s * W + threadIdx.x, kb = s * W + threadIdx.y;
        at[threadIdx.x][threadIdx.y] = (r < m && ka < k) ? a[r * k + ka] : 0.f;
        bt[threadIdx.y][threadIdx.x] = (q < n && kb < k) ? b[kb * n + q] : 0.f;
        __syncthreads();
        for (int i = 0; i < W; i++) acc += at[i][threadIdx.y] * bt[i][threadIdx.x];
        __syncthreads();
    }
    if (r < m && q < n) c[r * n + q] = acc;
}
