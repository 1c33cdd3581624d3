#include <thrust/device_vector.h>
#include <thrust/host_vector.h>
#include <cstdio>
#include <string>

struct Affine {
    float scale, shift;
    __host__ __device__ float operator()(float x) const { return scale * x + shift; }
};

template <typename T, typename F>
__global__ void transform(const T* in, T* out, int n, F f) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = f(in[i]);
}

__global__ void affine(const float* in, float* out, int n) {
    Affine f{2.0f, 1.0f};
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) out[i] = f(in[i]);
}

std::string describe(const Affine& a) { return std::to_string(a.scale); }

int main() {
    thrust::host_vector<float> h(100, 1.0f);
    thrust::device_vector<float> d = h;
    transform<<<1, 32>>>(thrust::raw_pointer_cast(d.data()), thrust::raw_pointer_cast(d.data()), 100, Affine{2, 1});
    puts(describe({2, 1}).c_str());
}
