typedef unsigned long long u64;
__device__ unsigned at(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
__device__ void fill(unsigned* to, const unsigned* from, int words) {
    for (int i = threadIdx.x; i < words; i += blockDim.x) to[i] = from[i];
}
extern "C" __global__ void k(const unsigned* a, const unsigned* b, const unsigned* extra,
                             unsigned* out, u64 da, u64 db, unsigned what, int a_words, int b_words,
                             int add) {
    __shared__ alignas(1024) unsigned A[4096], B[4096];
    __shared__ u64 done;
    __shared__ unsigned place;
    const int rank = RANK, warp = threadIdx.x / 32;
    da += at(A) >> 4;  // a host knows what lies where within a tile
    db += at(B) >> 4;
    fill(A, a + rank * a_words, a_words);
    fill(B, b + rank * b_words, b_words);
    if (warp == 0) {
        asm volatile("tcgen05.alloc.GROUP.sync.aligned.shared::cta.b32 [%0], 512;" :: "r"(at(&place)));
    }
    if (threadIdx.x == 0) asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at(&done)));
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    MEET
    const unsigned sums = place, mine = sums + (32 * warp << 16);
    // Columns 256 on: what a row of A, or the scales, are; before: what the sums hold at first.
    for (int c = 0; c < 16; ++c) {
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};"
            :: "r"(mine + 256 + c), "r"(extra[threadIdx.x * 16 + c]));
    }
    for (int c = 0; c < 256; ++c) {
        asm volatile("tcgen05.st.sync.aligned.32x32b.x1.b32 [%0], {%1};" :: "r"(mine + c), "r"(c * 0));
    }
    asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");
    asm volatile("tcgen05.fence::before_thread_sync;");
    MEET
    if (threadIdx.x == 0 && rank == 0) {
        asm volatile("tcgen05.fence::after_thread_sync;");
        for (int i = 0; i <= add; ++i) {
            asm volatile("{.reg .pred p; setp.ne.b32 p, %0, 0;\n"
                "tcgen05.mma.GROUP.KIND [%1], LEFT, %3, %4, MASK SCALES p; THEN}"
                :: "r"(i), "r"(sums), "l"(da), "l"(db), "r"(what), "r"(sums + 256), "r"(sums + 264));
        }
        asm volatile(COMMIT :: "r"(at(&done)), "h"((unsigned short)3) : "memory");
    }
    asm volatile("{.reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra AGAIN;}"
        :: "r"(at(&done)) : "memory");
    asm volatile("tcgen05.fence::after_thread_sync;");
    for (int c = 0; c < 256; ++c) {
        unsigned word;
        asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(word) : "r"(mine + c));
        asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");
        out[(rank * 128 + threadIdx.x) * 256 + c] = word;
    }
    MEET
    if (warp == 0) asm volatile("tcgen05.dealloc.GROUP.sync.aligned.b32 %0, 512;" :: "r"(sums));
}
