// Inclusive scan of one block with two buffers.
#include <stdio.h>
#include <time.h>
#include "support.h"
#define SECTION_SIZE 128

__global__ void Kogge_Stone_scan_kernel(float *X, float *Y, unsigned int N) {
    __shared__ float buffer1[SECTION_SIZE];
    __shared__ float buffer2[SECTION_SIZE];
    float *in = buffer1, *out = buffer2;
    unsigned int i = blockIdx.x * blockDim.x + threadIdx.x;
    in[threadIdx.x] = i < N ? X[i] : 0.0f;
    for (unsigned int stride = 1; stride < blockDim.x; stride *= 2) {
        __syncthreads();
        if (threadIdx.x >= stride) out[threadIdx.x] = in[threadIdx.x] + in[threadIdx.x - stride];
        else out[threadIdx.x] = in[threadIdx.x];
        float *t = in; in = out; out = t;
    }
    if (i < N) Y[i] = in[threadIdx.x];
}

void startTime(Timer *timer) { gettimeofday(&(timer->startTime), NULL); }
