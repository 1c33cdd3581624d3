#include <cuda_runtime.h>
#include <cassert>
#include <functional>

__global__ void polynomial(const double* x, double* y, int n) {
    auto horner = [](double t) { double r = 0.0; for (int k = 3; k >= 0; --k) r = r * t + k; return r; };
    assert(blockDim.x % 32 == 0);
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = horner(x[i]);
}

std::function<double(double)> oracle = [](double t) { return ((3 * t + 2) * t + 1) * t; };
