// y = A x: A has rows of 4096. A warp takes one row, a block of 256 threads eight.

extern "C" __global__ void matrix_vector(const float4* A, const float4* x, float* y)
{
    const int lane = threadIdx.x % 32, row = blockIdx.x * 8 + threadIdx.x / 32;
    float sum = 0.0f;
    for (int i = lane; i < 1024; i += 32) {
        const float4 a = A[row * 1024 + i], v = x[i];
        sum += a.x * v.x + a.y * v.y + a.z * v.z + a.w * v.w;
    }
    for (int away = 16; away > 0; away /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, away);
    }
    if (lane == 0) y[row] = sum;
}
