// What threads do together: barriers, fences, shuffles, votes.
#pragma once
TILE_DEVICE void __syncwarp(unsigned mask = 0xffffffffu) { __nvvm_bar_warp_sync(mask); }
TILE_DEVICE int __syncthreads_count(int p) { return __nvvm_bar0_popc(p); }
TILE_DEVICE int __syncthreads_and(int p) { return __nvvm_bar0_and(p); }
TILE_DEVICE int __syncthreads_or(int p) { return __nvvm_bar0_or(p); }
TILE_DEVICE void __threadfence_block() { __nvvm_membar_cta(); }
TILE_DEVICE void __threadfence() { __nvvm_membar_gl(); }
TILE_DEVICE void __threadfence_system() { __nvvm_membar_sys(); }
TILE_DEVICE void __nanosleep(unsigned ns) { asm volatile("nanosleep.u32 %0;" ::"r"(ns)); }
TILE_DEVICE unsigned __activemask() {
    unsigned mask;
    asm volatile("activemask.b32 %0;" : "=r"(mask));
    return mask;
}
TILE_DEVICE unsigned __ballot_sync(unsigned m, int p) { return __nvvm_vote_ballot_sync(m, p); }
TILE_DEVICE int __any_sync(unsigned m, int p) { return __nvvm_vote_any_sync(m, p); }
TILE_DEVICE int __all_sync(unsigned m, int p) { return __nvvm_vote_all_sync(m, p); }
TILE_DEVICE int __uni_sync(unsigned m, int p) { return __nvvm_vote_uni_sync(m, p); }

// clamp: what the instruction holds of the segments' width and of the last lane in reach.
#define TILE_SHUFFLE(NAME, MODE, LAST, STEP)                                                       \
    TILE_DEVICE int NAME(unsigned m, int v, STEP x, int w = 32) {                                  \
        return __nvvm_shfl_sync_##MODE##_i32(m, v, x, ((32 - w) << 8) | (LAST));                   \
    }                                                                                              \
    TILE_DEVICE unsigned NAME(unsigned m, unsigned v, STEP x, int w = 32) {                        \
        return (unsigned)NAME(m, (int)v, x, w);                                                    \
    }                                                                                              \
    TILE_DEVICE float NAME(unsigned m, float v, STEP x, int w = 32) {                              \
        return __int_as_float(NAME(m, __float_as_int(v), x, w));                                   \
    }                                                                                              \
    TILE_DEVICE long long NAME(unsigned m, long long v, STEP x, int w = 32) {                      \
        unsigned low = NAME(m, unsigned(v), x, w), high = NAME(m, unsigned(v >> 32), x, w);        \
        return (long long)((unsigned long long)high << 32 | low);                                  \
    }                                                                                              \
    TILE_DEVICE unsigned long long NAME(unsigned m, unsigned long long v, STEP x, int w = 32) {    \
        return (unsigned long long)NAME(m, (long long)v, x, w);                                    \
    }                                                                                              \
    TILE_DEVICE long NAME(unsigned m, long v, STEP x, int w = 32) {                                \
        return (long)NAME(m, (long long)v, x, w);                                                  \
    }                                                                                              \
    TILE_DEVICE unsigned long NAME(unsigned m, unsigned long v, STEP x, int w = 32) {              \
        return (unsigned long)NAME(m, (long long)v, x, w);                                         \
    }                                                                                              \
    TILE_DEVICE double NAME(unsigned m, double v, STEP x, int w = 32) {                            \
        return __longlong_as_double(NAME(m, __double_as_longlong(v), x, w));                       \
    }
TILE_SHUFFLE(__shfl_sync, idx, 0x1f, int)
TILE_SHUFFLE(__shfl_up_sync, up, 0, unsigned)
TILE_SHUFFLE(__shfl_down_sync, down, 0x1f, unsigned)
TILE_SHUFFLE(__shfl_xor_sync, bfly, 0x1f, int)
#undef TILE_SHUFFLE

#define TILE_MATCH(T, BITS, LETTER, AS)                                                            \
    TILE_DEVICE unsigned __match_any_sync(unsigned m, T v) {                                       \
        unsigned d;                                                                                \
        asm volatile("match.any.sync." BITS " %0, %1, %2;"                                         \
                     : "=r"(d) : LETTER(AS(v)), "r"(m));                                           \
        return d;                                                                                  \
    }                                                                                              \
    TILE_DEVICE unsigned __match_all_sync(unsigned m, T v, int* all) {                             \
        unsigned d;                                                                                \
        int p;                                                                                     \
        asm volatile("{ .reg .pred p; match.all.sync." BITS " %0|p, %2, %3; selp.s32 %1, 1, 0, p; }" \
                     : "=r"(d), "=r"(p) : LETTER(AS(v)), "r"(m));                                  \
        *all = p;                                                                                  \
        return d;                                                                                  \
    }
TILE_MATCH(int, "b32", "r", int)
TILE_MATCH(unsigned, "b32", "r", unsigned)
TILE_MATCH(float, "b32", "r", __float_as_int)
TILE_MATCH(long, "b64", "l", long)
TILE_MATCH(unsigned long, "b64", "l", long)
TILE_MATCH(long long, "b64", "l", long)
TILE_MATCH(unsigned long long, "b64", "l", long)
TILE_MATCH(double, "b64", "l", __double_as_longlong)
#undef TILE_MATCH

#if __CUDA_ARCH__ >= 800
#define TILE_REDUCE(NAME, PTX, T)                                                                  \
    TILE_DEVICE T __reduce_##NAME##_sync(unsigned m, T v) {                                        \
        T d;                                                                                       \
        asm volatile("redux.sync." PTX " %0, %1, %2;" : "=r"(d) : "r"(v), "r"(m));                 \
        return d;                                                                                  \
    }
TILE_REDUCE(add, "add.s32", int)
TILE_REDUCE(add, "add.u32", unsigned)
TILE_REDUCE(min, "min.s32", int)
TILE_REDUCE(min, "min.u32", unsigned)
TILE_REDUCE(max, "max.s32", int)
TILE_REDUCE(max, "max.u32", unsigned)
TILE_REDUCE(and, "and.b32", unsigned)
TILE_REDUCE(or, "or.b32", unsigned)
TILE_REDUCE(xor, "xor.b32", unsigned)
#undef TILE_REDUCE
#endif
