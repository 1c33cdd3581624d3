// Sixteen bytes of neighbouring elements on their way through registers: floats, or
// elements of two bytes.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

// Elements of type T in 16 bytes.
template <typename T>
__device__ constexpr int in_16_bytes()
{
    return 16 / int(sizeof(T));
}

// Whether every row of a matrix with this many columns starts on a multiple of 16
// bytes.
template <typename T>
__device__ inline bool whole_rows(const T* matrix, int columns)
{
    return columns % in_16_bytes<T>() == 0 &&
           reinterpret_cast<size_t>(matrix) % 16 == 0;
}

// The lower or the upper element of a pair, as a float. A bfloat16 is the upper
// half of a float.
__device__ inline float unpacked(unsigned pair, bool upper, __nv_bfloat16)
{
    return __uint_as_float(upper ? pair & 0xffff0000u : pair << 16);
}
__device__ inline float unpacked(unsigned pair, bool upper, half)
{
    const __half2 both = reinterpret_cast<const __half2&>(pair);
    return upper ? __high2float(both) : __low2float(both);
}
__device__ inline float unpacked(unsigned word, bool, float)
{
    return __uint_as_float(word);
}

// Sixteen bytes of global memory where `inside`, else zeros. In PTX, for otherwise
// the compiler copies some of the words from register to register in the loop, and
// a copy waits for its load.
__device__ inline uint4 words_or_zeros(const void* src, bool inside)
{
    uint4 v;
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "setp.ne.s32 p, %5, 0;\n"
                 "mov.u32 %0, 0;\n"
                 "mov.u32 %1, 0;\n"
                 "mov.u32 %2, 0;\n"
                 "mov.u32 %3, 0;\n"
                 "@p ld.global.v4.u32 {%0, %1, %2, %3}, [%4];\n"
                 "}"
                 : "=&r"(v.x), "=&r"(v.y), "=&r"(v.z), "=&r"(v.w)
                 : "l"(src), "r"(int(inside)));
    return v;
}

// One lane's part of a warp's read of 32 * COUNT neighbours, COUNT to 16 bytes.
// WIDTH: elements to an access, COUNT or 1. Read j of a lane starts at its element
// 32 * WIDTH * j of them, and lanes are WIDTH apart: neighbours read neighbours.
template <typename T, int WIDTH>
struct Fragment {
    static constexpr int COUNT = in_16_bytes<T>();
    uint4 word;  // where WIDTH is COUNT: unpacked at its use, not at its arrival
    T single[COUNT];  // where WIDTH is 1

    // src: this lane's first element in global memory, of which `left` are before
    // the end; those from there on are zeros.
    __device__ void read(const T* src, int left)
    {
        if (WIDTH == COUNT) {
            word = words_or_zeros(src, left > 0);
        } else {
            for (int j = 0; j < COUNT; ++j) {
                single[j] = T(0.0f);
                if (32 * j < left) single[j] = src[32 * j];
            }
        }
    }

    // The same from shared memory, where all elements are inside.
    __device__ void read_shared(const T* src)
    {
        if (WIDTH == COUNT) {
            word = *reinterpret_cast<const uint4*>(src);
        } else {
            for (int j = 0; j < COUNT; ++j) {
                single[j] = src[32 * j];
            }
        }
    }

    // Element j of this lane as a float.
    __device__ float operator[](int j) const
    {
        if (WIDTH != COUNT) return float(single[j]);
        const unsigned words[4] = {word.x, word.y, word.z, word.w};
        return unpacked(words[j * 4 / COUNT], j % 2, T());
    }
};
