// 2^x by one instruction of the multi-function unit, with an error of about 2 ulps; subnormal results are 0.

#pragma once

__device__ __forceinline__ float powerOf2(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
