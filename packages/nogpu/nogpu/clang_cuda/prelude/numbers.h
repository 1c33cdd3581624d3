// Functions of numbers: min and max, bits, conversions, mathematics.
#pragma once
#define TILE_LEAST(T)                                                                              \
    TILE_DEVICE constexpr T min(T a, T b) { return b < a ? b : a; }                                \
    TILE_DEVICE constexpr T max(T a, T b) { return a < b ? b : a; }
TILE_LEAST(int)
TILE_LEAST(unsigned)
TILE_LEAST(long)
TILE_LEAST(unsigned long)
TILE_LEAST(long long)
TILE_LEAST(unsigned long long)
#undef TILE_LEAST
#define TILE_LEAST(A, B, T)                                                                        \
    TILE_DEVICE constexpr T min(A a, B b) { return min((T)a, (T)b); }                              \
    TILE_DEVICE constexpr T max(A a, B b) { return max((T)a, (T)b); }
TILE_LEAST(int, unsigned, unsigned)
TILE_LEAST(unsigned, int, unsigned)
TILE_LEAST(long long, unsigned long long, unsigned long long)
TILE_LEAST(unsigned long long, long long, unsigned long long)
TILE_LEAST(long, unsigned long, unsigned long)
TILE_LEAST(unsigned long, long, unsigned long)
#undef TILE_LEAST
TILE_DEVICE float min(float a, float b) { return __builtin_fminf(a, b); }
TILE_DEVICE float max(float a, float b) { return __builtin_fmaxf(a, b); }
TILE_DEVICE double min(double a, double b) { return __builtin_fmin(a, b); }
TILE_DEVICE double max(double a, double b) { return __builtin_fmax(a, b); }
TILE_DEVICE double min(float a, double b) { return __builtin_fmin(a, b); }
TILE_DEVICE double max(float a, double b) { return __builtin_fmax(a, b); }
TILE_DEVICE double min(double a, float b) { return __builtin_fmin(a, b); }
TILE_DEVICE double max(double a, float b) { return __builtin_fmax(a, b); }
TILE_DEVICE int abs(int a) { return a < 0 ? -a : a; }
TILE_DEVICE long abs(long a) { return a < 0 ? -a : a; }
TILE_DEVICE long long abs(long long a) { return a < 0 ? -a : a; }
TILE_DEVICE long long llabs(long long a) { return a < 0 ? -a : a; }
TILE_DEVICE long labs(long a) { return a < 0 ? -a : a; }

// -- bits ----------------------------------------------------------------------------------------
#define TILE_BITS(NAME, FROM, TO)                                                                  \
    TILE_DEVICE TO NAME(FROM a) { return __builtin_bit_cast(TO, a); }
TILE_BITS(__float_as_int, float, int)
TILE_BITS(__int_as_float, int, float)
TILE_BITS(__float_as_uint, float, unsigned)
TILE_BITS(__uint_as_float, unsigned, float)
TILE_BITS(__double_as_longlong, double, long long)
TILE_BITS(__longlong_as_double, long long, double)
#undef TILE_BITS
TILE_DEVICE int __double2hiint(double a) { return int(__double_as_longlong(a) >> 32); }
TILE_DEVICE int __double2loint(double a) { return int(__double_as_longlong(a)); }
TILE_DEVICE double __hiloint2double(int high, int low) {
    return __longlong_as_double((long long)(unsigned long long)high << 32 | unsigned(low));
}
TILE_DEVICE int __popc(unsigned a) { return __builtin_popcount(a); }
TILE_DEVICE int __popcll(unsigned long long a) { return __builtin_popcountll(a); }
TILE_DEVICE int __clz(int a) { return a ? __builtin_clz(a) : 32; }
TILE_DEVICE int __clzll(long long a) { return a ? __builtin_clzll(a) : 64; }
TILE_DEVICE int __ffs(int a) { return __builtin_ffs(a); }
TILE_DEVICE int __ffsll(long long a) { return __builtin_ffsll(a); }
TILE_DEVICE unsigned __brev(unsigned a) { return __builtin_bitreverse32(a); }
TILE_DEVICE unsigned long long __brevll(unsigned long long a) { return __builtin_bitreverse64(a); }
TILE_DEVICE unsigned __byte_perm(unsigned a, unsigned b, unsigned s) {
    unsigned d;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(s));
    return d;
}
TILE_DEVICE unsigned __funnelshift_l(unsigned low, unsigned high, unsigned n) {
    return __builtin_elementwise_fshl(high, low, n & 31);
}
TILE_DEVICE unsigned __funnelshift_r(unsigned low, unsigned high, unsigned n) {
    return __builtin_elementwise_fshr(high, low, n & 31);
}
TILE_DEVICE int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
TILE_DEVICE unsigned __umulhi(unsigned a, unsigned b) { return (unsigned long long)a * b >> 32; }
TILE_DEVICE unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
    return (unsigned __int128)a * b >> 64;
}
TILE_DEVICE int __mul24(int a, int b) { return (a << 8 >> 8) * (b << 8 >> 8); }
TILE_DEVICE unsigned __umul24(unsigned a, unsigned b) { return (a & 0xffffff) * (b & 0xffffff); }
TILE_DEVICE unsigned __sad(int a, int b, unsigned c) {
    return c + (a < b ? unsigned(b) - unsigned(a) : unsigned(a) - unsigned(b));
}
TILE_DEVICE unsigned __usad(unsigned a, unsigned b, unsigned c) { return c + (a < b ? b - a : a - b); }
TILE_DEVICE int __dp4a(int a, int b, int c) {
    int d;
    asm("dp4a.s32.s32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
TILE_DEVICE unsigned __dp4a(unsigned a, unsigned b, unsigned c) {
    unsigned d;
    asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c));
    return d;
}
TILE_DEVICE int __dp4a(char4 a, char4 b, int c) {
    return __dp4a(__builtin_bit_cast(int, a), __builtin_bit_cast(int, b), c);
}

// -- float and double, one instruction each ------------------------------------------------------
#define TILE_ONE(NAME, BUILTIN)                                                                    \
    TILE_DEVICE float NAME##f(float a) { return __builtin_##BUILTIN##f(a); }                       \
    TILE_DEVICE double NAME(double a) { return __builtin_##BUILTIN(a); }                           \
    TILE_DEVICE float NAME(float a) { return __builtin_##BUILTIN##f(a); }
TILE_ONE(fabs, fabs)
TILE_ONE(floor, floor)
TILE_ONE(ceil, ceil)
TILE_ONE(trunc, trunc)
TILE_ONE(rint, rint)
TILE_ONE(nearbyint, rint)
#undef TILE_ONE
TILE_DEVICE float abs(float a) { return __builtin_fabsf(a); }
TILE_DEVICE double abs(double a) { return __builtin_fabs(a); }
TILE_DEVICE float fminf(float a, float b) { return __builtin_fminf(a, b); }
TILE_DEVICE float fmaxf(float a, float b) { return __builtin_fmaxf(a, b); }
TILE_DEVICE double fmin(double a, double b) { return __builtin_fmin(a, b); }
TILE_DEVICE double fmax(double a, double b) { return __builtin_fmax(a, b); }
TILE_DEVICE float fmin(float a, float b) { return __builtin_fminf(a, b); }
TILE_DEVICE float fmax(float a, float b) { return __builtin_fmaxf(a, b); }
TILE_DEVICE float copysignf(float a, float b) { return __builtin_copysignf(a, b); }
TILE_DEVICE double copysign(double a, double b) { return __builtin_copysign(a, b); }
TILE_DEVICE float fdimf(float a, float b) { return a > b ? a - b : a <= b ? 0.0f : a + b; }
TILE_DEVICE double fdim(double a, double b) { return a > b ? a - b : a <= b ? 0.0 : a + b; }
TILE_DEVICE float fmaf(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TILE_DEVICE double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
TILE_DEVICE float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
TILE_DEVICE bool isnan(float a) { return __builtin_isnan(a); }
TILE_DEVICE bool isnan(double a) { return __builtin_isnan(a); }
TILE_DEVICE bool isinf(float a) { return __builtin_isinf(a); }
TILE_DEVICE bool isinf(double a) { return __builtin_isinf(a); }
TILE_DEVICE bool isfinite(float a) { return __builtin_isfinite(a); }
TILE_DEVICE bool isfinite(double a) { return __builtin_isfinite(a); }
TILE_DEVICE bool signbit(float a) { return __float_as_int(a) < 0; }
TILE_DEVICE bool signbit(double a) { return __double_as_longlong(a) < 0; }
TILE_DEVICE float nanf(const char*) { return __builtin_nanf(""); }
TILE_DEVICE double nan(const char*) { return __builtin_nan(""); }
TILE_DEVICE float __saturatef(float a) { return __builtin_fminf(__builtin_fmaxf(a, 0.0f), 1.0f); }

// Arithmetic of a chosen rounding: never joined with another instruction.
#define TILE_ROUNDED(PTX, TYPE, LETTER, NAME, MODE)                                                \
    TILE_DEVICE TYPE __##NAME##_##MODE(TYPE a, TYPE b) {                                           \
        TYPE d;                                                                                    \
        asm(PTX " %0, %1, %2;" : "=" LETTER(d) : LETTER(a), LETTER(b));                            \
        return d;                                                                                  \
    }
#define TILE_MODES(MODE)                                                                           \
    TILE_ROUNDED("add." #MODE ".f32", float, "f", fadd, MODE)                                      \
    TILE_ROUNDED("sub." #MODE ".f32", float, "f", fsub, MODE)                                      \
    TILE_ROUNDED("mul." #MODE ".f32", float, "f", fmul, MODE)                                      \
    TILE_ROUNDED("div." #MODE ".f32", float, "f", fdiv, MODE)                                      \
    TILE_ROUNDED("add." #MODE ".f64", double, "d", dadd, MODE)                                     \
    TILE_ROUNDED("sub." #MODE ".f64", double, "d", dsub, MODE)                                     \
    TILE_ROUNDED("mul." #MODE ".f64", double, "d", dmul, MODE)                                     \
    TILE_ROUNDED("div." #MODE ".f64", double, "d", ddiv, MODE)                                     \
    TILE_DEVICE float __fmaf_##MODE(float a, float b, float c) {                                   \
        float d;                                                                                   \
        asm("fma." #MODE ".f32 %0, %1, %2, %3;" : "=f"(d) : "f"(a), "f"(b), "f"(c));               \
        return d;                                                                                  \
    }                                                                                              \
    TILE_DEVICE double __fma_##MODE(double a, double b, double c) {                                \
        double d;                                                                                  \
        asm("fma." #MODE ".f64 %0, %1, %2, %3;" : "=d"(d) : "d"(a), "d"(b), "d"(c));               \
        return d;                                                                                  \
    }                                                                                              \
    TILE_DEVICE float __fsqrt_##MODE(float a) {                                                    \
        float d;                                                                                   \
        asm("sqrt." #MODE ".f32 %0, %1;" : "=f"(d) : "f"(a));                                      \
        return d;                                                                                  \
    }                                                                                              \
    TILE_DEVICE float __frcp_##MODE(float a) {                                                     \
        float d;                                                                                   \
        asm("rcp." #MODE ".f32 %0, %1;" : "=f"(d) : "f"(a));                                       \
        return d;                                                                                  \
    }
TILE_MODES(rn)
TILE_MODES(rz)
TILE_MODES(ru)
TILE_MODES(rd)
#undef TILE_MODES
#undef TILE_ROUNDED
#define TILE_ROUND(NAME, FROM, TO, PTX, IN, OUT)                                                   \
    TILE_DEVICE TO NAME(FROM a) {                                                                  \
        TO d;                                                                                      \
        asm("cvt." PTX " %0, %1;" : "=" OUT(d) : IN(a));                                           \
        return d;                                                                                  \
    }
#define TILE_MODES(M, I)                                                                           \
    TILE_ROUND(__float2int_##M, float, int, #I ".s32.f32", "f", "r")                               \
    TILE_ROUND(__float2uint_##M, float, unsigned, #I ".u32.f32", "f", "r")                         \
    TILE_ROUND(__float2ll_##M, float, long long, #I ".s64.f32", "f", "l")                          \
    TILE_ROUND(__double2int_##M, double, int, #I ".s32.f64", "d", "r")                             \
    TILE_ROUND(__double2ll_##M, double, long long, #I ".s64.f64", "d", "l")                        \
    TILE_ROUND(__int2float_##M, int, float, #M ".f32.s32", "r", "f")                               \
    TILE_ROUND(__uint2float_##M, unsigned, float, #M ".f32.u32", "r", "f")                         \
    TILE_ROUND(__ll2float_##M, long long, float, #M ".f32.s64", "l", "f")                          \
    TILE_ROUND(__double2float_##M, double, float, #M ".f32.f64", "d", "f")
TILE_MODES(rn, rni)
TILE_MODES(rz, rzi)
TILE_MODES(ru, rpi)
TILE_MODES(rd, rmi)
#undef TILE_MODES
#undef TILE_ROUND
TILE_DEVICE double __int2double_rn(int a) { return a; }
TILE_DEVICE int lrintf(float a) { return __float2int_rn(a); }

// Approximations of the hardware, as its PTX instructions give them.
#define TILE_APPROXIMATE(NAME, PTX)                                                                \
    TILE_DEVICE float NAME(float a) {                                                              \
        float d;                                                                                   \
        asm(PTX " %0, %1;" : "=f"(d) : "f"(a));                                                    \
        return d;                                                                                  \
    }
TILE_APPROXIMATE(__sinf, "sin.approx.f32")
TILE_APPROXIMATE(__cosf, "cos.approx.f32")
TILE_APPROXIMATE(__log2f, "lg2.approx.f32")
TILE_APPROXIMATE(tile_ex2, "ex2.approx.f32")
TILE_APPROXIMATE(rsqrtf, "rsqrt.approx.f32")
TILE_APPROXIMATE(__frsqrt_rn, "rsqrt.approx.f32")
#undef TILE_APPROXIMATE
TILE_DEVICE float __expf(float a) { return tile_ex2(a * 1.4426950408889634f); }
TILE_DEVICE float __exp10f(float a) { return tile_ex2(a * 3.3219280948873623f); }
TILE_DEVICE float __logf(float a) { return __log2f(a) * 0.6931471805599453f; }
TILE_DEVICE float __log10f(float a) { return __log2f(a) * 0.30102999566398120f; }
TILE_DEVICE float __powf(float a, float b) { return tile_ex2(b * __log2f(a)); }
TILE_DEVICE float __tanf(float a) { return __sinf(a) / __cosf(a); }
TILE_DEVICE void __sincosf(float a, float* s, float* c) { *s = __sinf(a), *c = __cosf(a); }
TILE_DEVICE float __fdividef(float a, float b) {
    float d;
    asm("div.approx.f32 %0, %1, %2;" : "=f"(d) : "f"(a), "f"(b));
    return d;
}
TILE_DEVICE float sqrtf(float a) { return __nvvm_sqrt_rn_f(a); }
TILE_DEVICE double sqrt(double a) { return __nvvm_sqrt_rn_d(a); }
TILE_DEVICE float sqrt(float a) { return __nvvm_sqrt_rn_f(a); }
TILE_DEVICE double rsqrt(double a) { return 1.0 / __nvvm_sqrt_rn_d(a); }
TILE_DEVICE float roundf(float a) { return copysignf(truncf(fabsf(a) + 0.49999997f), a); }
TILE_DEVICE double round(double a) { return copysign(trunc(fabs(a) + 0.49999999999999994), a); }
TILE_DEVICE float round(float a) { return roundf(a); }
TILE_DEVICE long lroundf(float a) { return long(roundf(a)); }
TILE_DEVICE long lround(double a) { return long(round(a)); }
#include "functions.h"
