// Exponentials, logarithms, angles: series in double, after a reduction that loses nothing that counts.
// In float the results are rounded from double; in double they are off by a few units in the last
// place. CUDA's own functions round in other places, so the last digit may differ from NVRTC's.
#pragma once
#define TILE_LN2_HIGH 6.93147180369123816490e-01
#define TILE_LN2_LOW 1.90821492927058770002e-10

TILE_DEVICE double ldexp(double a, int n) {
    int once = n < -1000 ? -1000 : n > 1000 ? 1000 : n;
    int rest = n - once < -1000 ? -1000 : n - once > 1000 ? 1000 : n - once;
    return a * __longlong_as_double((long long)(once + 1023) << 52) *
           __longlong_as_double((long long)(rest + 1023) << 52);
}
TILE_DEVICE float ldexpf(float a, int n) { return float(ldexp(double(a), n)); }
TILE_DEVICE double scalbn(double a, int n) { return ldexp(a, n); }
TILE_DEVICE double frexp(double a, int* n) {
    *n = 0;
    if (a == 0.0 || !isfinite(a)) return a;
    int scale = fabs(a) < 2.2250738585072014e-308 ? 64 : 0;
    long long bits = __double_as_longlong(a * (scale ? 18446744073709551616.0 : 1.0));
    *n = int(bits >> 52 & 2047) - 1022 - scale;
    return __longlong_as_double((bits & ~(2047ll << 52)) | 1022ll << 52);
}
TILE_DEVICE float frexpf(float a, int* n) { return float(frexp(double(a), n)); }

// expm1(r) for |r| <= ln(2) / 2.
TILE_DEVICE double tile_expm1_near(double r) {
    double sum = 0.0;
    for (int i = 17; i > 1; --i) sum = (sum + 1.0) * r / i;
    return r * sum + r;
}
TILE_DEVICE double exp(double a) {
    if (!(a < 709.8)) return a > 0 ? __builtin_inf() : a;
    if (a < -745.2) return 0.0;
    double n = rint(a * 1.4426950408889634);
    double r = fma(-n, TILE_LN2_LOW, fma(-n, TILE_LN2_HIGH, a));
    return ldexp(1.0 + tile_expm1_near(r), int(n));
}
TILE_DEVICE double expm1(double a) {
    return fabs(a) < 0.34 ? tile_expm1_near(a) : exp(a) - 1.0;
}
TILE_DEVICE double exp2(double a) {
    if (!(a < 1025.0)) return a > 0 ? __builtin_inf() : a;
    if (a < -1080.0) return 0.0;
    double n = rint(a);
    return ldexp(1.0 + tile_expm1_near((a - n) * 0.6931471805599453094), int(n));
}
// log(1 + f) for 1 + f between sqrt(1/2) and sqrt(2): 2 artanh(f / (2 + f)).
TILE_DEVICE double tile_log1p_near(double f) {
    double s = f / (2.0 + f), z = s * s, sum = 0.0;
    for (int i = 23; i > 1; i -= 2) sum = (sum + 1.0 / i) * z;
    return 2.0 * s * sum + 2.0 * s;
}
TILE_DEVICE double log(double a) {
    if (!(a > 0.0)) return a == 0.0 ? -__builtin_inf() : __builtin_nan("");
    if (a == __builtin_inf()) return a;
    int n;
    double m = frexp(a, &n);
    if (m < 0.70710678118654752) m += m, --n;
    return fma(double(n), TILE_LN2_HIGH, fma(double(n), TILE_LN2_LOW, tile_log1p_near(m - 1.0)));
}
TILE_DEVICE double log1p(double a) {
    if (a > -0.29 && a < 0.41) return tile_log1p_near(a);
    return log(1.0 + a);
}
TILE_DEVICE double log2(double a) {
    int n = 0;
    if (!(a > 0.0) || a == __builtin_inf()) return log(a);
    double m = frexp(a, &n);
    if (m < 0.70710678118654752) m += m, --n;
    return n + tile_log1p_near(m - 1.0) * 1.4426950408889634074;
}
TILE_DEVICE double log10(double a) { return log(a) * 0.43429448190325182765; }
TILE_DEVICE double exp10(double a) { return exp2(a * 3.3219280948873623479); }

// Angles: the nearest multiple of pi/2 taken away in three parts (exact enough below 1e9 or so).
TILE_DEVICE double tile_quarter(double a, int* quadrant) {
    double n = rint(a * 0.63661977236758134308);
    *quadrant = int((long long)n & 3);
    double r = fma(-n, 1.5707963267948965580e+00, a);
    r = fma(-n, 6.1232339957367660359e-17, r);
    return fma(-n, -1.4973849048591833e-33, r);
}
TILE_DEVICE double tile_sin_near(double r) {
    double z = r * r, sum = 0.0;
    for (int i = 18; i > 0; i -= 2) sum = -(sum + 1.0) * z / (i * (i + 1));
    return r * sum + r;
}
TILE_DEVICE double tile_cos_near(double r) {
    double z = r * r, sum = 0.0;
    for (int i = 18; i > 0; i -= 2) sum = -(sum + 1.0) * z / (i * (i - 1));
    return sum + 1.0;
}
TILE_DEVICE double tile_wave(double a, int shift) {
    if (!isfinite(a)) return __builtin_nan("");
    int quadrant;
    double r = tile_quarter(a, &quadrant);
    quadrant += shift;
    double value = quadrant & 1 ? tile_cos_near(r) : tile_sin_near(r);
    return quadrant & 2 ? -value : value;
}
TILE_DEVICE double sin(double a) { return tile_wave(a, 0); }
TILE_DEVICE double cos(double a) { return tile_wave(a, 1); }
TILE_DEVICE double tan(double a) { return sin(a) / cos(a); }
TILE_DEVICE void sincos(double a, double* s, double* c) { *s = sin(a), *c = cos(a); }
TILE_DEVICE double sinpi(double a) { return sin((a - 2.0 * rint(a * 0.5)) * 3.14159265358979323846); }
TILE_DEVICE double cospi(double a) { return cos((a - 2.0 * rint(a * 0.5)) * 3.14159265358979323846); }
// artan: halved twice, so that the series is short.
TILE_DEVICE double atan(double a) {
    double x = fabs(a), base = 0.0, sum = 0.0;
    bool far = x > 1.0;
    if (far) x = 1.0 / x;
    x = x / (1.0 + __nvvm_sqrt_rn_d(1.0 + x * x));
    x = x / (1.0 + __nvvm_sqrt_rn_d(1.0 + x * x));
    for (int i = 29; i > 1; i -= 2) sum = -(sum + 1.0 / i) * x * x;
    base = 4.0 * (x * sum + x);
    return copysign(far ? 1.57079632679489661923 - base : base, a);
}
TILE_DEVICE double atan2(double y, double x) {
    if (isnan(x) || isnan(y)) return __builtin_nan("");
    if (y == 0.0) return signbit(x) ? copysign(3.14159265358979323846, y) : y;
    if (isinf(x) && isinf(y)) return copysign(x > 0 ? 0.78539816339744830962 : 2.35619449019234492885, y);
    double angle = x == 0.0 ? 1.57079632679489661923 : atan(fabs(y / x));
    return copysign(x < 0.0 ? 3.14159265358979323846 - angle : angle, y);
}
TILE_DEVICE double asin(double a) { return atan2(a, __nvvm_sqrt_rn_d((1.0 - a) * (1.0 + a))); }
TILE_DEVICE double acos(double a) { return atan2(__nvvm_sqrt_rn_d((1.0 - a) * (1.0 + a)), a); }
TILE_DEVICE double sinh(double a) {
    double e = expm1(fabs(a));
    return copysign(fabs(a) > 700.0 ? 0.5 * exp(0.5 * fabs(a)) * exp(0.5 * fabs(a))
                                    : 0.5 * (e + e / (e + 1.0)), a);
}
TILE_DEVICE double cosh(double a) {
    double half = exp(0.5 * fabs(a)), e = half * half;
    return fabs(a) > 700.0 ? 0.5 * half * half : 0.5 * (e + 1.0 / e);
}
TILE_DEVICE double tanh(double a) {
    if (isnan(a)) return a;
    double e = expm1(-2.0 * fabs(a));
    return copysign(-e / (e + 2.0), a);
}
TILE_DEVICE double asinh(double a) {
    double x = fabs(a);
    return copysign(log1p(x + x * x / (1.0 + __nvvm_sqrt_rn_d(x * x + 1.0))), a);
}
TILE_DEVICE double acosh(double a) { return log(a + __nvvm_sqrt_rn_d(a * a - 1.0)); }
TILE_DEVICE double atanh(double a) { return 0.5 * log1p(2.0 * a / (1.0 - a)); }
TILE_DEVICE double hypot(double a, double b) { return __nvvm_sqrt_rn_d(a * a + b * b); }
TILE_DEVICE double cbrt(double a) {
    if (a == 0.0 || !isfinite(a)) return a;
    double r = exp(log(fabs(a)) / 3.0);
    r -= (r * r * r - fabs(a)) / (3.0 * r * r);
    return copysign(r, a);
}
TILE_DEVICE double pow(double a, double b) {
    if (b == 0.0 || a == 1.0) return 1.0;
    bool whole = trunc(b) == b, odd = whole && fabs(b) < 9007199254740992.0 && ((long long)b & 1);
    if (a == 0.0) {
        double zero = odd ? a : 0.0;
        return b > 0.0 ? zero : 1.0 / zero;
    }
    if (a < 0.0 && !whole) return __builtin_nan("");
    if (a == -1.0 && isinf(b)) return 1.0;
    // The logarithm in two parts, so that a large b does not magnify its rounding.
    double high = log(fabs(a)), low = 0.0;
    if (isfinite(high)) low = (fabs(a) - exp(high)) / exp(high);
    double whole_part = b * high, rest = fma(b, high, -whole_part) + b * low;
    double value = exp(whole_part);
    if (isfinite(value) && isfinite(rest)) value = fma(value, rest, value);
    return a < 0.0 && odd ? -value : value;
}
// erf: its series up to 3, a continued fraction beyond.
TILE_DEVICE double erfc(double a) {
    double x = fabs(a), value;
    if (isnan(a)) return a;
    if (x < 3.0) {
        double term = x, sum = x;
        for (int i = 1; i < 60; ++i) term *= -x * x / i, sum += term / (2 * i + 1);
        value = 1.0 - 1.12837916709551257390 * sum;
    } else {
        double tail = x;
        for (int i = 60; i > 0; --i) tail = x + 0.5 * i / tail;
        value = x > 27.3 ? 0.0 : exp(-x * x) / (tail * 1.77245385090551602730);
    }
    return a < 0.0 ? 2.0 - value : value;
}
TILE_DEVICE double erf(double a) {
    double x = fabs(a);
    if (!(x < 1.0)) return a < 0.0 ? erfc(x) - 1.0 : 1.0 - erfc(x);
    double term = x, sum = x;
    for (int i = 1; i < 25; ++i) term *= -x * x / i, sum += term / (2 * i + 1);
    return copysign(1.12837916709551257390 * sum, a);
}
TILE_DEVICE double fmod(double a, double b) {
    if (b == 0.0 || isinf(a) || isnan(a) || isnan(b)) return __builtin_nan("");
    if (isinf(b)) return a;
    double rest = fabs(a), size = fabs(b);
    while (rest >= size) {
        int of_rest, of_size;
        frexp(rest, &of_rest), frexp(size, &of_size);
        double part = ldexp(size, of_rest - of_size);
        if (part > rest) part = ldexp(size, of_rest - of_size - 1);
        rest -= part;
    }
    return copysign(rest, a);
}
TILE_DEVICE double modf(double a, double* whole) {
    *whole = trunc(a);
    return isinf(a) ? copysign(0.0, a) : a - *whole;
}

#define TILE_FLOAT(NAME)                                                                           \
    TILE_DEVICE float NAME##f(float a) { return float(NAME(double(a))); }                          \
    TILE_DEVICE float NAME(float a) { return float(NAME(double(a))); }
TILE_FLOAT(exp) TILE_FLOAT(exp2) TILE_FLOAT(exp10) TILE_FLOAT(expm1) TILE_FLOAT(log)
TILE_FLOAT(log2) TILE_FLOAT(log10) TILE_FLOAT(log1p) TILE_FLOAT(sin) TILE_FLOAT(cos)
TILE_FLOAT(tan) TILE_FLOAT(sinpi) TILE_FLOAT(cospi) TILE_FLOAT(atan) TILE_FLOAT(asin)
TILE_FLOAT(acos) TILE_FLOAT(sinh) TILE_FLOAT(cosh) TILE_FLOAT(tanh) TILE_FLOAT(asinh)
TILE_FLOAT(acosh) TILE_FLOAT(atanh) TILE_FLOAT(cbrt) TILE_FLOAT(erf) TILE_FLOAT(erfc)
#undef TILE_FLOAT
#define TILE_FLOAT(NAME)                                                                           \
    TILE_DEVICE float NAME##f(float a, float b) { return float(NAME(double(a), double(b))); }      \
    TILE_DEVICE float NAME(float a, float b) { return float(NAME(double(a), double(b))); }
TILE_FLOAT(atan2) TILE_FLOAT(hypot) TILE_FLOAT(fmod)
#undef TILE_FLOAT
TILE_DEVICE float powf(float a, float b) { return float(pow(double(a), double(b))); }
TILE_DEVICE float pow(float a, float b) { return powf(a, b); }
TILE_DEVICE float pow(float a, int b) { return powf(a, float(b)); }
TILE_DEVICE double pow(double a, int b) { return pow(a, double(b)); }
TILE_DEVICE void sincosf(float a, float* s, float* c) { *s = sinf(a), *c = cosf(a); }
TILE_DEVICE float modff(float a, float* whole) {
    double part, rest = modf(double(a), &part);
    *whole = float(part);
    return float(rest);
}
