// __half and __half2: conversions, arithmetic, comparisons, shuffles.
#pragma once
struct __align__(2) __half_raw { unsigned short x; };
struct __align__(2) __half {
  protected:
    unsigned short __x;

  public:
    __half() = default;
    constexpr __half(const __half_raw& raw) : __x(raw.x) {}
    constexpr operator __half_raw() const { return {__x}; }
    __device__ __half(float f) : __x(__builtin_bit_cast(unsigned short, _Float16(f))) {}
    __device__ __half(double f) : __x(__builtin_bit_cast(unsigned short, _Float16(f))) {}
#define TILE_FROM(T) __device__ __half(T n) : __x(__builtin_bit_cast(unsigned short, (_Float16)n)) {}
    TILE_FROM(int) TILE_FROM(unsigned) TILE_FROM(short) TILE_FROM(unsigned short)
    TILE_FROM(long) TILE_FROM(unsigned long) TILE_FROM(long long) TILE_FROM(unsigned long long)
#undef TILE_FROM
    __device__ operator float() const { return __builtin_bit_cast(_Float16, __x); }
#define TILE_TO(T) __device__ operator T() const { return (T)__builtin_bit_cast(_Float16, __x); }
    TILE_TO(int) TILE_TO(unsigned) TILE_TO(short) TILE_TO(unsigned short)
    TILE_TO(long) TILE_TO(unsigned long) TILE_TO(long long) TILE_TO(unsigned long long)
#undef TILE_TO
    __device__ operator bool() const { return (__x & 0x7fff) != 0; }
};
typedef __half half;
struct __align__(4) __half2 {
    __half x, y;
    __half2() = default;
    __device__ __half2(const __half& x, const __half& y) : x(x), y(y) {}
};
typedef __half2 half2;
#define CUDART_INF_FP16 __ushort_as_half(0x7c00)

TILE_DEVICE unsigned short __half_as_ushort(__half h) { return __builtin_bit_cast(unsigned short, h); }
TILE_DEVICE short __half_as_short(__half h) { return __builtin_bit_cast(short, h); }
TILE_DEVICE __half __ushort_as_half(unsigned short u) { return __builtin_bit_cast(__half, u); }
TILE_DEVICE __half __short_as_half(short u) { return __builtin_bit_cast(__half, u); }
TILE_DEVICE float __half2float(__half h) { return float(h); }
TILE_DEVICE __half __float2half(float f) { return __half(f); }
TILE_DEVICE __half __float2half_rn(float f) { return __half(f); }
TILE_DEVICE __half __double2half(double f) { return __half(f); }
TILE_DEVICE __half __int2half_rn(int n) { return __half(n); }
TILE_DEVICE int __half2int_rz(__half h) { return int(float(h)); }
TILE_DEVICE int __half2int_rn(__half h) { return __float2int_rn(float(h)); }
TILE_DEVICE __half __float2half_rz(float f) {
    unsigned short u;
    asm("cvt.rz.f16.f32 %0, %1;" : "=h"(u) : "f"(f));
    return __ushort_as_half(u);
}
TILE_DEVICE __half2 make_half2(__half a, __half b) { return __half2(a, b); }
TILE_DEVICE __half2 __halves2half2(__half a, __half b) { return __half2(a, b); }
TILE_DEVICE __half2 __half2half2(__half a) { return __half2(a, a); }
TILE_DEVICE __half2 __float2half2_rn(float a) { return __half2(__half(a), __half(a)); }
TILE_DEVICE __half2 __floats2half2_rn(float a, float b) { return __half2(__half(a), __half(b)); }
TILE_DEVICE __half2 __float22half2_rn(float2 a) { return __half2(__half(a.x), __half(a.y)); }
TILE_DEVICE float2 __half22float2(__half2 a) { return {float(a.x), float(a.y)}; }
TILE_DEVICE __half __low2half(__half2 a) { return a.x; }
TILE_DEVICE __half __high2half(__half2 a) { return a.y; }
TILE_DEVICE float __low2float(__half2 a) { return float(a.x); }
TILE_DEVICE float __high2float(__half2 a) { return float(a.y); }
TILE_DEVICE __half2 __low2half2(__half2 a) { return __half2(a.x, a.x); }
TILE_DEVICE __half2 __high2half2(__half2 a) { return __half2(a.y, a.y); }
TILE_DEVICE __half2 __lowhigh2highlow(__half2 a) { return __half2(a.y, a.x); }
TILE_DEVICE __half2 __lows2half2(__half2 a, __half2 b) { return __half2(a.x, b.x); }
TILE_DEVICE __half2 __highs2half2(__half2 a, __half2 b) { return __half2(a.y, b.y); }

// -- arithmetic: each rounds once, as its PTX instruction does --------------------------------------
TILE_DEVICE unsigned tile_bits(__half2 a) { return __builtin_bit_cast(unsigned, a); }
TILE_DEVICE __half2 tile_half2(unsigned a) { return __builtin_bit_cast(__half2, a); }
#define TILE_TWO(NAME, PTX)                                                                        \
    TILE_DEVICE __half NAME(__half a, __half b) {                                                  \
        unsigned short d;                                                                          \
        asm(PTX ".f16 %0, %1, %2;" : "=h"(d) : "h"(__half_as_ushort(a)), "h"(__half_as_ushort(b))); \
        return __ushort_as_half(d);                                                                \
    }                                                                                              \
    TILE_DEVICE __half2 NAME##2(__half2 a, __half2 b) {                                            \
        unsigned d;                                                                                \
        asm(PTX ".f16x2 %0, %1, %2;" : "=r"(d) : "r"(tile_bits(a)), "r"(tile_bits(b)));            \
        return tile_half2(d);                                                                      \
    }
TILE_TWO(__hadd, "add")
TILE_TWO(__hsub, "sub")
TILE_TWO(__hmul, "mul")
TILE_TWO(__hadd_sat, "add.sat")
TILE_TWO(__hmul_sat, "mul.sat")
#if __CUDA_ARCH__ >= 800
TILE_TWO(__hmin, "min")
TILE_TWO(__hmax, "max")
#else
TILE_DEVICE __half __hmin(__half a, __half b) { return __half(fminf(float(a), float(b))); }
TILE_DEVICE __half __hmax(__half a, __half b) { return __half(fmaxf(float(a), float(b))); }
TILE_DEVICE __half2 __hmin2(__half2 a, __half2 b) { return {__hmin(a.x, b.x), __hmin(a.y, b.y)}; }
TILE_DEVICE __half2 __hmax2(__half2 a, __half2 b) { return {__hmax(a.x, b.x), __hmax(a.y, b.y)}; }
#endif
#undef TILE_TWO
TILE_DEVICE __half __hadd_rn(__half a, __half b) { return __hadd(a, b); }
TILE_DEVICE __half __hsub_rn(__half a, __half b) { return __hsub(a, b); }
TILE_DEVICE __half __hmul_rn(__half a, __half b) { return __hmul(a, b); }
TILE_DEVICE __half __hfma(__half a, __half b, __half c) {
    unsigned short d;
    asm("fma.rn.f16 %0, %1, %2, %3;" : "=h"(d)
        : "h"(__half_as_ushort(a)), "h"(__half_as_ushort(b)), "h"(__half_as_ushort(c)));
    return __ushort_as_half(d);
}
TILE_DEVICE __half2 __hfma2(__half2 a, __half2 b, __half2 c) {
    unsigned d;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(tile_bits(a)), "r"(tile_bits(b)), "r"(tile_bits(c)));
    return tile_half2(d);
}
TILE_DEVICE __half __hneg(__half a) { return __ushort_as_half(__half_as_ushort(a) ^ 0x8000); }
TILE_DEVICE __half __habs(__half a) { return __ushort_as_half(__half_as_ushort(a) & 0x7fff); }
TILE_DEVICE __half2 __hneg2(__half2 a) { return tile_half2(tile_bits(a) ^ 0x80008000u); }
TILE_DEVICE __half2 __habs2(__half2 a) { return tile_half2(tile_bits(a) & 0x7fff7fffu); }
TILE_DEVICE __half __hdiv(__half a, __half b) { return __half(float(a) / float(b)); }
TILE_DEVICE __half2 __h2div(__half2 a, __half2 b) { return {__hdiv(a.x, b.x), __hdiv(a.y, b.y)}; }
#define TILE_COMPARE(NAME, OP)                                                                     \
    TILE_DEVICE bool __h##NAME(__half a, __half b) { return float(a) OP float(b); }                \
    TILE_DEVICE __half2 __h##NAME##2(__half2 a, __half2 b) {                                       \
        return {__half(float(float(a.x) OP float(b.x))), __half(float(float(a.y) OP float(b.y)))}; \
    }                                                                                              \
    TILE_DEVICE bool operator OP(const __half& a, const __half& b) { return float(a) OP float(b); }
TILE_COMPARE(eq, ==)
TILE_COMPARE(ne, !=)
TILE_COMPARE(lt, <)
TILE_COMPARE(le, <=)
TILE_COMPARE(gt, >)
TILE_COMPARE(ge, >=)
#undef TILE_COMPARE
TILE_DEVICE bool __hisnan(__half a) { return isnan(float(a)); }
#define TILE_OPERATOR(OP, NAME, NAME2)                                                             \
    TILE_DEVICE __half operator OP(const __half& a, const __half& b) { return NAME(a, b); }        \
    TILE_DEVICE __half& operator OP##=(__half& a, const __half& b) { return a = NAME(a, b); }      \
    TILE_DEVICE __half2 operator OP(const __half2& a, const __half2& b) { return NAME2(a, b); }    \
    TILE_DEVICE __half2& operator OP##=(__half2& a, const __half2& b) { return a = NAME2(a, b); }
TILE_OPERATOR(+, __hadd, __hadd2)
TILE_OPERATOR(-, __hsub, __hsub2)
TILE_OPERATOR(*, __hmul, __hmul2)
TILE_OPERATOR(/, __hdiv, __h2div)
#undef TILE_OPERATOR
TILE_DEVICE __half operator-(const __half& a) { return __hneg(a); }
TILE_DEVICE __half operator+(const __half& a) { return a; }
TILE_DEVICE __half2 operator-(const __half2& a) { return __hneg2(a); }

// -- functions: through float, rounded once more ------------------------------------------------------
#define TILE_FUNCTION(NAME, OF)                                                                    \
    TILE_DEVICE __half h##NAME(__half a) { return __half(OF(float(a))); }                          \
    TILE_DEVICE __half2 h2##NAME(__half2 a) { return {h##NAME(a.x), h##NAME(a.y)}; }
TILE_DEVICE float tile_reciprocal(float a) { return 1.0f / a; }
TILE_FUNCTION(exp, expf) TILE_FUNCTION(exp2, exp2f) TILE_FUNCTION(exp10, exp10f)
TILE_FUNCTION(log, logf) TILE_FUNCTION(log2, log2f) TILE_FUNCTION(log10, log10f)
TILE_FUNCTION(sin, sinf) TILE_FUNCTION(cos, cosf) TILE_FUNCTION(sqrt, sqrtf)
TILE_FUNCTION(rsqrt, rsqrtf) TILE_FUNCTION(rcp, tile_reciprocal) TILE_FUNCTION(ceil, ceilf)
TILE_FUNCTION(floor, floorf) TILE_FUNCTION(rint, rintf) TILE_FUNCTION(trunc, truncf)
TILE_FUNCTION(tanh, tanhf)
#undef TILE_FUNCTION

#define TILE_SHUFFLE(NAME, STEP)                                                                   \
    TILE_DEVICE __half NAME(unsigned m, __half v, STEP x, int w = 32) {                            \
        return __ushort_as_half((unsigned short)NAME(m, (unsigned)__half_as_ushort(v), x, w));     \
    }                                                                                              \
    TILE_DEVICE __half2 NAME(unsigned m, __half2 v, STEP x, int w = 32) {                          \
        return tile_half2(NAME(m, tile_bits(v), x, w));                                            \
    }
TILE_SHUFFLE(__shfl_sync, int)
TILE_SHUFFLE(__shfl_up_sync, unsigned)
TILE_SHUFFLE(__shfl_down_sync, unsigned)
TILE_SHUFFLE(__shfl_xor_sync, int)
#undef TILE_SHUFFLE
#define TILE_LOAD(NAME)                                                                            \
    TILE_DEVICE __half NAME(const __half* p) {                                                     \
        return __ushort_as_half(NAME((const unsigned short*)p));                                   \
    }                                                                                              \
    TILE_DEVICE __half2 NAME(const __half2* p) { return tile_half2(NAME((const unsigned*)p)); }
TILE_LOAD(__ldg) TILE_LOAD(__ldca) TILE_LOAD(__ldcg) TILE_LOAD(__ldcs)
#undef TILE_LOAD
TILE_DEVICE __half atomicAdd(__half* p, __half v) {
    unsigned short old;
    asm volatile("atom.add.noftz.f16 %0, [%1], %2;"
                 : "=h"(old) : "l"(p), "h"(__half_as_ushort(v)) : "memory");
    return __ushort_as_half(old);
}
TILE_DEVICE __half2 atomicAdd(__half2* p, __half2 v) {
    unsigned old;
    asm volatile("atom.add.noftz.f16x2 %0, [%1], %2;"
                 : "=r"(old) : "l"(p), "r"(tile_bits(v)) : "memory");
    return tile_half2(old);
}
