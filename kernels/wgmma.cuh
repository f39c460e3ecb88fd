// Asynchronous matrix multiply-accumulate on Hopper's tensor cores (sm_90a, wgmma): the 128 threads of a warpgroup together issue
// D (+)= A·B of shape 64 × N × 16 (TF32: 64 × N × 8) and continue.
//
// The accumulator is an array of N/2 floats per thread. Element i is at
//   row 16·warp + lane/4 + 8·(i/2 % 2),   column 8·(i/4) + 2·(lane%4) + i%2.
// With adjacent elements packed into words, this is the layout of operand A in registers: words 4k … 4k+3 of the packed
// accumulator are columns 16k … 16k+15 of A.
//
// The order of a group:  pin  wgmmaFence  wgmma …  wgmmaCommit  wgmmaWait  pin.  Between commit and wait, no other code may
// use the registers; otherwise the compiler waits after each instruction (messages C7510 to C7519). A branch or a loop edge in
// between often has the same effect. gemm_tf32.cu keeps a group in flight across a loop edge, where nothing else uses registers
// of the group.

#pragma once

#include "elements.cuh"

__device__ __forceinline__ void wgmmaFence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

__device__ __forceinline__ void wgmmaCommit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// Waits until all but the last N groups are complete.
template <int N> __device__ __forceinline__ void wgmmaWait() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// Prevents the compiler from moving uses of these registers across this point.
template <int N> __device__ __forceinline__ void pin(float (&registers)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+f"(registers[i])::"memory");
}
template <int N> __device__ __forceinline__ void pin(unsigned (&registers)[N]) {
#pragma unroll
    for (int i = 0; i < N; i++) asm volatile("" : "+r"(registers[i])::"memory");
}

template <typename A, typename B> constexpr bool sameType = false;
template <typename A> constexpr bool sameType<A, A> = true;

// Layout of an operand in shared memory: swizzled rows of 128 bytes (64 elements), in groups of 8 rows (1024 bytes).
//   ALONG_SUM    K-major: a row has 64 elements of the summed dimension K; the next 16 of K are 32 bytes further
//   ACROSS_SUM   MN-major: a row has 64 elements of the other dimension; the next 16 of K are 16 rows (2048 bytes) further
// TF32 operands are ALONG_SUM, with 32 elements in a row.
enum Major { ALONG_SUM, ACROSS_SUM };

// Returns the matrix descriptor of an operand. Bits 0 on: address / 16. Bits 16 on: leading dimension offset / 16, the distance
// between blocks of 64 elements, used by MN-major operands of more than one block. Bits 32 on: stride dimension offset / 16, the
// distance between groups of 8 rows. Bits 62 on: 1 for the 128-byte swizzle.
__device__ __forceinline__ unsigned long long operand(unsigned address, unsigned blockDistance = 0) {
    constexpr unsigned HIGH = 1u << 30 | 1024 / 16;
    constexpr unsigned ADDRESS = (1 << 18) - 1; // in a cluster, the bits above are the block's rank
    return (unsigned long long)HIGH << 32 | blockDistance / 16 << 16 | (address & ADDRESS) / 16;
}

// Returns the descriptor of the operand that starts some bytes further. This is one addition; a new descriptor would take several
// instructions before each wgmma.
__device__ __forceinline__ unsigned long long further(unsigned long long operand, int bytes) {
    return operand >> 32 << 32 | ((unsigned)operand + bytes / 16);
}

// The assembler text for N columns. REGISTERS and ACCUMULATOR(0) name the N/2 registers of d. The operands after them have the
// numbers i0 … i6 from N/2 on, which are parameters because the preprocessor cannot count.
#define WGMMA_INSTRUCTION(N, TYPE) "wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." TYPE "." TYPE " "
#define WGMMA_SHARED(N, TYPE, REGISTERS, ACCUMULATOR, i0, i1, i2, i3, i4)                                              \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #i2 ", 0;\n" WGMMA_INSTRUCTION(N, TYPE) "{" REGISTERS "}, "        \
                 "%" #i0 ", %" #i1 ", p, 1, 1, %" #i3 ", %" #i4 "; }"                                                  \
                 : ACCUMULATOR(0)                                                                                      \
                 : "l"(a), "l"(b), "r"((int)accumulate), "n"((int)MajorA), "n"((int)MajorB))
#define WGMMA_TF32(N, REGISTERS, ACCUMULATOR, i0, i1, i2)                                                              \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #i2 ", 0;\n"                                                       \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" REGISTERS "}, "                           \
                 "%" #i0 ", %" #i1 ", p, 1, 1; }"                                                                      \
                 : ACCUMULATOR(0)                                                                                      \
                 : "l"(a), "l"(b), "r"((int)accumulate))
#define WGMMA_TF32_REGISTERS(N, REGISTERS, ACCUMULATOR, i0, i1, i2, i3, i4, i5)                                        \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #i5 ", 0;\n"                                                       \
                 "wgmma.mma_async.sync.aligned.m64n" #N "k8.f32.tf32.tf32 {" REGISTERS "}, "                           \
                 "{%" #i0 ", %" #i1 ", %" #i2 ", %" #i3 "}, %" #i4 ", p, 1, 1; }"                                      \
                 : ACCUMULATOR(0)                                                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)accumulate))
#define WGMMA_REGISTERS(N, TYPE, REGISTERS, ACCUMULATOR, i0, i1, i2, i3, i4, i5, i6)                                   \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %" #i5 ", 0;\n" WGMMA_INSTRUCTION(N, TYPE) "{" REGISTERS "}, "        \
                 "{%" #i0 ", %" #i1 ", %" #i2 ", %" #i3 "}, %" #i4 ", p, 1, 1, %" #i6 "; }"                            \
                 : ACCUMULATOR(0)                                                                                      \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)accumulate), "n"((int)MajorB))

// Issues d = A·B, or d += A·B if accumulate, which must be a compile-time constant after inlining. T is bf16, fp16 or float
// (TF32). A is the descriptor of an operand in shared memory, or four words in registers.
#define WGMMA(N, REGISTERS, ACCUMULATOR, i0, i1, i2, i3, i4, i5, i6)                                                   \
    template <typename T, Major MajorA, Major MajorB>                                                                  \
    __device__ __forceinline__ void wgmma(                                                                             \
        float(&d)[N / 2], unsigned long long a, unsigned long long b, bool accumulate) {                               \
        if constexpr (sameType<T, bf16>) {                                                                             \
            WGMMA_SHARED(N, "bf16", REGISTERS, ACCUMULATOR, i0, i1, i2, i3, i4);                                       \
        } else if constexpr (sameType<T, float>) {                                                                     \
            static_assert(MajorA == ALONG_SUM && MajorB == ALONG_SUM, "TF32 operands lie along the sum");              \
            WGMMA_TF32(N, REGISTERS, ACCUMULATOR, i0, i1, i2);                                                         \
        } else {                                                                                                       \
            WGMMA_SHARED(N, "f16", REGISTERS, ACCUMULATOR, i0, i1, i2, i3, i4);                                        \
        }                                                                                                              \
    }                                                                                                                  \
    template <typename T, Major MajorB>                                                                                \
    __device__ __forceinline__ void wgmma(                                                                             \
        float(&d)[N / 2], const unsigned *a, unsigned long long b, bool accumulate) {                                  \
        if constexpr (sameType<T, bf16>) {                                                                             \
            WGMMA_REGISTERS(N, "bf16", REGISTERS, ACCUMULATOR, i0, i1, i2, i3, i4, i5, i6);                            \
        } else if constexpr (sameType<T, float>) {                                                                     \
            static_assert(MajorB == ALONG_SUM, "TF32 operands in shared memory lie along the sum");                    \
            WGMMA_TF32_REGISTERS(N, REGISTERS, ACCUMULATOR, i0, i1, i2, i3, i4, i5);                                   \
        } else {                                                                                                       \
            WGMMA_REGISTERS(N, "f16", REGISTERS, ACCUMULATOR, i0, i1, i2, i3, i4, i5, i6);                             \
        }                                                                                                              \
    }

#define R8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define R16 R8 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define R20 R16 ", %16, %17, %18, %19"
#define R32 R20 ", %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define R40 R32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define R48                                                                                                            \
    R40 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define R64                                                                                                            \
    R48 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define R80                                                                                                            \
    R64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define R104                                                                                                           \
    R80 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "                           \
        "%96, %97, %98, %99, %100, %101, %102, %103"
#define R128                                                                                                           \
    R104 ", %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, "          \
        "%120, %121, %122, %123, %124, %125, %126, %127"
#define D2(i) "+f"(d[i]), "+f"(d[i + 1])
#define D8(i) D2(i), D2(i + 2), D2(i + 4), D2(i + 6)
#define D16(i) D8(i), D8(i + 8)
#define D20(i) D16(i), D2(i + 16), D2(i + 18)
#define D32(i) D16(i), D16(i + 16)
#define D40(i) D32(i), D8(i + 32)
#define D48(i) D32(i), D16(i + 32)
#define D64(i) D32(i), D32(i + 32)
#define D80(i) D64(i), D16(i + 64)
#define D104(i) D64(i), D40(i + 64)
#define D128(i) D64(i), D64(i + 64)

WGMMA(16, R8, D8, 8, 9, 10, 11, 12, 13, 14)
WGMMA(32, R16, D16, 16, 17, 18, 19, 20, 21, 22)
WGMMA(40, R20, D20, 20, 21, 22, 23, 24, 25, 26)
WGMMA(64, R32, D32, 32, 33, 34, 35, 36, 37, 38)
WGMMA(80, R40, D40, 40, 41, 42, 43, 44, 45, 46)
WGMMA(96, R48, D48, 48, 49, 50, 51, 52, 53, 54)
WGMMA(128, R64, D64, 64, 65, 66, 67, 68, 69, 70)
WGMMA(160, R80, D80, 80, 81, 82, 83, 84, 85, 86)
WGMMA(208, R104, D104, 104, 105, 106, 107, 108, 109, 110)
WGMMA(256, R128, D128, 128, 129, 130, 131, 132, 133, 134)

#undef R8
#undef R16
#undef R20
#undef R32
#undef R40
#undef R48
#undef R64
#undef R80
#undef R104
#undef R128
#undef D2
#undef D8
#undef D16
#undef D20
#undef D32
#undef D40
#undef D48
#undef D64
#undef D80
#undef D104
#undef D128
#undef WGMMA
#undef WGMMA_SHARED
#undef WGMMA_REGISTERS
#undef WGMMA_TF32
#undef WGMMA_TF32_REGISTERS
#undef WGMMA_INSTRUCTION
