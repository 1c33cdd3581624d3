extern "C" __global__ void turns(const float* in, float* out, int rounds) {
  __shared__ __align__(8192) float both[2][1024];
  unsigned at = (unsigned)__cvta_generic_to_shared(&both[0][0]);
  unsigned here = at + 4 * threadIdx.x;
  for (int r = 0; r < rounds; ++r) {
    asm volatile("st.shared.f32 [%0], %1;" :: "r"(here), "f"(in[r * blockDim.x + threadIdx.x]));
    __syncthreads();
    float x;
    unsigned other = NEXT(here, threadIdx.x, blockDim.x);
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(x) : "r"(other));
    out[r * blockDim.x + threadIdx.x] = x;
    here = SWITCHED(here, at);
  }
}
