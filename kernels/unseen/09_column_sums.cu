// y[j] = the sum of column j of x (1024 x columns). A thread sums one column.
// Blocks of 64 threads; columns is a multiple of 64.

extern "C" __global__ void column_sums(const float* x, float* y, int columns)
{
    const int j = blockIdx.x * 64 + threadIdx.x;
    float sum = 0.0f;
    #pragma unroll 8
    for (int i = 0; i < 1024; ++i) {
        sum += x[i * columns + j];
    }
    y[j] = sum;
}
