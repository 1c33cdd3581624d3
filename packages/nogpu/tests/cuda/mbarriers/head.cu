__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void init(unsigned long long* b, int n) {
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at(b)), "r"(n) : "memory");
}
__device__ unsigned long long arrive(unsigned long long* b) {
    unsigned long long token;
    asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(token) : "r"(at(b)) : "memory");
    return token;
}
__device__ bool over(unsigned long long* b, unsigned long long token) {
    int done;
    asm volatile("{.reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.b32 %0, 1, 0, p;}"
        : "=r"(done) : "r"(at(b)), "l"(token) : "memory");
    return done;
}
__device__ bool over_parity(unsigned long long* b, int parity) {
    int done;
    asm volatile("{.reg .pred p; mbarrier.test_wait.parity.shared.b64 p, [%1], %2;"
        "selp.b32 %0, 1, 0, p;}" : "=r"(done) : "r"(at(b)), "r"(parity) : "memory");
    return done;
}
extern "C" __global__ void k(const int* x, int* y, int n) {
    __shared__ unsigned long long bar, other;
    __shared__ int s[128];
    int t = threadIdx.x;
