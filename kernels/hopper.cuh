// What a multiprocessor of the Hopper generation (sm_90a) offers beside arithmetic: barriers in shared memory that count
// bytes, copies of whole tiles by the tensor memory accelerator (TMA), barriers among some of a block's warps, and
// registers that move between warps.
//
// Shared memory is addressed by its 32-bit addresses throughout: sharedAddress(pointer).

#pragma once

// A tensor map: where a tensor lies, its sizes and strides, and the box that one copy moves. Opaque; made by
// cuTensorMapEncodeTiled and passed as  const __grid_constant__ TensorMap.
struct __align__(64) TensorMap { unsigned long long opaque[16]; };

__device__ __forceinline__ unsigned sharedAddress(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

// ---- Barriers in shared memory, 8 bytes each. A phase ends when all arrivals, and all bytes announced, have come.

__device__ __forceinline__ void barrierInit(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// After the inits and before the __syncthreads that follows them: TMA sees the barriers too.
__device__ __forceinline__ void barrierInitFence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrierArrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives, and announces so many bytes by TMA.
__device__ __forceinline__ void barrierExpect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Waits until the phase of this parity has ended; phases count 0, 1, 2 … On a fresh barrier parity 1 passes at once.
__device__ __forceinline__ void barrierWait(unsigned barrier, unsigned parity) {
    int ended;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
                     : "=r"(ended)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!ended);
}

// ---- TMA, asked for by one thread. Coordinates count elements, innermost dimension first. What lies outside the tensor is
// read as zero, counts as bytes all the same, and is not written. A box that is written must not begin before the tensor; one
// that is read may (CUDA C++ Programming Guide).

__device__ __forceinline__ void tmaPrefetchMap(const TensorMap &map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

__device__ __forceinline__ void tmaLoad(unsigned to, const TensorMap &map, unsigned barrier, int x, int y, int z, int w) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                 "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

__device__ __forceinline__ void tmaStore(const TensorMap &map, unsigned from, int x, int y, int z, int w) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
                 "r"(from), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

// Neighbouring bytes without a map; addresses and size are multiples of 16.
__device__ __forceinline__ void bulkLoad(unsigned to, const void *from, int bytes, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

// Adds fp32 in shared memory to fp32 in global memory, element by element, each atomically.
__device__ __forceinline__ void bulkAdd(float *to, unsigned from, int bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
                 "r"(from), "r"(bytes)
                 : "memory");
}

// The thread's stores and additions so far become a group.
__device__ __forceinline__ void bulkCommit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all but its last N groups have read their shared memory, which may then be written again …
template <int N> __device__ __forceinline__ void bulkWaitRead() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

// … or until they are done altogether.
template <int N> __device__ __forceinline__ void bulkWait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

// Between a thread's own writes to shared memory and the barrier after which TMA or wgmma reads them.
__device__ __forceinline__ void asyncFence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- Barriers among some warps of a block: numbers 1 to 15 (0 is __syncthreads), threads of all who sync or arrive.

__device__ __forceinline__ void namedSync(int number, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

__device__ __forceinline__ void namedArrive(int number, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// ---- Clusters: neighbouring blocks that run at once and read each other's shared memory.

// All threads of all blocks of the cluster that have not ended. Writes to shared memory before it are seen after it.
__device__ __forceinline__ void clusterSync() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// The same place in the shared memory of the cluster's block of this rank.
__device__ __forceinline__ const float *inBlock(const float *shared, int rank) {
    const float *there;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared), "r"(rank));
    return there;
}

// Arrives at the same barrier of the block of this rank. Whoever waits for it by barrierWaitCluster sees what was written
// before.
__device__ __forceinline__ void barrierArriveIn(int rank, unsigned barrier) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}

__device__ __forceinline__ void barrierWaitCluster(unsigned barrier, unsigned parity) {
    int ended;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                     "selp.b32 %0, 1, 0, p; }"
                     : "=r"(ended)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!ended);
}

// ---- Registers a thread, a multiple of 8 from 24 to 240; all warps of a warpgroup ask. The kernel needs
// __launch_bounds__(threads, 1).

template <int Registers> __device__ __forceinline__ void registersUp() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

template <int Registers> __device__ __forceinline__ void registersDown() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

// ---- The layout that TMA writes and wgmma reads: rows of 128 bytes, at a multiple of 1024, in which the row's number modulo
// 8 is XORed into the number of the 16-byte chunk. Neighbouring rows then lie in different banks.

constexpr int ROW_BYTES = 128;

__device__ __forceinline__ unsigned swizzled(int row, int byte) { return row * ROW_BYTES + (byte ^ ((row & 7) << 4)); }

// Stores four 8 × 8 matrices of 16-bit elements that a warp holds as an accumulator, packed: word i of all lanes is matrix i.
// Lane l names the address of row l%8 of matrix l/8.
__device__ __forceinline__ void storeMatrices(unsigned address, const unsigned *words) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]),
                 "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}
