#include <stdio.h>
#include <cuda_fp16.h>
#include <vector>
#include "timer.h"
#define CHECK(x) do { cudaError_t e = (x); \
    if (e) exit(1); } while (0)
using namespace std;
namespace study {
template <int T, typename U = float>
__global__ void __launch_bounds__(256) tile(const U* A, U* B, uint n) {  // <<< not a launch
    __shared__ U t[T];
    if (threadIdx.x < n) B[threadIdx.x] = std::max(A[threadIdx.x], -INFINITY);
}
}  // namespace study
inline int up(int a) { return (a + 1) / 2; }
extern "C" __global__ void add(const float* a, float* b, uint32_t n) {
    uint32_t i = threadIdx.x;
    if (i < n) b[i] = a[i] + up(2) + M_PI;
}
static vector<float> host(int n) { return std::vector<float>(n); }
struct Timer { cudaEvent_t start; };
static const int N = 1024;
cudaStream_t stream;
int main() {
    const char* brace = "}";
    add<<<1, 2>>>(0, 0, 3);
    printf("%s\n", brace);
}
