// Four neighbouring floats at a time: one 16-byte access where the addresses allow
// it.
#pragma once

// The four floats from p on as one 16-byte value. p must be a multiple of 16 bytes.
__device__ inline float4& vec4(float* p)
{
    return *reinterpret_cast<float4*>(p);
}

// Whether every row of a matrix with this many columns starts on a multiple of 16
// bytes.
__device__ inline bool rows_aligned(const float* matrix, int columns)
{
    return columns % 4 == 0 &&
           reinterpret_cast<size_t>(matrix) % sizeof(float4) == 0;
}

// Four neighbours of a row, of which `left` are inside the matrix; zeros for the
// others. In a matrix with aligned rows all four are inside or none is.
template <bool ALIGNED>
__device__ inline float4 load4(const float* src, int left)
{
    float4 v = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    if (ALIGNED) {
        if (left > 0) v = *reinterpret_cast<const float4*>(src);
    } else {
        if (left > 0) v.x = src[0];
        if (left > 1) v.y = src[1];
        if (left > 2) v.z = src[2];
        if (left > 3) v.w = src[3];
    }
    return v;
}

// The same for a store: what is outside the matrix is not written.
template <bool ALIGNED>
__device__ inline void store4(float* dst, float4 v, int left)
{
    if (ALIGNED) {
        if (left > 0) *reinterpret_cast<float4*>(dst) = v;
    } else {
        if (left > 0) dst[0] = v.x;
        if (left > 1) dst[1] = v.y;
        if (left > 2) dst[2] = v.z;
        if (left > 3) dst[3] = v.w;
    }
}
