// Functions of the results of matrix multiplications, which a kernel computes before it stores them.

#pragma once

#include "exponential.cuh"

// SWIGLU is silu(P) ∘ Q of two results.
enum Epilogue { NONE, GELU, SWIGLU };

__device__ __forceinline__ float silu(float x) {
    constexpr float LOG2_E = 1.442695041f;
    return __fdividef(x, 1 + powerOf2(-LOG2_E * x));
}

__device__ __forceinline__ float maximumOrNaN(float x, float y) {
    float maximum;
    asm("max.NaN.f32 %0, %1, %2;" : "=f"(maximum) : "f"(x), "f"(y));
    return maximum;
}

// x · Φ(x), with the standard normal distribution Φ, as max(x, 0) − |x| · Φ(−|x|). The logarithm of Φ(−a) to base 2 is
// approximated by a polynomial for 0 ≤ a ≤ 6, so that the absolute error of the function is at most 1e-7. This takes one
// instruction of the multi-function unit per element. Below −6, also for −∞, the result is −6e-9.
__device__ __forceinline__ float gelu(float x) {
    constexpr float COEFFICIENTS[] = {3.309278e-05f, -7.692194e-04f, 8.080715e-03f, -5.3412102e-02f,
                                      -0.45877096f,  -1.1512017f,    -0.9999931f};
    float a = fminf(fabsf(x), 6), logarithm = 0;
#pragma unroll
    for (float coefficient : COEFFICIENTS) logarithm = fmaf(logarithm, a, coefficient);
    return maximumOrNaN(x, 0) - a * powerOf2(logarithm);
}

template <int N> __device__ __forceinline__ void replaceByGelu(float (&sums)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) sums[i] = gelu(sums[i]);
}
