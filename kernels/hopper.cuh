// Hopper's (sm_90a) instructions for data movement and synchronisation: mbarriers, which also count bytes; copies of tiles by the
// tensor memory accelerator (TMA); named barriers for some of a block's warps; clusters; reallocation of registers (setmaxnreg).
//
// Addresses of shared memory are 32-bit addresses of the shared state space: sharedAddress(pointer).

#pragma once

// A tensor map: address, sizes and strides of a tensor, and the box that one copy moves. Opaque; encoded by
// cuTensorMapEncodeTiled and passed as  const __grid_constant__ TensorMap.
struct __align__(64) TensorMap { unsigned long long opaque[16]; };

__device__ __forceinline__ unsigned sharedAddress(const void *p) { return (unsigned)__cvta_generic_to_shared(p); }

// ---- mbarriers: barriers in shared memory, 8 bytes each. A phase completes when all arrivals and all expected bytes have
// arrived.

__device__ __forceinline__ void barrierInit(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialised barriers visible to TMA. Comes after the inits and before the __syncthreads that follows them.
__device__ __forceinline__ void barrierInitFence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

__device__ __forceinline__ void barrierArrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

// Arrives and adds to the bytes that the phase expects from TMA.
__device__ __forceinline__ void barrierExpect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// Waits until the phase of this parity has completed; phases are numbered 0, 1, 2 … On a new barrier parity 1 does not wait.
__device__ __forceinline__ void barrierWait(unsigned barrier, unsigned parity) {
    int ended;
    do {
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.b32 %0, 1, 0, p; }"
                     : "=r"(ended)
                     : "r"(barrier), "r"(parity)
                     : "memory");
    } while (!ended);
}

// ---- TMA copies, issued by one thread. Coordinates are in elements, innermost dimension first. Elements outside the tensor
// are loaded as zeros, which count as bytes too, and are not stored. A box that is stored must not begin before the tensor;
// one that is loaded may (CUDA C++ Programming Guide).

__device__ __forceinline__ void tmaPrefetchMap(const TensorMap &map) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

__device__ __forceinline__ void tmaLoad(unsigned to, const TensorMap &map, unsigned barrier, int x, int y, int z, int w) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes "
                 "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
                 "l"(&map), "r"(barrier), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

// Loads like tmaLoad to the same addresses in each block of the cluster whose bit is set in `blocks`. The barrier of the same
// address in each of them counts the bytes.
__device__ __forceinline__ void tmaMulticast(unsigned to, const TensorMap &map, unsigned barrier, int blocks, int x, int y,
                                             int z, int w) {
    asm volatile("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%4, %5, %6, %7}], [%2], %3;" ::"r"(to),
                 "l"(&map), "r"(barrier), "h"((short)blocks), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

__device__ __forceinline__ void tmaStore(const TensorMap &map, unsigned from, int x, int y, int z, int w) {
    asm volatile("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [%0, {%2, %3, %4, %5}], [%1];" ::"l"(&map),
                 "r"(from), "r"(x), "r"(y), "r"(z), "r"(w)
                 : "memory");
}

// Loads contiguous bytes without a map; addresses and size are multiples of 16.
__device__ __forceinline__ void bulkLoad(unsigned to, const void *from, int bytes, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

// Adds fp32 elements in shared memory to fp32 elements in global memory, each atomically.
__device__ __forceinline__ void bulkAdd(float *to, unsigned from, int bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to),
                 "r"(from), "r"(bytes)
                 : "memory");
}

// Commits the thread's bulk stores and additions so far as a group.
__device__ __forceinline__ void bulkCommit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

// Waits until all but the thread's last N groups have read their shared memory, which may then be overwritten.
template <int N> __device__ __forceinline__ void bulkWaitRead() {
    asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(N) : "memory");
}

// Waits until all but the thread's last N groups are complete.
template <int N> __device__ __forceinline__ void bulkWait() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}

// Makes a thread's writes to shared memory visible to TMA and wgmma; comes before the barrier that releases them.
__device__ __forceinline__ void asyncFence() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// ---- Named barriers for some warps of a block: number 1 to 15 (0 is __syncthreads); threads counts those that sync or arrive.

__device__ __forceinline__ void namedSync(int number, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

__device__ __forceinline__ void namedArrive(int number, int threads) {
    asm volatile("bar.arrive %0, %1;" ::"r"(number), "r"(threads) : "memory");
}

// ---- Clusters: blocks that run concurrently and can access each other's shared memory.

// A barrier of all threads of the cluster that have not exited. Earlier writes to shared memory are visible after it.
__device__ __forceinline__ void clusterSync() {
    asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// Returns the same address in the shared memory of the cluster's block with this rank.
__device__ __forceinline__ const float *inBlock(const float *shared, int rank) {
    const float *there;
    asm volatile("mapa.u64 %0, %1, %2;" : "=l"(there) : "l"(shared), "r"(rank));
    return there;
}

// Arrives at the same barrier of the block with this rank. Earlier writes are visible after barrierWaitCluster.
__device__ __forceinline__ void barrierArriveIn(int rank, unsigned barrier) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [there]; }" ::"r"(barrier),
                 "r"(rank)
                 : "memory");
}

// Arrives like barrierArriveIn after reads only: earlier writes are ordered within the block. barrierArriveIn has a memory barrier
// that waits until they are visible in the cluster, which takes as long as an access to L2. The arrival can overtake loads whose
// values have not been used yet.
__device__ __forceinline__ void barrierArriveAfterReadsIn(int rank, unsigned barrier) {
    asm volatile("{ .reg .b32 there; mapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there]; }" ::"r"(barrier),
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

// ---- Registers per thread, a multiple of 8 from 24 to 240; all warps of a warpgroup must call. The kernel needs
// __launch_bounds__(threads, 1).

template <int Registers> __device__ __forceinline__ void registersUp() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

template <int Registers> __device__ __forceinline__ void registersDown() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

// ---- The 128-byte swizzle of TMA and wgmma: rows of 128 bytes from a multiple of 1024 on, in which the row index modulo 8
// is XORed into the index of the 16-byte chunk. A column of chunks then spreads over all banks.

constexpr int ROW_BYTES = 128;

__device__ __forceinline__ unsigned swizzled(int row, int byte) { return row * ROW_BYTES + (byte ^ ((row & 7) << 4)); }

// Stores four 8 × 8 matrices of 16-bit elements from a warp's packed accumulator: word i of all lanes is matrix i. Lane l passes
// the address of row l%8 of matrix l/8.
__device__ __forceinline__ void storeMatrices(unsigned address, const unsigned *words) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]),
                 "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}

// Stores four 8 × 8 matrices like storeMatrices, but transposed: lane l passes the address of column l%8 of matrix l/8.
__device__ __forceinline__ void storeMatricesTransposed(unsigned address, const unsigned *words) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(words[0]),
                 "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
}
