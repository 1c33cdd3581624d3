#include <curand_kernel.h>
#include <stdio.h>

__global__ void pi(unsigned *counts, unsigned seed) {
    curandState state;
    curand_init(seed, threadIdx.x, 0, &state);
    unsigned in = 0;
    for (int i = 0; i < 100; i++) {
        float x = curand_uniform(&state), y = curand_uniform(&state);
        in += x * x + y * y < 1.0f;
    }
    counts[threadIdx.x] = in;
}
