typedef unsigned long long u64;
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void k(const unsigned* from, unsigned* out, u64 what) {
    __shared__ alignas(1024) unsigned rows[4096];
    __shared__ u64 done;
    __shared__ unsigned place;
    const int warp = threadIdx.x / 32;
    if (warp == 0) {
        asm volatile("tcgen05.alloc.GROUP.sync.aligned.shared::cta.b32 [%0], 32;" :: "r"(at(&place)));
    }
    for (int i = threadIdx.x; i < 4096; i += 128) {
        if (i % 4 < FILLED) rows[i] = from[4096 * blockIdx.x + i];
    }
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at(&done)));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    MEET
    what += at(rows) >> 4;
    const unsigned mine = place + (32 * warp << 16);
    for (int c = 0; c < 32; ++c) {
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};"
            :: "r"(mine + c), "r"((blockIdx.x << 30) + (threadIdx.x << 16) + c));
    }
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    asm volatile("tcgen05.fence::before_thread_sync;");  // the stores
    MEET
    WORK
    unsigned r[8];
    asm volatile("tcgen05.ld.sync.aligned.SHAPE.b32 {%0, %1, %2, %3, %4, %5, %6, %7}, [%8];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]), "=r"(r[4]), "=r"(r[5]), "=r"(r[6]), "=r"(r[7])
        : "r"(mine + (FIRST << 16)));
    asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
    for (int i = 0; i < 8; ++i) out[(128 * blockIdx.x + threadIdx.x) * 8 + i] = r[i];
    MEET
    if (warp == 0) asm volatile("tcgen05.dealloc.GROUP.sync.aligned.b32 %0, 32;" :: "r"(place));
}
