// Names that nvcc's own headers bring along, for programs that were written for it. Read before a
// pasted program, never before the book's kernels.
#pragma once

#ifdef __clang__  // a header that comes later may say the same in other words
#pragma clang diagnostic ignored "-Wmacro-redefined"
#pragma clang diagnostic ignored "-Wunused-function"
#else
#pragma nv_diag_suppress 47, 177  // 177: a function whose callers were the host's
#endif

typedef unsigned char uint8_t, uchar;
typedef unsigned short uint16_t, ushort;
typedef unsigned int uint32_t, uint;
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef unsigned long ulong;
#ifdef __clang__  // as its own headers have them
typedef unsigned long uint64_t, uintptr_t;
typedef long int64_t, intptr_t;
#else
typedef unsigned long long uint64_t, uintptr_t;
typedef long long int64_t, intptr_t;
#endif

#define INT_MAX 2147483647
#define INT_MIN (-2147483647 - 1)
#define UINT_MAX 4294967295u
#define LONG_MAX 9223372036854775807l
#define LLONG_MAX 9223372036854775807ll
#define INT32_MAX 2147483647
#define INT32_MIN (-2147483647 - 1)
#define UINT32_MAX 4294967295u
#define UINT64_MAX 18446744073709551615ull
#define FLT_MAX 3.402823466e+38f
#define FLT_MIN 1.175494351e-38f
#define FLT_EPSILON 1.192092896e-07f
#define DBL_MAX 1.7976931348623157e+308
#define DBL_MIN 2.2250738585072014e-308
#define DBL_EPSILON 2.2204460492503131e-16
#define M_PI 3.14159265358979323846
#define M_PI_2 1.57079632679489661923
#define M_PI_4 0.78539816339744830962
#define M_1_PI 0.31830988618379067154
#define M_2_PI 0.63661977236758134308
#define M_E 2.71828182845904523536
#define M_LN2 0.69314718055994530942
#define M_LN10 2.30258509299404568402
#define M_LOG2E 1.44269504088896340736
#define M_SQRT2 1.41421356237309504880
#define M_SQRT1_2 0.70710678118654752440
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fffffff)
#endif
#ifndef HUGE_VALF
#define HUGE_VALF INFINITY
#define HUGE_VAL ((double)INFINITY)
#endif
#define EXIT_SUCCESS 0
#define EXIT_FAILURE 1
#ifndef NULL
#define NULL 0
#endif

// What <cuda.h> calls a tensor map; the emulator fills it.
typedef struct CUtensorMap_st {
    alignas(64) unsigned long long opaque[16];
} CUtensorMap;

namespace std {
using ::size_t;
using ::uint8_t;
using ::uint16_t;
using ::uint32_t;
using ::uint64_t;
using ::int8_t;
using ::int16_t;
using ::int32_t;
using ::int64_t;
template <class T> constexpr const T& max(const T& a, const T& b) { return a < b ? b : a; }
template <class T> constexpr const T& min(const T& a, const T& b) { return b < a ? b : a; }
template <class T> constexpr T abs(T a) { return a < T(0) ? -a : a; }
template <class T> constexpr void swap(T& a, T& b) { T t = a; a = b; b = t; }
template <class T> struct numeric_limits;
template <> struct numeric_limits<float> {
    static constexpr float max() { return FLT_MAX; }
    static constexpr float min() { return FLT_MIN; }
    static constexpr float lowest() { return -FLT_MAX; }
    static constexpr float epsilon() { return FLT_EPSILON; }
    static __device__ float infinity() { return INFINITY; }
    static __device__ float quiet_NaN() { return NAN; }
};
template <> struct numeric_limits<double> {
    static constexpr double max() { return DBL_MAX; }
    static constexpr double min() { return DBL_MIN; }
    static constexpr double lowest() { return -DBL_MAX; }
    static __device__ double infinity() { return INFINITY; }
};
template <> struct numeric_limits<int> {
    static constexpr int max() { return INT_MAX; }
    static constexpr int min() { return INT_MIN; }
    static constexpr int lowest() { return INT_MIN; }
};
template <> struct numeric_limits<unsigned> {
    static constexpr unsigned max() { return UINT_MAX; }
    static constexpr unsigned min() { return 0; }
};
template <class T, T V> struct integral_constant { static constexpr T value = V; };
typedef integral_constant<bool, true> true_type;
typedef integral_constant<bool, false> false_type;
template <class A, class B> struct is_same : false_type {};
template <class A> struct is_same<A, A> : true_type {};
template <class A, class B> constexpr bool is_same_v = is_same<A, B>::value;
template <bool B, class T, class F> struct conditional { typedef T type; };
template <class T, class F> struct conditional<false, T, F> { typedef F type; };
template <bool B, class T, class F> using conditional_t = typename conditional<B, T, F>::type;
template <bool B, class T = void> struct enable_if {};
template <class T> struct enable_if<true, T> { typedef T type; };
template <bool B, class T = void> using enable_if_t = typename enable_if<B, T>::type;
template <class T> struct remove_cv { typedef T type; };
template <class T> struct remove_cv<const T> { typedef T type; };
template <class T> struct remove_reference { typedef T type; };
template <class T> struct remove_reference<T&> { typedef T type; };
template <class T> struct remove_reference<T&&> { typedef T type; };
template <class T> using remove_reference_t = typename remove_reference<T>::type;
template <class T> using decay_t = typename remove_cv<remove_reference_t<T>>::type;
template <class T> constexpr bool is_floating_point_v = is_same_v<T, float> || is_same_v<T, double>;
// Aggregates, for `auto [a, b] = f();`
template <class... T> struct tuple;
template <class A> struct tuple<A> { A a; };
template <class A, class B> struct tuple<A, B> { A a; B b; };
template <class A, class B, class C> struct tuple<A, B, C> { A a; B b; C c; };
template <class A, class B, class C, class D> struct tuple<A, B, C, D> { A a; B b; C c; D d; };
template <class A, class B> struct pair { A first; B second; };
template <class... T> constexpr tuple<T...> make_tuple(T... values) { return {values...}; }
template <class A, class B> constexpr pair<A, B> make_pair(A a, B b) { return {a, b}; }
}
