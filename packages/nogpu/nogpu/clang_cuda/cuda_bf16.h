// __nv_bfloat16 and __nv_bfloat162: conversions, arithmetic, comparisons.
// Sums, products and quotients go through float, which holds twice the digits and more: they round as
// if once.
#pragma once
struct __align__(2) __nv_bfloat16_raw { unsigned short x; };
TILE_DEVICE unsigned short tile_to_bfloat16(float f) {
    return __builtin_bit_cast(unsigned short, static_cast<__bf16>(f));
}
struct __align__(2) __nv_bfloat16 {
  protected:
    unsigned short __x;

  public:
    __nv_bfloat16() = default;
    constexpr __nv_bfloat16(const __nv_bfloat16_raw& raw) : __x(raw.x) {}
    constexpr operator __nv_bfloat16_raw() const { return {__x}; }
    __device__ __nv_bfloat16(float f) : __x(tile_to_bfloat16(f)) {}
#define TILE_FROM(T) __device__ __nv_bfloat16(T n) : __x(tile_to_bfloat16(float(n))) {}
    TILE_FROM(double) TILE_FROM(int) TILE_FROM(unsigned) TILE_FROM(short) TILE_FROM(unsigned short)
    TILE_FROM(long) TILE_FROM(unsigned long) TILE_FROM(long long) TILE_FROM(unsigned long long)
#undef TILE_FROM
    __device__ operator float() const { return __uint_as_float(unsigned(__x) << 16); }
#define TILE_TO(T) __device__ operator T() const { return (T)__uint_as_float(unsigned(__x) << 16); }
    TILE_TO(int) TILE_TO(unsigned) TILE_TO(short) TILE_TO(unsigned short)
    TILE_TO(long) TILE_TO(unsigned long) TILE_TO(long long) TILE_TO(unsigned long long)
#undef TILE_TO
    __device__ operator bool() const { return (__x & 0x7fff) != 0; }
};
typedef __nv_bfloat16 nv_bfloat16;
struct __align__(4) __nv_bfloat162 {
    __nv_bfloat16 x, y;
    __nv_bfloat162() = default;
    __device__ __nv_bfloat162(const __nv_bfloat16& x, const __nv_bfloat16& y) : x(x), y(y) {}
};
typedef __nv_bfloat162 nv_bfloat162;

TILE_DEVICE unsigned short __bfloat16_as_ushort(__nv_bfloat16 h) {
    return __builtin_bit_cast(unsigned short, h);
}
TILE_DEVICE __nv_bfloat16 __ushort_as_bfloat16(unsigned short u) {
    return __builtin_bit_cast(__nv_bfloat16, u);
}
TILE_DEVICE float __bfloat162float(__nv_bfloat16 h) { return float(h); }
TILE_DEVICE __nv_bfloat16 __float2bfloat16(float f) { return __nv_bfloat16(f); }
TILE_DEVICE __nv_bfloat16 __float2bfloat16_rn(float f) { return __nv_bfloat16(f); }
TILE_DEVICE __nv_bfloat16 __float2bfloat16_rz(float f) {
    return __ushort_as_bfloat16(isnan(f) ? 0x7fff : __float_as_uint(f) >> 16);
}
TILE_DEVICE __nv_bfloat16 __double2bfloat16(double f) { return __nv_bfloat16(float(f)); }
TILE_DEVICE __nv_bfloat162 make_bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
TILE_DEVICE __nv_bfloat162 __halves2bfloat162(__nv_bfloat16 a, __nv_bfloat16 b) { return {a, b}; }
TILE_DEVICE __nv_bfloat162 __bfloat162bfloat162(__nv_bfloat16 a) { return {a, a}; }
TILE_DEVICE __nv_bfloat162 __float2bfloat162_rn(float a) { return {__nv_bfloat16(a), __nv_bfloat16(a)}; }
TILE_DEVICE __nv_bfloat162 __floats2bfloat162_rn(float a, float b) {
    return {__nv_bfloat16(a), __nv_bfloat16(b)};
}
TILE_DEVICE __nv_bfloat162 __float22bfloat162_rn(float2 a) { return __floats2bfloat162_rn(a.x, a.y); }
TILE_DEVICE float2 __bfloat1622float2(__nv_bfloat162 a) { return {float(a.x), float(a.y)}; }
TILE_DEVICE __nv_bfloat16 __low2bfloat16(__nv_bfloat162 a) { return a.x; }
TILE_DEVICE __nv_bfloat16 __high2bfloat16(__nv_bfloat162 a) { return a.y; }
TILE_DEVICE float __low2float(__nv_bfloat162 a) { return float(a.x); }
TILE_DEVICE float __high2float(__nv_bfloat162 a) { return float(a.y); }

// asm, so that no sum is joined with a product before it is rounded.
TILE_DEVICE unsigned tile_bits(__nv_bfloat162 a) { return __builtin_bit_cast(unsigned, a); }
#define TILE_TWO(NAME, OF, OP)                                                                     \
    TILE_DEVICE __nv_bfloat16 NAME(__nv_bfloat16 a, __nv_bfloat16 b) {                             \
        return __nv_bfloat16(OF(float(a), float(b)));                                              \
    }                                                                                              \
    TILE_DEVICE __nv_bfloat162 NAME##2(__nv_bfloat162 a, __nv_bfloat162 b) {                       \
        return {NAME(a.x, b.x), NAME(a.y, b.y)};                                                   \
    }                                                                                              \
    OP
#define TILE_OPERATOR(OP, NAME)                                                                    \
    TILE_DEVICE __nv_bfloat16 operator OP(const __nv_bfloat16& a, const __nv_bfloat16& b) {        \
        return NAME(a, b);                                                                         \
    }                                                                                              \
    TILE_DEVICE __nv_bfloat16& operator OP##=(__nv_bfloat16& a, const __nv_bfloat16& b) {          \
        return a = NAME(a, b);                                                                     \
    }                                                                                              \
    TILE_DEVICE __nv_bfloat162 operator OP(const __nv_bfloat162& a, const __nv_bfloat162& b) {     \
        return NAME##2(a, b);                                                                      \
    }
TILE_TWO(__hadd, __fadd_rn, TILE_OPERATOR(+, __hadd))
TILE_TWO(__hsub, __fsub_rn, TILE_OPERATOR(-, __hsub))
TILE_TWO(__hmul, __fmul_rn, TILE_OPERATOR(*, __hmul))
TILE_TWO(__hmin, fminf, )
TILE_TWO(__hmax, fmaxf, )
TILE_DEVICE __nv_bfloat16 __hdiv(__nv_bfloat16 a, __nv_bfloat16 b) {
    return __nv_bfloat16(__fdiv_rn(float(a), float(b)));
}
TILE_DEVICE __nv_bfloat162 __hdiv2(__nv_bfloat162 a, __nv_bfloat162 b) {
    return {__hdiv(a.x, b.x), __hdiv(a.y, b.y)};
}
TILE_OPERATOR(/, __hdiv)
#undef TILE_TWO
#undef TILE_OPERATOR
#if __CUDA_ARCH__ >= 800
TILE_DEVICE __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    unsigned short d;
    asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(d)
        : "h"(__bfloat16_as_ushort(a)), "h"(__bfloat16_as_ushort(b)), "h"(__bfloat16_as_ushort(c)));
    return __ushort_as_bfloat16(d);
}
#else
TILE_DEVICE __nv_bfloat16 __hfma(__nv_bfloat16 a, __nv_bfloat16 b, __nv_bfloat16 c) {
    return __nv_bfloat16(fmaf(float(a), float(b), float(c)));
}
#endif
TILE_DEVICE __nv_bfloat162 __hfma2(__nv_bfloat162 a, __nv_bfloat162 b, __nv_bfloat162 c) {
    return {__hfma(a.x, b.x, c.x), __hfma(a.y, b.y, c.y)};
}
TILE_DEVICE __nv_bfloat16 __hneg(__nv_bfloat16 a) {
    return __ushort_as_bfloat16(__bfloat16_as_ushort(a) ^ 0x8000);
}
TILE_DEVICE __nv_bfloat16 __habs(__nv_bfloat16 a) {
    return __ushort_as_bfloat16(__bfloat16_as_ushort(a) & 0x7fff);
}
TILE_DEVICE __nv_bfloat16 operator-(const __nv_bfloat16& a) { return __hneg(a); }
#define TILE_COMPARE(NAME, OP)                                                                     \
    TILE_DEVICE bool __h##NAME(__nv_bfloat16 a, __nv_bfloat16 b) { return float(a) OP float(b); }  \
    TILE_DEVICE bool operator OP(const __nv_bfloat16& a, const __nv_bfloat16& b) {                 \
        return float(a) OP float(b);                                                               \
    }
TILE_COMPARE(eq, ==) TILE_COMPARE(ne, !=) TILE_COMPARE(lt, <)
TILE_COMPARE(le, <=) TILE_COMPARE(gt, >) TILE_COMPARE(ge, >=)
#undef TILE_COMPARE
TILE_DEVICE __nv_bfloat16 hexp(__nv_bfloat16 a) { return __nv_bfloat16(expf(float(a))); }
TILE_DEVICE __nv_bfloat16 hlog(__nv_bfloat16 a) { return __nv_bfloat16(logf(float(a))); }
TILE_DEVICE __nv_bfloat16 hsqrt(__nv_bfloat16 a) { return __nv_bfloat16(sqrtf(float(a))); }
TILE_DEVICE __nv_bfloat16 hrsqrt(__nv_bfloat16 a) { return __nv_bfloat16(rsqrtf(float(a))); }
#define TILE_SHUFFLE(NAME, STEP)                                                                   \
    TILE_DEVICE __nv_bfloat16 NAME(unsigned m, __nv_bfloat16 v, STEP x, int w = 32) {              \
        return __ushort_as_bfloat16((unsigned short)NAME(m, (unsigned)__bfloat16_as_ushort(v), x, w)); \
    }
TILE_SHUFFLE(__shfl_sync, int)
TILE_SHUFFLE(__shfl_up_sync, unsigned)
TILE_SHUFFLE(__shfl_down_sync, unsigned)
TILE_SHUFFLE(__shfl_xor_sync, int)
#undef TILE_SHUFFLE
TILE_DEVICE __nv_bfloat16 __ldg(const __nv_bfloat16* p) {
    return __ushort_as_bfloat16(__ldg((const unsigned short*)p));
}
