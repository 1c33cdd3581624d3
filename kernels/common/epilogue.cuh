// What becomes of a sum before it is rounded: residual, bias, GELU.
#pragma once

#ifndef BIAS
#define BIAS 0  // 1: add an element for each column
#endif
#ifndef GELU
#define GELU 0  // 1: then apply GELU
#endif
#ifndef RESIDUAL
#define RESIDUAL 0  // 1: before both, add an element of a matrix like C
#endif

// x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), the form with tanh, for
// which the hardware has one instruction. Source: Hendrycks and Gimpel, "Gaussian
// Error Linear Units".
__device__ __forceinline__ float gelu(float x) {
    constexpr float SLOPE = 0.7978845608f;  // sqrt(2 / pi)
    float t;
    asm("tanh.approx.f32 %0, %1;"
        : "=f"(t)
        : "f"(x * fmaf(SLOPE * 0.044715f * x, x, SLOPE)));
    return fmaf(0.5f * x, t, 0.5f * x);
}

// A sum, R added already, as it is to be rounded.
__device__ __forceinline__ float finished(float sum, float bias) {
    const float x = BIAS ? sum + bias : sum;
    return GELU ? gelu(x) : x;
}
