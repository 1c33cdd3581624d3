#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <torch/extension.h>

#define HALF2(value) (reinterpret_cast<half2 *>(&(value))[0])

__global__ void axpy_f16x2_kernel(half *x, half *y, int N) {
  int idx = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
  if (idx + 1 < N) {
    half2 reg_x = HALF2(x[idx]);
    half2 reg_y = HALF2(y[idx]);
    half2 r;
    r.x = __hadd(reg_x.x, reg_y.x);
    r.y = __hadd(reg_x.y, reg_y.y);
    HALF2(y[idx]) = r;
  }
}

#define STRINGFY(str) #str
void axpy(torch::Tensor x, torch::Tensor y) {
  axpy_f16x2_kernel<<<1, 32>>>(reinterpret_cast<half *>(x.data_ptr()), reinterpret_cast<half *>(y.data_ptr()), x.size(0));
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("axpy", &axpy); }
