// Barriers in shared memory that wait for threads and for bytes (sm_90).
//
// An mbarrier runs through phases. A phase ends when the expected number of threads
// has arrived and every byte announced for it has been copied; then the next phase
// begins by itself. A waiter names a phase by its parity, 0 for the first, 1 for
// the second, 0 for the third, and goes on once that phase has ended. On a new
// barrier a wait for parity 1 returns at once, as if a phase had ended before the
// first. Source: PTX ISA, "Parallel Synchronization and Communication Instructions:
// mbarrier".
#pragma once

using Barrier = unsigned long long;

__device__ __forceinline__ unsigned to_shared(const void* pointer) {
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// One thread sets a barrier up for `arrivals` a phase; barrier_init_fence, then a
// block (or cluster) barrier, make it known to the copy engine and to the other
// threads.
__device__ __forceinline__ void barrier_init(Barrier* barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 ::"r"(to_shared(barrier)), "r"(arrivals)
                 : "memory");
}

__device__ __forceinline__ void barrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// Arrives, and announces that `bytes` of this phase will come by asynchronous
// copies.
__device__ __forceinline__ void barrier_arrive_expect(Barrier* barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 ::"r"(to_shared(barrier)), "r"(bytes)
                 : "memory");
}

__device__ __forceinline__ void barrier_arrive(Barrier* barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"
                 ::"r"(to_shared(barrier))
                 : "memory");
}

// Arrives at the same barrier of another block of the cluster. Relaxed, since it
// says only that the warpgroup's products no longer read a stage: a release would
// wait, at every step, until all that the thread has written is visible to the
// whole GPU.
__device__ __forceinline__ void barrier_arrive_remote(Barrier* barrier, int block) {
    asm volatile(
        "{\n"
        ".reg .b32 remote;\n"
        "mapa.shared::cluster.u32 remote, %0, %1;\n"
        "mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [remote];\n"
        "}\n" ::"r"(to_shared(barrier)),
        "r"(block)
        : "memory");
}

// Waits until the phase of this parity has ended. The hardware suspends the thread
// for a while at each try.
__device__ __forceinline__ void barrier_wait(Barrier* barrier, unsigned parity) {
    asm volatile(
        "{\n"
        ".reg .pred ended;\n"
        "TRY:\n"
        "mbarrier.try_wait.parity.shared::cta.b64 ended, [%0], %1;\n"
        "@!ended bra TRY;\n"
        "}\n" ::"r"(to_shared(barrier)),
        "r"(parity)
        : "memory");
}

// A place in a ring of `slots` buffers, and the parity of the current round through
// them.
template <int slots>
struct RingPlace {
    int stage = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void advance() {
        if (++stage == slots) {
            stage = 0;
            parity ^= 1;
        }
    }
};
