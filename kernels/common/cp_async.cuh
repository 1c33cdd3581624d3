// cp.async: copies from global to shared memory that pass no register and do not
// wait (sm_80+).
#pragma once

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 800
#error "cp.async needs sm_80 or newer; 11_double_buffer.cu runs on older GPUs"
#endif

// Start copying FLOATS neighbouring floats: 1, 2 or 4, both addresses aligned to as
// many. Where inside is false, nothing is read and zeros are written.
template <int FLOATS>
__device__ inline void copy_async(float* dst, const float* src, bool inside)
{
    const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(dst));
    const int bytes = inside ? FLOATS * sizeof(float) : 0;
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to),
                 "l"(src), "n"(FLOATS * sizeof(float)), "r"(bytes)
                 : "memory");
}

// Start copying four neighbours of a row, of which `left` are inside the matrix;
// zeros for the others. ALIGNED: in one copy, for all four are inside or none is.
template <bool ALIGNED>
__device__ inline void copy4_async(float* dst, const float* src, int left)
{
    if (ALIGNED) {
        copy_async<4>(dst, src, left > 0);
    } else {
        for (int j = 0; j < 4; ++j) {
            copy_async<1>(dst + j, src + j, j < left);
        }
    }
}

// Close a group: the copies that this thread started since the group before.
__device__ inline void commit_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// Wait until at most PENDING of this thread's latest groups are still under way.
template <int PENDING>
__device__ inline void wait_groups()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}
