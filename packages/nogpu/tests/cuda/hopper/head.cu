typedef unsigned long long u64;
struct alignas(64) Map { u64 opaque[16]; };
#define SMEM(p) ((unsigned)__cvta_generic_to_shared(p))
#define TMA(n) "cp.async.bulk.tensor." #n "d.shared::cluster.global.mbarrier::complete_tx::bytes"
__device__ void bar_init(u64* b, int n) { asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(SMEM(b)), "r"(n)); }
__device__ void bars_ready() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ void bar_tx(u64* b, int n) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(SMEM(b)), "r"(n) : "memory");
}
__device__ void bar_arrive(u64* b) {
    asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(SMEM(b)) : "memory");
}
__device__ bool bar_try(u64* b, unsigned phase) {
    unsigned done;
    asm volatile("{ .reg .pred q; mbarrier.try_wait.parity.shared.b64 q, [%1], %2; selp.b32 %0, 1, 0, q; }"
                 : "=r"(done) : "r"(SMEM(b)), "r"(phase) : "memory");
    return done;
}
__device__ void bar_wait(u64* b, unsigned phase) { while (!bar_try(b, phase)) { } }
__device__ void tma2(void* to, const Map* map, u64* b, int x, int y) {
    asm volatile(TMA(2) " [%0], [%1, {%3, %4}], [%2];"
                 :: "r"(SMEM(to)), "l"(map), "r"(SMEM(b)), "r"(x), "r"(y) : "memory");
}
__device__ void tma3(void* to, const Map* map, u64* b, int x, int y, int z) {
    asm volatile(TMA(3) " [%0], [%1, {%3, %4, %5}], [%2];"
                 :: "r"(SMEM(to)), "l"(map), "r"(SMEM(b)), "r"(x), "r"(y), "r"(z) : "memory");
}
// mode: 0 no swizzle, 1 of 128, 2 of 64, 3 of 32 bytes.
__device__ u64 tile_at(const void* p, u64 lead, u64 stride, u64 mode) {
    return (SMEM(p) & 0x3ffff) >> 4 | lead >> 4 << 16 | stride >> 4 << 32 | mode << 62;
}
__device__ void mma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void mma_end() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
}
__device__ int sum_row(int i) { return threadIdx.x / 32 % 4 * 16 + threadIdx.x % 32 / 4 + i / 2 % 2 * 8; }
__device__ int sum_col(int i) { return i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2; }
