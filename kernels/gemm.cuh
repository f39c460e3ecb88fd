// Rings of operands in shared memory and the order of tiles, for matrix multiplications with TMA and wgmma. One thread of each
// block, in a third warpgroup, loads operands with TMA; two warpgroups multiply.

#pragma once

#include "hopper.cuh"
#include "wgmma.cuh"

constexpr int CLUSTER = 2, WARPGROUP = 128, CONSUMERS = 2;
constexpr int ALL_BLOCKS = (1 << CLUSTER) - 1; // of a cluster, for multicast

// The next stage of a ring, and the parity of its barriers' phase.
template <int Stages> struct PipelineState {
    int stage = 0;
    unsigned parity = 0;

    __device__ __forceinline__ void advance() {
        if (++stage == Stages) {
            stage = 0;
            parity ^= 1;
        }
    }
};

constexpr int SWIZZLE_ALIGNMENT = 1024; // of buffers with 128-byte swizzle

__device__ __forceinline__ unsigned firstBuffer(const void *shared) {
    return (sharedAddress(shared) + SWIZZLE_ALIGNMENT - 1) & ~(SWIZZLE_ALIGNMENT - 1u);
}

// One buffer per stage, of BufferBytes, and its two barriers. Blocks is CLUSTER if TMA multicasts parts of the buffer to all blocks
// of the cluster, which then use the same stage at the same time, else 1.
template <int Stages, int BufferBytes, int Blocks> struct Ring {
    static constexpr int BYTES = Stages * BufferBytes, BARRIER_BYTES = Stages * 16;

    unsigned buffers, barriers; // addresses

    __device__ __forceinline__ unsigned buffer(int stage) const { return buffers + stage * BufferBytes; }
    __device__ __forceinline__ unsigned full(int stage) const { return barriers + 16 * stage; }
    __device__ __forceinline__ unsigned empty(int stage) const { return full(stage) + 8; }

    // Called by one thread, before clusterSync.
    __device__ __forceinline__ void init() const {
        for (int i = 0; i < Stages; i++) {
            barrierInit(full(i), 1);
            barrierInit(empty(i), Blocks * CONSUMERS * WARPGROUP / 32);
        }
        barrierInitFence();
    }

    // Waits until the next buffer may be overwritten, and expects BufferBytes from TMA. The thread that loads calls it.
    __device__ __forceinline__ void expect(const PipelineState<Stages> &next) const {
        if constexpr (Blocks == 1) {
            barrierWait(empty(next.stage), next.parity ^ 1);
        } else {
            barrierWaitCluster(empty(next.stage), next.parity ^ 1);
        }
        barrierExpect(full(next.stage), BufferBytes);
    }

    // Waits until the next buffer is loaded.
    __device__ __forceinline__ void awaitLoaded(const PipelineState<Stages> &next) const {
        barrierWait(full(next.stage), next.parity);
    }

    // Frees a buffer; all lanes of each consumer warp call it when they have used what they read.
    __device__ __forceinline__ void release(int stage, int lane) const {
        __syncwarp();
        if constexpr (Blocks == 1) {
            if (lane == 0) barrierArrive(empty(stage));
        } else {
            if (lane < Blocks) barrierArriveAfterReadsIn(lane, empty(stage));
        }
    }
};

// The first element of a block's part of a tile; the blocks of a cluster have parts below each other. Tiles are numbered in bands
// of BAND rows of tiles, so that most tiles that are computed at the same time share operands in L2.
template <int BlockRows, int Columns> struct TilePosition {
    static constexpr int BAND = 8;
    int row, column;

    __device__ __forceinline__ TilePosition(int tile, int tileRows, int tileColumns, int rank) {
        int band = tile / (BAND * tileColumns), inBand = tile % (BAND * tileColumns);
        int height = min(BAND, tileRows - band * BAND);
        row = ((band * BAND + inBand % height) * CLUSTER + rank) * BlockRows;
        column = inBand / height * Columns;
    }
};

// Returns the number of tiles below each other.
template <int BlockRows> __device__ __forceinline__ int countTileRows(int rows) {
    return (rows + CLUSTER * BlockRows - 1) / (CLUSTER * BlockRows);
}

// The work of a block: its cluster computes tiles cluster, cluster + clusters, … below `tiles`, each with `stages` stages.
template <int BlockRows, int Columns, int Depth> struct BlockWork {
    int rank, cluster, clusters, tileRows, tileColumns, tiles, stages;

    __device__ __forceinline__ BlockWork(int rows, int columns, int depth)
        : rank(blockIdx.x % CLUSTER), cluster(blockIdx.x / CLUSTER), clusters(gridDim.x / CLUSTER),
          tileRows(countTileRows<BlockRows>(rows)), tileColumns((columns + Columns - 1) / Columns),
          tiles(tileRows * tileColumns), stages((depth + Depth - 1) / Depth) {}
};
