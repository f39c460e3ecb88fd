// Cross-entropy of rows of logits, and its gradient in their place: z [rows, columns] → softmax(z) − onehot(target), and the loss
// of each row, log Σ exp(z) − z[target]. Arithmetic and losses are fp32, logits and gradients of the 16-bit dtype ELEMENT.
//
// A block computes a row in two passes. The first one reads it from memory, the second one reads it from L2, if the rows of all
// blocks fit there. Each thread keeps a maximum m and a sum of exp(z − m) over its elements; when m grows, it scales the sum.

#include "elements.cuh"
#include "exponential.cuh"

constexpr int WARP = 32, WARPS = THREADS / WARP;
constexpr float LOWEST = -3.4028234e38f, LOG2_E = 1.44269504f;

// The maximum m of some logits z, and the sum of exp(z − m).
struct Exponentials {
    float max = LOWEST, sum = 0;

    __device__ __forceinline__ void raise(float to) {
        sum *= powerOf2((max - to) * LOG2_E);
        max = to;
    }

    __device__ __forceinline__ void add(Exponentials other) {
        float larger = fmaxf(max, other.max);
        raise(larger);
        other.raise(larger);
        sum += other.sum;
    }
};

// Combines the values of all threads of the block. Every thread gets the result.
__device__ __forceinline__ Exponentials overBlock(Exponentials part) {
    __shared__ Exponentials ofWarp[WARPS];
#pragma unroll
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        Exponentials other;
        other.max = __shfl_xor_sync(0xffffffffu, part.max, distance);
        other.sum = __shfl_xor_sync(0xffffffffu, part.sum, distance);
        part.add(other);
    }
    if (threadIdx.x % WARP == 0) ofWarp[threadIdx.x / WARP] = part;
    __syncthreads();
    Exponentials all = ofWarp[0];
    for (int w = 1; w < WARPS; w++) all.add(ofWarp[w]);
    return all;
}

// An ordinary load. Elements::load is only for memory that the kernel does not write.
template <int N> __device__ __forceinline__ Elements<ELEMENT, N> read(const ELEMENT *at) {
    return Elements<ELEMENT, N>::fromShared(at);
}

// columns is a multiple of VECTOR, and each row is aligned to VECTOR elements.
extern "C" __global__ void __launch_bounds__(THREADS)
    cross_entropy(ELEMENT *logits, const long long *targets, float *losses, int columns) {
    ELEMENT *row = logits + (long long)blockIdx.x * columns;
    long long given = targets[blockIdx.x];
    int target = given >= 0 && given < columns ? (int)given : -1;
    float ofTarget = threadIdx.x == 0 && target >= 0 ? read<1>(row + target)[0] : 0; // before a thread replaces it

    Exponentials part;
#pragma unroll 4
    for (int column = threadIdx.x * VECTOR; column < columns; column += THREADS * VECTOR) {
        Elements<ELEMENT, VECTOR> z = read<VECTOR>(row + column);
        float max = part.max;
#pragma unroll
        for (int i = 0; i < VECTOR; i++) max = fmaxf(max, z[i]);
        part.raise(max);
#pragma unroll
        for (int i = 0; i < VECTOR; i++) part.sum += powerOf2((z[i] - max) * LOG2_E);
    }
    Exponentials all = overBlock(part);

    if (target < 0) all.sum = __int_as_float(0x7fc00000); // NaN: the loss and all gradients of the row
    if (threadIdx.x == 0) losses[blockIdx.x] = all.max - ofTarget + logf(all.sum);
    float logSum = log2f(all.sum);
#pragma unroll 4
    for (int column = threadIdx.x * VECTOR; column < columns; column += THREADS * VECTOR) {
        Elements<ELEMENT, VECTOR> z = read<VECTOR>(row + column);
        float gradient[VECTOR];
#pragma unroll
        for (int i = 0; i < VECTOR; i++)
            gradient[i] = powerOf2((z[i] - all.max) * LOG2_E - logSum) - (column + i == target ? 1.0f : 0.0f);
        Elements<ELEMENT, VECTOR>::of(gradient).store(row + column);
    }
}
