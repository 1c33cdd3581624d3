/*
 * Sum of an array, the old way: the last warp on its own.
 */
#include <iostream>
#include <numeric>
using namespace std;

#define SIZE 256
#define SHMEM_SIZE 256 * 4

__device__ void warpReduce(volatile int* s, int t) {
    s[t] += s[t + 32]; __syncwarp();
    s[t] += s[t + 16]; __syncwarp();
    s[t] += s[t + 8]; __syncwarp();
    s[t] += s[t + 4]; __syncwarp();
    s[t] += s[t + 2]; __syncwarp();
    s[t] += s[t + 1];
}

__global__ void sum_reduction(int *v, int *v_r) {
    __shared__ int partial_sum[SHMEM_SIZE];
    int tid = blockIdx.x * (blockDim.x * 2) + threadIdx.x;
    partial_sum[threadIdx.x] = v[tid] + v[tid + blockDim.x];
    __syncthreads();
    for (int s = blockDim.x / 2; s > 32; s >>= 1) {
        if (threadIdx.x < s) partial_sum[threadIdx.x] += partial_sum[threadIdx.x + s];
        __syncthreads();
    }
    if (threadIdx.x < 32) {
        int* p = partial_sum;
        int x = p[threadIdx.x] + p[threadIdx.x + 32];
        for (int d = 16; d > 0; d /= 2) x += __shfl_down_sync(0xffffffffu, x, d);
        if (threadIdx.x == 0) v_r[blockIdx.x] = x;
    }
}

void initialize_vector(int *v, int n) {
    for (int i = 0; i < n; i++) v[i] = 1;
}

int main() {
    int n = 1 << 10;
    int *h_v = (int*)malloc(n * sizeof(int));
    initialize_vector(h_v, n);
    int sum = accumulate(h_v, h_v + n, 0);
    cout << sum << endl;
    return 0;
}
