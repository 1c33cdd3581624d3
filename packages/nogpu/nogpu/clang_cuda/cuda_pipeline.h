// The primitives of asynchronous copies; before compute capability 8 they copy at once.
#pragma once
TILE_DEVICE void __pipeline_memcpy_async(void* to, const void* from, size_t size, size_t zeros = 0) {
#if __CUDA_ARCH__ >= 800
    unsigned place = unsigned(__cvta_generic_to_shared(to)), whole = unsigned(size - zeros);
    size_t source = __cvta_generic_to_global(from);
    if (size == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(source), "r"(whole) : "memory");
    else if (size == 8)
        asm volatile("cp.async.ca.shared.global [%0], [%1], 8, %2;" ::"r"(place), "l"(source), "r"(whole) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(place), "l"(source), "r"(whole) : "memory");
#else
    for (size_t i = 0; i < size; i += 4)
        *(unsigned*)((char*)to + i) = i + zeros < size ? *(const unsigned*)((const char*)from + i) : 0;
#endif
}
TILE_DEVICE void __pipeline_commit() {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
#if __CUDA_ARCH__ >= 800
#define TILE_WAIT(N) case N: asm volatile("cp.async.wait_group " #N ";" ::: "memory"); break;
TILE_DEVICE void __pipeline_wait_prior(int groups) {
    switch (groups) {
        TILE_WAIT(0) TILE_WAIT(1) TILE_WAIT(2) TILE_WAIT(3) TILE_WAIT(4) TILE_WAIT(5) TILE_WAIT(6) TILE_WAIT(7)
        default: asm volatile("cp.async.wait_group 8;" ::: "memory");
    }
}
#undef TILE_WAIT
#else
TILE_DEVICE void __pipeline_wait_prior(int) {}
#endif
