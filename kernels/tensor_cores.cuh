// Instructions of kernels that multiply matrices on tensor cores with mma.sync (sm_80 and later).

#include "elements.cuh"

// The instruction for an element type: c += a · b.
template <typename E> struct Mma;

#define MMA(ELEMENT_TYPE, SHAPE_AND_TYPES)                                                                             \
    template <> struct Mma<ELEMENT_TYPE> {                                                                             \
        static __device__ __forceinline__ void add(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {    \
            asm("mma.sync.aligned." SHAPE_AND_TYPES " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
                : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                                       \
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));                                   \
        }                                                                                                              \
    }
MMA(float, "m16n8k8.row.col.f32.tf32.tf32.f32");
MMA(bf16, "m16n8k16.row.col.f32.bf16.bf16.f32");
MMA(fp16, "m16n8k16.row.col.f32.f16.f16.f32");
#undef MMA

__device__ __forceinline__ unsigned sharedAddress(const void *at) { return (unsigned)__cvta_generic_to_shared(at); }

// Starts copying 16 bytes to shared memory; if they are not there, they become zero.
__device__ __forceinline__ void copy16(unsigned target, const void *source, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(there ? 16 : 0)
                 : "memory");
}
