// What the generated kernels of the compiler share: rounding, functions with PyTorch's treatment of NaN, and reductions over the
// threads of a row.

#pragma once
#include "elements.cuh"

#define EACH(i) _Pragma("unroll") for (int i = 0; i < VEC; i++)

#define INFINITE __int_as_float(0x7f800000)
#define NOT_A_NUMBER __int_as_float(0x7fc00000)

constexpr int WARP = 32;

__device__ __forceinline__ float roundTo(float x, float) { return x; }
__device__ __forceinline__ double roundTo(double x, double) { return x; }
__device__ __forceinline__ float roundTo(float x, bf16) {
    unsigned bits = Element<bf16>::pair(x, 0.0f);
    return Element<bf16>::get(&bits, 0);
}
__device__ __forceinline__ float roundTo(float x, fp16) {
    unsigned bits = Element<fp16>::pair(x, 0.0f);
    return Element<fp16>::get(&bits, 0);
}

// Single elements of any dtype.
__device__ __forceinline__ float loadElement(const float *at) { return *at; }
__device__ __forceinline__ double loadElement(const double *at) { return *at; }
__device__ __forceinline__ long long loadElement(const long long *at) { return *at; }
__device__ __forceinline__ int loadElement(const int *at) { return *at; }
__device__ __forceinline__ unsigned char loadElement(const unsigned char *at) { return *at; }
__device__ __forceinline__ bool loadElement(const bool *at) { return *at; }
__device__ __forceinline__ float loadElement(const bf16 *at) { return Elements<bf16, 1>::load(at)[0]; }
__device__ __forceinline__ float loadElement(const fp16 *at) { return Elements<fp16, 1>::load(at)[0]; }

template <typename T, typename X> __device__ __forceinline__ void storeElement(T *at, X x) { *at = (T)x; }
template <typename X> __device__ __forceinline__ void storeElement(bf16 *at, X x) {
    at->bits = (unsigned short)Element<bf16>::pair((float)x, 0.0f);
}
template <typename X> __device__ __forceinline__ void storeElement(fp16 *at, X x) {
    at->bits = (unsigned short)Element<fp16>::pair((float)x, 0.0f);
}

// NaN if an argument is NaN, as in PyTorch.
template <typename T> __device__ __forceinline__ T maximum(T a, T b) { return a > b || a != a ? a : b; }
template <typename T> __device__ __forceinline__ T minimum(T a, T b) { return a < b || a != a ? a : b; }

struct Sum {
    template <typename T> static __device__ __forceinline__ T identity(T) { return 0; }
    template <typename T> static __device__ __forceinline__ T combine(T a, T b) { return a + b; }
};
struct Max {
    template <typename T> static __device__ __forceinline__ T identity(T) { return (T)-INFINITE; }
    template <typename T> static __device__ __forceinline__ T combine(T a, T b) { return maximum(a, b); }
};

// Waits for the Threads threads of a row.
template <int Threads> __device__ __forceinline__ void syncRow(int barrier) {
    if constexpr (Threads > WARP) asm volatile("bar.sync %0, %1;" ::"r"(barrier), "n"(Threads) : "memory");
}

// The sum of Count numbers with this distance.
template <int Count, typename T> __device__ __forceinline__ T total(const T *first, long long distance) {
    T sum = first[0];
#pragma unroll
    for (int i = 1; i < Count; i++) sum += first[i * distance];
    return sum;
}

// Combines the values of the Threads consecutive threads of a row, and returns the result to all of them. The order of the
// combination depends only on the numbers of threads. ofWarp is shared memory of this row and this reduction.
template <typename Op, int Threads, typename T>
__device__ __forceinline__ T reduceRow(T value, T *ofWarp, int barrier) {
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        value = Op::combine(value, __shfl_xor_sync(0xffffffffu, value, distance));
    if constexpr (Threads > WARP) {
        if (threadIdx.x % WARP == 0) ofWarp[threadIdx.x % Threads / WARP] = value;
        syncRow<Threads>(barrier);
        value = ofWarp[0];
#pragma unroll
        for (int w = 1; w < Threads / WARP; w++) value = Op::combine(value, ofWarp[w]);
    }
    return value;
}
