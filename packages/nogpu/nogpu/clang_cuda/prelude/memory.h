// Addresses, accesses with a policy, atomic operations, the heap, printing, clocks.
#pragma once
#define TILE_SPACE(NAME, NUMBER)                                                                   \
    TILE_DEVICE size_t __cvta_generic_to_##NAME(const void* p) {                                   \
        return (size_t)(const void __attribute__((address_space(NUMBER)))*)p;                      \
    }                                                                                              \
    TILE_DEVICE void* __cvta_##NAME##_to_generic(size_t p) {                                       \
        return (void*)(void __attribute__((address_space(NUMBER)))*)p;                             \
    }
TILE_SPACE(shared, 3)
TILE_SPACE(global, 1)
TILE_SPACE(constant, 4)
TILE_SPACE(local, 5)
#undef TILE_SPACE
TILE_DEVICE unsigned __isGlobal(const void* p) { return __nvvm_isspacep_global(p); }
TILE_DEVICE unsigned __isShared(const void* p) { return __nvvm_isspacep_shared(p); }
TILE_DEVICE unsigned __isConstant(const void* p) { return __nvvm_isspacep_const(p); }
TILE_DEVICE unsigned __isLocal(const void* p) { return __nvvm_isspacep_local(p); }

// Loads and stores with a policy: one, two or four words at a time.
#define TILE_LOAD1(NAME, T, HOW, PTX, LETTER, HELD)                                                \
    TILE_DEVICE T NAME(const T* p) {                                                               \
        HELD v;                                                                                    \
        asm volatile(HOW "." PTX " %0, [%1];" : "=" LETTER(v) : "l"(__cvta_generic_to_global(p))   \
                     : "memory");                                                                  \
        return (T)v;                                                                               \
    }
#define TILE_LOAD2(NAME, T, HOW, PTX, LETTER)                                                      \
    TILE_DEVICE T NAME(const T* p) {                                                               \
        T v;                                                                                       \
        asm volatile(HOW ".v2." PTX " {%0, %1}, [%2];" : "=" LETTER(v.x), "=" LETTER(v.y)          \
                     : "l"(__cvta_generic_to_global(p)) : "memory");                               \
        return v;                                                                                  \
    }
#define TILE_LOAD4(NAME, T, HOW, PTX, LETTER)                                                      \
    TILE_DEVICE T NAME(const T* p) {                                                               \
        T v;                                                                                       \
        asm volatile(HOW ".v4." PTX " {%0, %1, %2, %3}, [%4];"                                     \
                     : "=" LETTER(v.x), "=" LETTER(v.y), "=" LETTER(v.z), "=" LETTER(v.w)          \
                     : "l"(__cvta_generic_to_global(p)) : "memory");                               \
        return v;                                                                                  \
    }
#define TILE_LOADS(NAME, HOW)                                                                      \
    TILE_LOAD1(NAME, float, HOW, "f32", "f", float)                                                \
    TILE_LOAD1(NAME, double, HOW, "f64", "d", double)                                              \
    TILE_LOAD1(NAME, int, HOW, "s32", "r", int)                                                    \
    TILE_LOAD1(NAME, unsigned, HOW, "u32", "r", unsigned)                                          \
    TILE_LOAD1(NAME, short, HOW, "s16", "h", short)                                                \
    TILE_LOAD1(NAME, unsigned short, HOW, "u16", "h", unsigned short)                              \
    TILE_LOAD1(NAME, signed char, HOW, "s8", "r", int)                                             \
    TILE_LOAD1(NAME, unsigned char, HOW, "u8", "r", unsigned)                                      \
    TILE_LOAD1(NAME, long, HOW, "s64", "l", long)                                                  \
    TILE_LOAD1(NAME, unsigned long, HOW, "u64", "l", unsigned long)                                \
    TILE_LOAD1(NAME, long long, HOW, "s64", "l", long long)                                        \
    TILE_LOAD1(NAME, unsigned long long, HOW, "u64", "l", unsigned long long)                      \
    TILE_LOAD2(NAME, float2, HOW, "f32", "f")                                                      \
    TILE_LOAD2(NAME, double2, HOW, "f64", "d")                                                     \
    TILE_LOAD2(NAME, int2, HOW, "s32", "r")                                                        \
    TILE_LOAD2(NAME, uint2, HOW, "u32", "r")                                                       \
    TILE_LOAD4(NAME, float4, HOW, "f32", "f")                                                      \
    TILE_LOAD4(NAME, int4, HOW, "s32", "r")                                                        \
    TILE_LOAD4(NAME, uint4, HOW, "u32", "r")
TILE_LOADS(__ldg, "ld.global.nc")
TILE_LOADS(__ldca, "ld.global.ca")
TILE_LOADS(__ldcg, "ld.global.cg")
TILE_LOADS(__ldcs, "ld.global.cs")
TILE_LOADS(__ldlu, "ld.global.lu")
TILE_LOADS(__ldcv, "ld.global.cv")
#undef TILE_LOADS
#undef TILE_LOAD1
#undef TILE_LOAD2
#undef TILE_LOAD4
#define TILE_STORE1(NAME, T, HOW, PTX, LETTER, HELD)                                               \
    TILE_DEVICE void NAME(T* p, T v) {                                                             \
        asm volatile(HOW "." PTX " [%0], %1;" ::"l"(__cvta_generic_to_global(p)), LETTER((HELD)v)  \
                     : "memory");                                                                  \
    }
#define TILE_STORES(NAME, HOW)                                                                     \
    TILE_STORE1(NAME, float, HOW, "f32", "f", float)                                               \
    TILE_STORE1(NAME, double, HOW, "f64", "d", double)                                             \
    TILE_STORE1(NAME, int, HOW, "s32", "r", int)                                                   \
    TILE_STORE1(NAME, unsigned, HOW, "u32", "r", unsigned)                                         \
    TILE_STORE1(NAME, long long, HOW, "s64", "l", long long)                                     \
    TILE_STORE1(NAME, unsigned long long, HOW, "u64", "l", unsigned long long)                   \
    TILE_DEVICE void NAME(float2* p, float2 v) {                                                   \
        asm volatile(HOW ".v2.f32 [%0], {%1, %2};" ::"l"(__cvta_generic_to_global(p)), "f"(v.x),   \
                     "f"(v.y) : "memory");                                                         \
    }                                                                                              \
    TILE_DEVICE void NAME(float4* p, float4 v) {                                                   \
        asm volatile(HOW ".v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)),     \
                     "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");                           \
    }                                                                                              \
    TILE_DEVICE void NAME(uint4* p, uint4 v) {                                                     \
        asm volatile(HOW ".v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)),     \
                     "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");                           \
    }                                                                                              \
    TILE_DEVICE void NAME(int4* p, int4 v) {                                                       \
        asm volatile(HOW ".v4.s32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)),     \
                     "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");                           \
    }
TILE_STORES(__stwb, "st.global.wb")
TILE_STORES(__stcg, "st.global.cg")
TILE_STORES(__stcs, "st.global.cs")
TILE_STORES(__stwt, "st.global.wt")
#undef TILE_STORES
#undef TILE_STORE1

// -- atomic operations: NAME, NAME_block (the block sees it) and NAME_system -----------------------
#define TILE_ATOMIC(NAME, T, OPERATION, PTX, LETTER, SCOPE)                                        \
    TILE_DEVICE T NAME(T* p, T v) {                                                                \
        T old;                                                                                     \
        asm volatile("atom." SCOPE OPERATION "." PTX " %0, [%1], %2;"                              \
                     : "=" LETTER(old) : "l"(p), LETTER(v) : "memory");                            \
        return old;                                                                                \
    }
#define TILE_COMPARE(NAME, T, PTX, LETTER, SCOPE)                                                  \
    TILE_DEVICE T NAME(T* p, T compare, T v) {                                                     \
        T old;                                                                                     \
        asm volatile("atom." SCOPE "cas." PTX " %0, [%1], %2, %3;"                                 \
                     : "=" LETTER(old) : "l"(p), LETTER(compare), LETTER(v) : "memory");           \
        return old;                                                                                \
    }
#define TILE_ATOMICS(END, SCOPE)                                                                   \
    TILE_ATOMIC(atomicAdd##END, int, "add", "s32", "r", SCOPE)                                     \
    TILE_ATOMIC(atomicAdd##END, unsigned, "add", "u32", "r", SCOPE)                                \
    TILE_ATOMIC(atomicAdd##END, unsigned long long, "add", "u64", "l", SCOPE)                      \
    TILE_ATOMIC(atomicAdd##END, float, "add", "f32", "f", SCOPE)                                   \
    TILE_ATOMIC(atomicAdd##END, double, "add", "f64", "d", SCOPE)                                  \
    TILE_ATOMIC(atomicExch##END, int, "exch", "b32", "r", SCOPE)                                   \
    TILE_ATOMIC(atomicExch##END, unsigned, "exch", "b32", "r", SCOPE)                              \
    TILE_ATOMIC(atomicExch##END, unsigned long long, "exch", "b64", "l", SCOPE)                    \
    TILE_DEVICE float atomicExch##END(float* p, float v) {                                         \
        return __int_as_float(atomicExch##END((int*)p, __float_as_int(v)));                        \
    }                                                                                              \
    TILE_ATOMIC(atomicMin##END, int, "min", "s32", "r", SCOPE)                                     \
    TILE_ATOMIC(atomicMin##END, unsigned, "min", "u32", "r", SCOPE)                                \
    TILE_ATOMIC(atomicMin##END, long long, "min", "s64", "l", SCOPE)                               \
    TILE_ATOMIC(atomicMin##END, unsigned long long, "min", "u64", "l", SCOPE)                      \
    TILE_ATOMIC(atomicMax##END, int, "max", "s32", "r", SCOPE)                                     \
    TILE_ATOMIC(atomicMax##END, unsigned, "max", "u32", "r", SCOPE)                                \
    TILE_ATOMIC(atomicMax##END, long long, "max", "s64", "l", SCOPE)                               \
    TILE_ATOMIC(atomicMax##END, unsigned long long, "max", "u64", "l", SCOPE)                      \
    TILE_ATOMIC(atomicInc##END, unsigned, "inc", "u32", "r", SCOPE)                                \
    TILE_ATOMIC(atomicDec##END, unsigned, "dec", "u32", "r", SCOPE)                                \
    TILE_ATOMIC(atomicAnd##END, int, "and", "b32", "r", SCOPE)                                     \
    TILE_ATOMIC(atomicAnd##END, unsigned, "and", "b32", "r", SCOPE)                                \
    TILE_ATOMIC(atomicAnd##END, unsigned long long, "and", "b64", "l", SCOPE)                      \
    TILE_ATOMIC(atomicOr##END, int, "or", "b32", "r", SCOPE)                                       \
    TILE_ATOMIC(atomicOr##END, unsigned, "or", "b32", "r", SCOPE)                                  \
    TILE_ATOMIC(atomicOr##END, unsigned long long, "or", "b64", "l", SCOPE)                        \
    TILE_ATOMIC(atomicXor##END, int, "xor", "b32", "r", SCOPE)                                     \
    TILE_ATOMIC(atomicXor##END, unsigned, "xor", "b32", "r", SCOPE)                                \
    TILE_ATOMIC(atomicXor##END, unsigned long long, "xor", "b64", "l", SCOPE)                      \
    TILE_COMPARE(atomicCAS##END, int, "b32", "r", SCOPE)                                           \
    TILE_COMPARE(atomicCAS##END, unsigned, "b32", "r", SCOPE)                                      \
    TILE_COMPARE(atomicCAS##END, unsigned long long, "b64", "l", SCOPE)                            \
    TILE_COMPARE(atomicCAS##END, unsigned short, "b16", "h", SCOPE)                                \
    TILE_DEVICE int atomicSub##END(int* p, int v) { return atomicAdd##END(p, -v); }                \
    TILE_DEVICE unsigned atomicSub##END(unsigned* p, unsigned v) { return atomicAdd##END(p, -v); }
TILE_ATOMICS(, "")
TILE_ATOMICS(_block, "cta.")
TILE_ATOMICS(_system, "sys.")
#undef TILE_ATOMICS
#undef TILE_ATOMIC
#undef TILE_COMPARE

// -- functions that the GPU's own library holds ----------------------------------------------------
extern "C" __device__ int printf(const char*, ...);
extern "C" __device__ void* malloc(size_t);
extern "C" __device__ void free(void*);
#pragma clang force_cuda_host_device end
TILE_NEW void* operator new(size_t n) { return malloc(n); }
TILE_NEW void* operator new[](size_t n) { return malloc(n); }
TILE_NEW void operator delete(void* p) noexcept { free(p); }
TILE_NEW void operator delete[](void* p) noexcept { free(p); }
TILE_NEW void operator delete(void* p, size_t) noexcept { free(p); }
TILE_NEW void operator delete[](void* p, size_t) noexcept { free(p); }
#pragma clang force_cuda_host_device begin
extern "C" __device__ void __assertfail(const char*, const char*, unsigned, const char*, size_t)
    __attribute__((noreturn));
#ifdef NDEBUG
#define assert(e) ((void)0)
#else
#define assert(e) ((e) ? (void)0 : __assertfail(#e, __FILE__, __LINE__, __func__, 1))
#endif
TILE_DEVICE void* memcpy(void* to, const void* from, size_t n) { return __builtin_memcpy(to, from, n); }
TILE_DEVICE void* memset(void* to, int value, size_t n) { return __builtin_memset(to, value, n); }
TILE_DEVICE void __trap() { asm volatile("trap;"); }
TILE_DEVICE void __brkpt() { asm volatile("brkpt;"); }
TILE_DEVICE long long clock64() {
    long long t;
    asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
    return t;
}
TILE_DEVICE int clock() {
    int t;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(t)::"memory");
    return t;
}
