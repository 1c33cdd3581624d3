struct NAME_base {
    __device__ virtual float apply(float x, int n) const = 0;
    __device__ virtual ~NAME_base() {}
};
struct NAME_bias : NAME_base {
    float* values;
    __device__ NAME_bias(int N) : values(new float[N]) {
        for (int n = 0; n < N; ++n) values[n] = n % 5;
    }
    __device__ __noinline__ float apply(float x, int n) const override { return x + values[n]; }
    __device__ __noinline__ ~NAME_bias() override { delete[] values; }
};
struct NAME_sign : NAME_base {
    __device__ __noinline__ float apply(float x, int) const override { return x < 0 ? -1 : 1; }
};
__device__ __noinline__ NAME_base* NAME_make(int odd, int N) {
    return odd ? (NAME_base*)new NAME_sign : (NAME_base*)new NAME_bias(N);
}
// Each block makes the object that ends its elements.
extern "C" __global__ void epilogue_object(const float* A, const float* B, float* C,
                                           int M, int N, int K) {
    __shared__ NAME_base* end;
    int n = blockIdx.x * 16 + threadIdx.x, m = blockIdx.y * 16 + threadIdx.y;
    bool first = threadIdx.x == 0 && threadIdx.y == 0;
    if (first) end = NAME_make(blockIdx.x % 2, N);
    __syncthreads();
    if (m < M && n < N) {
        float sum = 0;
        for (int k = 0; k < K; ++k) sum += A[m * K + k] * B[k * N + n];
        C[m * N + n] = end->apply(sum, n);
    }
    __syncthreads();
    if (first) delete end;
}
