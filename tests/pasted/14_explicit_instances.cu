#include <cstddef>
#include <type_traits>
#include <cuda_runtime.h>

template <typename T, size_t BLOCK>
__global__ void fill(T *p, T value, size_t n) {
    size_t i = blockIdx.x * BLOCK + threadIdx.x;
    if (i < n) p[i] = value;
}

template __global__ void fill<float, 64>(float *, float, size_t);
template __global__ void fill<int, 64>(int *, int, size_t);

template <typename T>
void launch_fill(T *p, T value, size_t n, cudaStream_t stream = 0) {
    static_assert(std::is_arithmetic<T>::value, "numbers only");
    fill<T, 64><<<(n + 63) / 64, 64, 0, stream>>>(p, value, n);
}
