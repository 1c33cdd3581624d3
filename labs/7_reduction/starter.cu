// Lab 7: adds the sum of x to s[0], for any N. It is right, and every element queues for one address.
// Blocks have 256 threads; there is one for each 4096 elements of x.
extern "C" __global__ void
lab7(const float* x, float* s, int N)
{
    const int first = blockIdx.x * 4096;
    for (int i = first + threadIdx.x; i < min(N, first + 4096); i += 256)
        atomicAdd(s, x[i]);
}
