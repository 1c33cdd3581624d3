// float4 and its kin, dim3, and where a thread stands.
#pragma once
#define TILE_VECTORS(T, N, ALIGN2, ALIGN4)                                                         \
    struct N##1 { T x; };                                                                          \
    struct __attribute__((aligned(ALIGN2))) N##2 { T x, y; };                                      \
    struct N##3 { T x, y, z; };                                                                    \
    struct __attribute__((aligned(ALIGN4))) N##4 { T x, y, z, w; };                                \
    TILE_DEVICE N##1 make_##N##1(T x) { return {x}; }                                              \
    TILE_DEVICE N##2 make_##N##2(T x, T y) { return {x, y}; }                                      \
    TILE_DEVICE N##3 make_##N##3(T x, T y, T z) { return {x, y, z}; }                              \
    TILE_DEVICE N##4 make_##N##4(T x, T y, T z, T w) { return {x, y, z, w}; }
TILE_VECTORS(float, float, 8, 16)
TILE_VECTORS(double, double, 16, 16)
TILE_VECTORS(int, int, 8, 16)
TILE_VECTORS(unsigned, uint, 8, 16)
TILE_VECTORS(signed char, char, 2, 4)
TILE_VECTORS(unsigned char, uchar, 2, 4)
TILE_VECTORS(short, short, 4, 8)
TILE_VECTORS(unsigned short, ushort, 4, 8)
TILE_VECTORS(long, long, 16, 16)
TILE_VECTORS(unsigned long, ulong, 16, 16)
TILE_VECTORS(long long, longlong, 16, 16)
TILE_VECTORS(unsigned long long, ulonglong, 16, 16)
#undef TILE_VECTORS

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
    constexpr operator uint3() const { return {x, y, z}; }
};

// Each is read from its special register, so it is an object without a place.
#define TILE_PLACE(NAME, REGISTER, TYPE)                                                           \
    struct tile_##NAME {                                                                           \
        __declspec(property(get = get_x)) unsigned x;                                              \
        __declspec(property(get = get_y)) unsigned y;                                              \
        __declspec(property(get = get_z)) unsigned z;                                              \
        TILE_DEVICE unsigned get_x() { return __nvvm_read_ptx_sreg_##REGISTER##_x(); }             \
        TILE_DEVICE unsigned get_y() { return __nvvm_read_ptx_sreg_##REGISTER##_y(); }             \
        TILE_DEVICE unsigned get_z() { return __nvvm_read_ptx_sreg_##REGISTER##_z(); }             \
        __device__ __forceinline__ operator TYPE() const { return {get_x(), get_y(), get_z()}; }   \
    };                                                                                             \
    extern const __device__ __attribute__((weak)) tile_##NAME NAME;
TILE_PLACE(threadIdx, tid, uint3)
TILE_PLACE(blockIdx, ctaid, uint3)
TILE_PLACE(blockDim, ntid, dim3)
TILE_PLACE(gridDim, nctaid, dim3)
#undef TILE_PLACE
constexpr int warpSize = 32;
