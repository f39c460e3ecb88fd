// The interface of kernels/elements.cuh on the host.

#pragma once
#include "device.h"

struct bf16 { unsigned short bits; };
struct fp16 { unsigned short bits; };

template <typename T> struct Element;

template <> struct Element<float> {
    static float get(const unsigned *word, int i) { return __uint_as_float(word[i]); }
};

template <> struct Element<bf16> {
    static float get(const unsigned *word, int i) {
        return __uint_as_float(i % 2 == 0 ? word[i / 2] << 16 : word[i / 2] & 0xffff0000u);
    }
    static unsigned rounded(float x) { // to nearest, ties to even
        unsigned bits = __float_as_uint(x);
        return x != x ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    }
    static unsigned pair(float low, float high) { return rounded(low) | rounded(high) << 16; }
};

template <> struct Element<fp16> {
    static float get(const unsigned *word, int i) {
        unsigned short bits = word[i / 2] >> 16 * (i % 2);
        _Float16 value;
        memcpy(&value, &bits, sizeof value);
        return value;
    }
    static unsigned rounded(float x) {
        _Float16 value = x;
        unsigned short bits;
        memcpy(&bits, &value, sizeof bits);
        return bits;
    }
    static unsigned pair(float low, float high) { return rounded(low) | rounded(high) << 16; }
};

template <typename T, int N> struct Elements {
    static constexpr int BYTES = N * sizeof(T);
    static constexpr int WORDS = (BYTES + 3) / 4;

    unsigned word[WORDS];

    static Elements zero() { return {}; }
    static Elements from(const void *at) {
        requireAligned(at, BYTES);
        Elements e = {};
        memcpy(e.word, at, BYTES);
        return e;
    }
    static Elements load(const T *at) {
        requireTensor(at, BYTES);
        return from(at);
    }
    static Elements loadKept(const T *at) { return load(at); }
    static Elements loadOnce(const T *at) { return load(at); }
    static Elements loadLast(const T *at) { return load(at); }
    static Elements fromShared(const void *shared) {
        requireShared(shared, BYTES);
        return from(shared);
    }
    static void copyAsync(void *shared, const T *at) {
        requireTensor(at, BYTES);
        requireShared(shared, BYTES);
        requireAligned(at, BYTES);
        requireAligned(shared, BYTES);
        memcpy(shared, at, BYTES);
    }

    void keepPacked() {}
    float operator[](int i) const { return Element<T>::get(word, i); }

    static Elements of(const float (&value)[N]) {
        Elements e = {};
        for (int i = 0; i < N; i++) {
            if constexpr (sizeof(T) == 4) {
                e.word[i] = __float_as_uint(value[i]);
            } else {
                e.word[i / 2] |= Element<T>::rounded(value[i]) << 16 * (i % 2);
            }
        }
        return e;
    }
    void store(T *at) const {
        requireTensor(at, BYTES);
        requireAligned(at, BYTES);
        memcpy(at, word, BYTES);
    }
};
