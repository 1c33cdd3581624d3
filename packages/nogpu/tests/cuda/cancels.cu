typedef unsigned long long u64;
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void k(int* done, int width) {
    __shared__ alignas(16) u64 answer[2];
    __shared__ u64 bar;
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at(&bar)));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    int x = blockIdx.x, y = blockIdx.y, more = 1, parity = 0;
    while (more) {
        if (threadIdx.x == 0) {
            atomicAdd(&done[y * width + x], 1);
            asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 16;" :: "r"(at(&bar)));
            asm volatile("clusterlaunchcontrol.try_cancel.async.shared::cta"
                ".mbarrier::complete_tx::bytes.b128 [%0], [%1];" :: "r"(at(answer)), "r"(at(&bar)));
        }
        asm volatile("{.reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1; @!p bra AGAIN;}"
            :: "r"(at(&bar)), "r"(parity) : "memory");
        parity ^= 1;
        asm volatile("{.reg .pred p; .reg .b128 a; .reg .b32 z, w; mov.b128 a, {%3, %4};"
            "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, a; selp.b32 %2, 1, 0, p;"
            "mov.b32 %0, 0; mov.b32 %1, 0;"
            "@p clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%0, %1, z, w}, a;}"
            : "=r"(x), "=r"(y), "=r"(more) : "l"(answer[0]), "l"(answer[1]));
        __syncthreads();
    }
}
