// Vectorised access to tensor elements: fp32, bf16 or fp16 in memory, fp32 in arithmetic, up to 16 bytes per instruction.
//
// No kernel includes a CUDA header, because NVRTC without a CUDA toolkit has none.

#pragma once

struct bf16 { unsigned short bits; };
struct fp16 { unsigned short bits; };

// Rounds to TF32, the upper 19 bits of an fp32; tensor cores ignore the other bits. Numbers that round to infinity become
// infinite.
__device__ __forceinline__ unsigned roundToTf32(float x) { return (__float_as_uint(x) + (1u << 12)) & ~0u << 13; }

template <typename T> struct Element;

template <> struct Element<float> {
    static __device__ __forceinline__ float get(const unsigned *word, int i) { return __uint_as_float(word[i]); }
};

// A bf16 is the upper half of an fp32.
template <> struct Element<bf16> {
    static __device__ __forceinline__ float get(const unsigned *word, int i) {
        return __uint_as_float(i % 2 == 0 ? word[i / 2] << 16 : word[i / 2] & 0xffff0000u);
    }
    static __device__ __forceinline__ unsigned pair(float low, float high) {
        unsigned bits;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
        return bits;
    }
};

template <> struct Element<fp16> {
    static __device__ __forceinline__ float get(const unsigned *word, int i) {
        float value;
        asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"((unsigned short)(word[i / 2] >> 16 * (i % 2))));
        return value;
    }
    static __device__ __forceinline__ unsigned pair(float low, float high) {
        unsigned bits;
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(bits) : "f"(high), "f"(low));
        return bits;
    }
};

// N contiguous elements of type T, packed as in memory. Addresses are aligned to their size, at most to 16 bytes.
template <typename T, int N> struct Elements {
    static constexpr int BYTES = N * sizeof(T);
    static constexpr int WORDS = (BYTES + 3) / 4;
    static_assert(BYTES == 2 || BYTES == 4 || BYTES == 8 || BYTES % 16 == 0, "no access has this width");

    unsigned word[WORDS];

    static __device__ __forceinline__ Elements zero() {
        Elements e;
#pragma unroll
        for (int i = 0; i < WORDS; i++) e.word[i] = 0; // 0.0 in all three types
        return e;
    }

    // Volatile, so that the compiler issues loads in source order, before the arithmetic that follows, and does not hoist
    // them out of loops, which would cost registers.
    static __device__ __forceinline__ Elements load(const T *at) {
        Elements e;
        if constexpr (BYTES % 16 == 0) {
#pragma unroll
            for (int i = 0; i < BYTES / 16; i++)
                asm volatile("ld.global.nc.v4.u32 {%0, %1, %2, %3}, [%4];"
                             : "=r"(e.word[4 * i]), "=r"(e.word[4 * i + 1]), "=r"(e.word[4 * i + 2]), "=r"(e.word[4 * i + 3])
                             : "l"((const char *)at + 16 * i));
        } else if constexpr (BYTES == 8) {
            asm volatile("ld.global.nc.v2.u32 {%0, %1}, [%2];" : "=r"(e.word[0]), "=r"(e.word[1]) : "l"(at));
        } else if constexpr (BYTES == 4) {
            asm volatile("ld.global.nc.u32 %0, [%1];" : "=r"(e.word[0]) : "l"(at));
        } else {
            unsigned short half;
            asm volatile("ld.global.nc.u16 %0, [%1];" : "=h"(half) : "l"(at));
            e.word[0] = half;
        }
        return e;
    }

    // The first and the last load of an element that a block reads twice, of tensors larger than L2. L2 keeps lines of loadKept
    // longer than those that the kernel writes, until loadLast makes them the first to be evicted.
    static __device__ __forceinline__ Elements loadKept(const T *at) {
        if constexpr (BYTES != 16) return load(at);
        Elements e;
        asm volatile("{ .reg .b64 policy; createpolicy.fractional.L2::evict_last.b64 policy, 1.0;\n"
                     "ld.global.L1::evict_last.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], policy; }"
                     : "=r"(e.word[0]), "=r"(e.word[1]), "=r"(e.word[2]), "=r"(e.word[3])
                     : "l"(at));
        return e;
    }

    static __device__ __forceinline__ Elements loadLast(const T *at) {
        if constexpr (BYTES != 16) return load(at);
        Elements e;
        asm volatile("{ .reg .b64 policy; createpolicy.fractional.L2::evict_first.b64 policy, 1.0;\n"
                     "ld.global.L1::evict_first.L2::cache_hint.v4.u32 {%0, %1, %2, %3}, [%4], policy; }"
                     : "=r"(e.word[0]), "=r"(e.word[1]), "=r"(e.word[2]), "=r"(e.word[3])
                     : "l"(at));
        return e;
    }

    // The only load of an element by any thread: L1 keeps its lines for other data.
    static __device__ __forceinline__ Elements loadOnce(const T *at) {
        if constexpr (BYTES != 16) return load(at);
        Elements e;
        asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(e.word[0]), "=r"(e.word[1]), "=r"(e.word[2]), "=r"(e.word[3])
                     : "l"(at));
        return e;
    }

    // Copies from global to shared memory asynchronously; cp.async.wait_group waits for it.
    static __device__ __forceinline__ void copyAsync(void *shared, const T *at) {
        unsigned to = (unsigned)__cvta_generic_to_shared(shared);
        if constexpr (BYTES == 16) { // bypasses L1
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(at) : "memory");
        } else if constexpr (BYTES >= 4) {
            asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(at), "n"(BYTES) : "memory");
        } else { // too small for cp.async: synchronous
            load(at).store((T *)shared);
        }
    }

    static __device__ __forceinline__ Elements fromShared(const void *shared) {
        Elements e;
        if constexpr (BYTES == 16) {
            uint4 words = *(const uint4 *)shared;
            e.word[0] = words.x, e.word[1] = words.y, e.word[2] = words.z, e.word[3] = words.w;
        } else if constexpr (BYTES == 2) {
            e.word[0] = *(const unsigned short *)shared;
        } else {
#pragma unroll
            for (int i = 0; i < WORDS; i++) e.word[i] = ((const unsigned *)shared)[i];
        }
        return e;
    }

    // Called between two passes over the elements. Without it the compiler keeps 16-bit elements converted to fp32 in addition to
    // the packed ones, in three times as many registers.
    __device__ __forceinline__ void keepPacked() {
        if constexpr (sizeof(T) == 2)
#pragma unroll
            for (int i = 0; i < WORDS; i++) asm volatile("" : "+r"(word[i]));
    }

    __device__ __forceinline__ float operator[](int i) const { return Element<T>::get(word, i); }

    static __device__ __forceinline__ Elements of(const float (&value)[N]) {
        Elements e;
        if constexpr (sizeof(T) == 4) {
#pragma unroll
            for (int i = 0; i < N; i++) e.word[i] = __float_as_uint(value[i]);
        } else if constexpr (N == 1) {
            e.word[0] = Element<T>::pair(value[0], 0.0f);
        } else {
#pragma unroll
            for (int i = 0; i < N / 2; i++) e.word[i] = Element<T>::pair(value[2 * i], value[2 * i + 1]);
        }
        return e;
    }

    __device__ __forceinline__ void store(T *at) const {
        if constexpr (BYTES % 16 == 0) {
#pragma unroll
            for (int i = 0; i < BYTES / 16; i++)
                ((uint4 *)at)[i] = make_uint4(word[4 * i], word[4 * i + 1], word[4 * i + 2], word[4 * i + 3]);
        } else if constexpr (BYTES == 8) {
            *(uint2 *)at = make_uint2(word[0], word[1]);
        } else if constexpr (BYTES == 4) {
            *(unsigned *)at = word[0];
        } else {
            *(unsigned short *)at = (unsigned short)word[0];
        }
    }
};
