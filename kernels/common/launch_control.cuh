// Cluster launch control: a cluster that is done takes over one that has not
// started (sm_100).
//
// One thread asks; the answer, 16 bytes, arrives in the shared memory of every
// block of the cluster and counts at the barrier at the same place there. It names
// the first block of a cluster that will now never start, or says that none is
// left.
// Source: PTX ISA, "clusterlaunchcontrol".
#pragma once

#include "common/mbarrier.cuh"

struct alignas(16) Answer {
    unsigned long long half[2];
};

// The first block of a cluster's work; `more` is false when none is left.
struct Work {
    int x, y;
    bool more;
};

__device__ __forceinline__ void ask_for_work(Answer* answer, Barrier* answered) {
    asm volatile(
        "clusterlaunchcontrol.try_cancel.async.shared::cta"
        ".mbarrier::complete_tx::bytes.multicast::cluster::all.b128 [%0], [%1];" ::
            "r"(to_shared(answer)),
        "r"(to_shared(answered))
        : "memory");
}

__device__ __forceinline__ Work read_work(const Answer* answer) {
    int x, y, more;
    asm volatile(
        "{\n"
        ".reg .pred taken;\n"
        ".reg .b128 answer;\n"
        "ld.shared.b128 answer, [%3];\n"
        "clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 taken, answer;\n"
        "selp.b32 %2, 1, 0, taken;\n"
        "mov.b32 %0, 0;\n"
        "mov.b32 %1, 0;\n"
        "@taken clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 "
        "%0, answer;\n"
        "@taken clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 "
        "%1, answer;\n"
        "}\n"
        : "=r"(x), "=r"(y), "=r"(more)
        : "r"(to_shared(answer))
        : "memory");
    return {x, y, more != 0};
}
