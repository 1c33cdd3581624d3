// Each row of x (rows x 1024) becomes its softmax in y. A block of 256 threads
// takes one row.

extern "C" __global__ void softmax(const float* x, float* y)
{
    __shared__ float part[256];
    const int t = threadIdx.x;
    const float* from = x + blockIdx.x * 1024;
    float* to = y + blockIdx.x * 1024;

    float most = -3.4e38f;
    for (int i = t; i < 1024; i += 256) most = fmaxf(most, from[i]);
    part[t] = most;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (t < half) part[t] = fmaxf(part[t], part[t + half]);
        __syncthreads();
    }
    most = part[0];
    __syncthreads();

    float sum = 0.0f;
    for (int i = t; i < 1024; i += 256) sum += __expf(from[i] - most);
    part[t] = sum;
    __syncthreads();
    for (int half = 128; half > 0; half /= 2) {
        if (t < half) part[t] += part[t + half];
        __syncthreads();
    }
    const float scale = 1.0f / part[0];
    for (int i = t; i < 1024; i += 256) to[i] = __expf(from[i] - most) * scale;
}
