__global__ void k(unsigned* y) {
    __shared__ unsigned place;
    unsigned at = __cvta_generic_to_shared(&place);
    asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 32;" :: "r"(at));
    __syncthreads();
    unsigned x = threadIdx.x;
    asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(place), "r"(x + 1));
    asm volatile("tcgen05.wait::st.sync.aligned;");
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(x) : "r"(place));
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    y[threadIdx.x] = x;
    asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 32;" :: "r"(place));
}
int main() { unsigned* y; cudaMalloc(&y, 32 * sizeof(int)); k<<<1, 32>>>(y); }
