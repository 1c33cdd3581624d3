// Several blocks share a sum, and none waits for another: the last one to leave its
// part finds those of all.
#pragma once

// Whether this block is the last of `blocks` that arrive. What its threads wrote to
// global memory before is then visible to the last one. arrived: a counter, zero
// before, and zero again after all have arrived.
__device__ inline bool last_to_arrive(int* arrived, int blocks)
{
    __shared__ bool last;
    __threadfence();  // this thread's part is visible before the arrival
    __syncthreads();
    if (threadIdx.x == 0) {
        last = atomicAdd(arrived, 1) == blocks - 1;
        if (last) *arrived = 0;  // for the next launch
    }
    __syncthreads();
    if (last) __threadfence();  // what the others left is read after their arrivals
    return last;
}
