#define LOAD(r, c) asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" \
    : "=r"(r) : "r"(mine + (c)))
#define WAIT asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory")
DEFINED
extern "C" __global__ void k(unsigned* y, int n) {
    __shared__ unsigned place, t[32];
    const int i = threadIdx.x;
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;"
        :: "r"((unsigned)__cvta_generic_to_shared(&place)) : "memory");
    __syncthreads();
    const unsigned mine = place;
    for (int c = 0; c < 32; ++c) {
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(mine + c), "r"(i + c));
    }
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    unsigned a = 0, b = 0;
    BODY
    WAIT;
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" :: "r"(mine));
}
