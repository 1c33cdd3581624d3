#include <cuda_runtime.h>
#include <cstdint>

__device__ __forceinline__ uint32_t lane_id() {
    uint32_t ret;
    asm volatile("mov.u32 %0, %laneid;" : "=r"(ret));
    return ret;
}
__device__ __forceinline__ uint32_t smem_u32addr(const void *smem_ptr) {
    uint32_t addr;
    asm("{.reg .u64 u64addr;\n"
        " cvta.to.shared.u64 u64addr, %1;\n"
        " cvt.u32.u64 %0, u64addr;}\n"
        : "=r"(addr) : "l"(smem_ptr));
    return addr;
}
__device__ __forceinline__ void sts32(const float &reg, const uint32_t &addr) {
    asm volatile("st.shared.f32 [%0], %1;\n" : : "r"(addr), "f"(reg));
}

__global__ void lanes(float *out) {
    __shared__ float s[64];
    sts32((float)lane_id(), smem_u32addr(&s[threadIdx.x]));
    __syncthreads();
    out[threadIdx.x] = s[63 - threadIdx.x];
}
