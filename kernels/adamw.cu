// AdamW for many fp32 tensors in one launch: reads p, g, m and v and writes p, m and v once, 28 bytes per element.
//
//   m ← β₁ m + (1 − β₁) g      v ← β₂ v + (1 − β₂) g²      p ← keep · p − stepSize · m / (√v / root + ε)
//
// with keep = 1 − learning rate · weight decay, stepSize = learning rate / (1 − β₁ᵗ) and root = √(1 − β₂ᵗ) in step t.
//
// The gradient is fp32 or bf16, and is multiplied by a factor from global memory, which clips it. The updated parameter is
// also stored as bf16 or fp16 if the tensor has such a copy. A bf16 gradient and a copy together move no more bytes.
//
// A block updates one chunk of CHUNK elements of one tensor. Two tables in global memory describe the tensors and chunks.
// The kernel is memory-bound: each thread has four 16-byte loads in flight, and many small chunks keep all multiprocessors
// loading.
//
// Macros set at compile time:
//   VECTOR    4 if all addresses are multiples of 16 bytes, otherwise 1
//   THREADS   threads per block
//   CHUNK     elements per chunk, a multiple of VECTOR

#include "elements.cuh"

enum Type : long { FP32, BF16, FP16 };

// Addresses of a parameter, its gradient, its moments and its copy, their number of elements, and the types of gradient and
// copy: a row of the first table, eight 64-bit words.
struct Tensors {
    float *p;
    const void *g;
    float *m, *v;
    void *copy; // null if there is none
    long elements;
    Type typeOfG, typeOfCopy;
};

struct Vector {
    float x[VECTOR];

    // Each element is used once per step: keep it out of L1.
    static __device__ __forceinline__ Vector load(const float *at) {
        Vector r;
        if constexpr (VECTOR == 4)
            asm volatile("ld.global.L1::no_allocate.v4.f32 {%0, %1, %2, %3}, [%4];"
                         : "=f"(r.x[0]), "=f"(r.x[1]), "=f"(r.x[2]), "=f"(r.x[3])
                         : "l"(at));
        else
            asm volatile("ld.global.f32 %0, [%1];" : "=f"(r.x[0]) : "l"(at));
        return r;
    }

    __device__ __forceinline__ void store(float *at) const {
        if constexpr (VECTOR == 4)
            asm volatile("st.global.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(at), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3]) : "memory");
        else
            asm volatile("st.global.f32 [%0], %1;" ::"l"(at), "f"(x[0]) : "memory");
    }
};

struct Step {
    float keep, beta1, gain1, beta2, gain2, stepSize, root, eps; // gain: 1 − β in fp64 on the host; fp32 would lose digits
    float factor;

    // Multiplications and additions are combined by hand, so that all instances of the kernel round alike.
    __device__ __forceinline__ void update(float &p, float g, float &m, float &v) const {
        g *= factor;
        m = fmaf(beta1, m, gain1 * g);
        v = fmaf(beta2, v, gain2 * g * g);
        p = fmaf(keep, p, -stepSize * (m / (sqrtf(v) / root + eps)));
    }
};

template <int N> __device__ __forceinline__ void storeCopy(const Tensors &tensor, long at, const float (&p)[N]) {
    if (tensor.typeOfCopy == BF16)
        Elements<bf16, N>::of(p).store((bf16 *)tensor.copy + at);
    else
        Elements<fp16, N>::of(p).store((fp16 *)tensor.copy + at);
}

template <typename G> __device__ __forceinline__ void updateChunk(const Tensors &tensor, long begin, int elements, const Step &step) {
    float *p = tensor.p + begin, *m = tensor.m + begin, *v = tensor.v + begin;
    const G *g = (const G *)tensor.g + begin;
    int whole = elements / VECTOR * VECTOR;
    for (int at = threadIdx.x * VECTOR; at < whole; at += THREADS * VECTOR) {
        Vector ps = Vector::load(p + at);
        Elements<G, VECTOR> gs = Elements<G, VECTOR>::load(g + at);
        Vector ms = Vector::load(m + at), vs = Vector::load(v + at);
#pragma unroll
        for (int i = 0; i < VECTOR; i++) step.update(ps.x[i], gs[i], ms.x[i], vs.x[i]);
        ps.store(p + at);
        ms.store(m + at);
        vs.store(v + at);
        if (tensor.copy) storeCopy(tensor, begin + at, ps.x);
    }
    for (int at = whole + threadIdx.x; at < elements; at += THREADS) {
        step.update(p[at], Elements<G, 1>::load(g + at)[0], m[at], v[at]);
        if (tensor.copy) storeCopy(tensor, begin + at, {p[at]});
    }
}

// tensorOfChunk [chunks]: row of the chunk's tensor in the first table. firstOfChunk [chunks]: first element of the chunk in
// its tensor, in units of CHUNK. factor: multiplies all gradients; null for 1.
extern "C" __global__ void __launch_bounds__(THREADS)
    adamw(const Tensors *table, const int *tensorOfChunk, const int *firstOfChunk, const float *factor, float keep, float beta1,
          float gain1, float beta2, float gain2, float stepSize, float root, float eps) {
    const Tensors tensor = table[tensorOfChunk[blockIdx.x]];
    const Step step = {keep, beta1, gain1, beta2, gain2, stepSize, root, eps, factor ? *factor : 1.0f};
    long begin = (long)firstOfChunk[blockIdx.x] * CHUNK;
    int elements = tensor.elements - begin < CHUNK ? (int)(tensor.elements - begin) : CHUNK;
    if (tensor.typeOfG == BF16)
        updateChunk<bf16>(tensor, begin, elements, step);
    else
        updateChunk<float>(tensor, begin, elements, step);
}
