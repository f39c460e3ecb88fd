// Y = X · Wᵀ on Hopper's tensor cores (sm_90a, wgmma), where X has 16 bits per element and W has fp32 elements, which are rounded
// to X's type after they are loaded. A separate cast of W would read and write 6 bytes per element. The rows of X and W are
// contiguous, as in the forward pass of a linear layer. W may be up to three matrices of equal size, one below the other, in
// separate memory. Or Y = gelu(X · Wᵀ), or SwiGLU, Y = silu(X · W0ᵀ) ∘ (X · W1ᵀ): half of a tile's columns belong to W0, the other
// half to W1. Only Y is rounded.
//
// The kernel computes Yᵀ = W · Xᵀ, so that W is the operand that wgmma can read from registers, where it is rounded. A cluster
// of two blocks computes tiles of 512 rows and 128 columns of Y, each block 256 rows. Each block loads half of the rows of W,
// and TMA multicasts them to both.
//
// A stage is a depth of 64. Two warpgroups multiply, with 64 columns and 256 rows of the product each. They write their results to
// shared memory, transposed, and go on with the next tile. A thread of the producer's warpgroup stores the results with TMA.
//
// The last tiles may be too few for all clusters. Then several clusters compute a part of the depth of each of them (split-K).
// They store their sums in fp32, and gemm_mixed_sum adds the parts in a fixed order.
//
// Macros set at compile time:
//   ELEMENT       bf16 or fp16
//   EPILOGUE      NONE, GELU or SWIGLU
//   STAGES        stages in shared memory
//   THREADS       threads per block: 384
//   SHARED_BYTES  dynamic shared memory per block
//   SUM_THREADS   threads per block of gemm_mixed_sum: 256

#include "epilogue.cuh"
#include "gemm.cuh"

constexpr int ROWS = 256, COLUMNS = 128;              // of a block's tile of the product
constexpr int DEPTH = ROW_BYTES / sizeof(ELEMENT);    // of a stage
constexpr int HALF_DEPTH = ROW_BYTES / sizeof(float); // a row of W in shared memory; each stage has two halves
constexpr int HALF_BYTES = COLUMNS * ROW_BYTES, W_BYTES = 2 * HALF_BYTES, X_BYTES = ROWS * ROW_BYTES;
constexpr int LOADED_COLUMNS = COLUMNS / CLUSTER;    // rows of W that each block loads
constexpr int STEPS = DEPTH / 16, WORDS = 4 * STEPS; // instructions per stage, and words of a thread's operand A
constexpr int SUMS = ROWS / 2;                       // per thread
constexpr int SHARERS = EPILOGUE == SWIGLU ? CONSUMERS : 1; // warpgroups that write rows of 64 results together
constexpr int RESULT_BYTES = ROWS * ROW_BYTES;              // of these warpgroups
constexpr int RESULT_BARRIER_BYTES = 8 * (1 + CONSUMERS);
typedef Ring<STAGES, W_BYTES, CLUSTER> RingW;
typedef Ring<STAGES, X_BYTES, 1> RingX;
constexpr int BARRIER_BYTES = RingW::BARRIER_BYTES + RingX::BARRIER_BYTES + RESULT_BARRIER_BYTES;
static_assert(SHARED_BYTES == SWIZZLE_ALIGNMENT + RingW::BYTES + RingX::BYTES + RESULT_BYTES + BARRIER_BYTES,
              "shared memory as the launch requests it");
static_assert(THREADS == (1 + CONSUMERS) * WARPGROUP, "a producer and two consumers");
static_assert(SUM_THREADS == CONSUMERS * WARPGROUP, "as many as have sums");

// The buffer of results. The warpgroups write to it alternately, the first one first.
struct Results {
    unsigned buffer, barriers; // addresses

    __device__ __forceinline__ unsigned written() const { return barriers; } // by one warpgroup
    __device__ __forceinline__ unsigned read(int group) const { return barriers + 8 * (1 + group); } // what the warpgroup wrote

    // Called by one thread, before clusterSync.
    __device__ __forceinline__ void init() const {
        barrierInit(written(), WARPGROUP / 32);
        for (int group = 0; group < CONSUMERS; group++) barrierInit(read(group), 1);
        barrierInitFence();
    }

    // Waits until a warpgroup may write the results of its next tile, after `tiles` others.
    __device__ __forceinline__ void awaitTurn(int group, int tiles) const {
        barrierWait(read(group ^ 1), (tiles + group + 1) & 1);
    }

    // All lanes of each warp call it after their writes.
    __device__ __forceinline__ void passOn(int lane) const {
        asyncFence();
        __syncwarp();
        if (lane == 0) barrierArrive(written());
    }
};

// The first row and column of a block's tile of the product.
struct Position {
    int row, column;

    __device__ __forceinline__ Position(int tile, int tileRows, int rank)
        : row((tile % tileRows * CLUSTER + rank) * ROWS), column(tile / tileRows * COLUMNS) {}
};

// What a cluster computes at a time: all stages of one of the first wholeTiles tiles, or a part of those of another tile.
struct Item {
    int tile, firstStage, endStage, part; // the parts of all tiles are numbered; part is negative for a whole tile

    __device__ __forceinline__ Item(int item, int wholeTiles, int parts, int stages)
        : tile(item), firstStage(0), endStage(stages), part(item - wholeTiles) {
        if (part >= 0) {
            tile = wholeTiles + part / parts;
            firstStage = part % parts * stages / parts;
            endStage = (part % parts + 1) * stages / parts;
        }
    }
};

// The sums of a part are stored as the threads have them: four sums of each thread of a block, then the next four.
constexpr int VECTORS = SUMS / 4; // per thread

__device__ __forceinline__ long firstVector(int part, int rank, int thread) {
    return (long)(part * CLUSTER + rank) * VECTORS * SUM_THREADS + thread;
}

// Two adjacent elements of W, rounded.
__device__ __forceinline__ unsigned loadPair(unsigned address) {
    float low, high;
    asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(low), "=f"(high) : "r"(address) : "memory");
    return Element<ELEMENT>::pair(low, high);
}

// Loads operand A of a stage: twice 8 rows of W per warp; for SWIGLU, 8 of W0 and the same 8 of W1. TMA has stored row 4·v + u of
// each eight rows as row 2·u + v. So the threads that access shared memory at the same time read different banks.
__device__ __forceinline__ void loadWeights(unsigned (&a)[WORDS], unsigned w, int warpOfConsumers, int lane) {
    constexpr int SECOND = EPILOGUE == SWIGLU ? LOADED_COLUMNS : 8; // the distance of the second eight rows
    int row = warpOfConsumers * (EPILOGUE == SWIGLU ? 8 : 16) + lane / 4 % 4 * 2 + lane / 16;
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        unsigned half = w + step / 2 * HALF_BYTES;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            int byte = (step % 2 * 16 + i / 2 * 8 + lane % 4 * 2) * (int)sizeof(float);
            a[4 * step + i] = loadPair(half + swizzled(row + i % 2 * SECOND, byte));
        }
    }
}

// Accumulates W · Xᵀ over stages. The tensor cores multiply one stage while the warps load W of the next one. Its buffer is free
// when its multiplications have been issued, because they wait for the loads. A barrier's arrival does not wait for them.
__device__ __forceinline__ void multiply(float (&sums)[SUMS], const RingW &ringW, const RingX &ringX, PipelineState<STAGES> &next,
                                         int stages, int warp, int lane) {
    unsigned even[WORDS], odd[WORDS];
    int previous = -1; // the stage before
    auto load = [&](unsigned(&a)[WORDS]) {
        ringW.awaitLoaded(next);
        loadWeights(a, ringW.buffer(next.stage), warp, lane);
    };
    auto multiplyStage = [&](const unsigned(&a)[WORDS]) {
        unsigned long long b = operand(ringX.buffer(next.stage));
        ringX.awaitLoaded(next);
        wgmmaFence();
#pragma unroll
        for (int step = 0; step < STEPS; step++) wgmma<ELEMENT, ALONG_SUM>(sums, a + 4 * step, further(b, 32 * step), true);
        wgmmaCommit();
        ringW.release(next.stage, lane);
        wgmmaWait<1>();
        if (previous >= 0) ringX.release(previous, lane);
        previous = next.stage;
        next.advance();
    };
    load(even);
    for (int i = 0; i < stages; i += 2) {
        multiplyStage(even);
        if (i + 1 == stages) break;
        load(odd);
        multiplyStage(odd);
        if (i + 2 < stages) load(even);
    }
    wgmmaWait<0>();
    pin(sums);
    ringX.release(previous, lane);
}

// Writes the results of a warp's sums to shared memory as 2 · N rows of Y: 16 columns, or 8 for SWIGLU.
template <int N> __device__ __forceinline__ void writeResults(float (&sums)[N], unsigned results, int warp, int lane) {
    if constexpr (EPILOGUE == GELU) replaceByGelu(sums);
    constexpr int STEP = EPILOGUE == SWIGLU ? 16 : 8; // sums for four matrices of 8 × 8 results
#pragma unroll
    for (int i = 0; i < N; i += STEP) {
        unsigned words[4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float *s = sums + i + j * STEP / 4;
            words[j] = EPILOGUE == SWIGLU ? Element<ELEMENT>::pair(silu(s[0]) * s[2], silu(s[1]) * s[3])
                                          : Element<ELEMENT>::pair(s[0], s[1]);
        }
        int row = 2 * i + (EPILOGUE == SWIGLU ? lane : lane / 16 * 8 + lane % 8);
        int chunk = EPILOGUE == SWIGLU ? warp : warp * 2 + lane / 8 % 2;
        storeMatricesTransposed(results + swizzled(row, 16 * chunk), words);
    }
}

// columns is the number of rows of all matrices of W, rowsOfW that of each; if there is more than one, except for SWIGLU, a
// multiple of COLUMNS. Y has rowsOfW columns for SWIGLU, else `columns`.
extern "C" __global__ void __cluster_dims__(CLUSTER) __launch_bounds__(THREADS, 1)
gemm_mixed(const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap w0, const __grid_constant__ TensorMap w1,
           const __grid_constant__ TensorMap w2, const __grid_constant__ TensorMap y, float4 *partial, int rows, int columns,
           int rowsOfW, int depth, int wholeTiles, int parts) {
    extern __shared__ char dynamicShared[];
    unsigned buffersOfW = firstBuffer(dynamicShared), buffersOfX = buffersOfW + RingW::BYTES;
    unsigned bufferOfResults = buffersOfX + RingX::BYTES, barriers = bufferOfResults + RESULT_BYTES;
    RingW ringW{buffersOfW, barriers};
    RingX ringX{buffersOfX, barriers + RingW::BARRIER_BYTES};
    Results results{bufferOfResults, barriers + RingW::BARRIER_BYTES + RingX::BARRIER_BYTES};
    auto [rank, cluster, clusters, tileRows, tileColumns, tiles, stages] =
        BlockWork<ROWS, COLUMNS, DEPTH>(rows, columns, depth);
    int items = wholeTiles + (tiles - wholeTiles) * parts;
    if (threadIdx.x == 0) {
        ringW.init();
        ringX.init();
        results.init();
    }
    clusterSync();

    PipelineState<STAGES> next;
    if (threadIdx.x < WARPGROUP) {
        registersDown<40>();
        if (threadIdx.x == 0) { // loads operands
            for (int i = cluster; i < items; i += clusters) {
                Item item(i, wholeTiles, parts, stages);
                Position at(item.tile, tileRows, rank);
                int matrix = EPILOGUE == SWIGLU ? rank : at.column / rowsOfW;
                const TensorMap &w = matrix == 0 ? w0 : matrix == 1 ? w1 : w2;
                int rowOfW = EPILOGUE == SWIGLU ? at.column / 2 : at.column - matrix * rowsOfW + rank * LOADED_COLUMNS;
                for (int stage = item.firstStage; stage < item.endStage; stage++) {
                    ringW.expect(next);
                    unsigned mine = ringW.buffer(next.stage) + rank * LOADED_COLUMNS * ROW_BYTES;
#pragma unroll
                    for (int half = 0; half < 2; half++) {
                        tmaMulticast(mine + half * HALF_BYTES, w, ringW.full(next.stage), ALL_BLOCKS,
                                     stage * DEPTH + half * HALF_DEPTH, 0, 0, rowOfW / 8);
                    }
                    ringX.expect(next);
                    tmaLoad(ringX.buffer(next.stage), x, ringX.full(next.stage), stage * DEPTH, at.row, 0, 0);
                    next.advance();
                }
            }
        } else if (threadIdx.x == 32) { // stores results
            for (int tile = cluster; tile < wholeTiles; tile += clusters) {
                Position at(tile, tileRows, rank);
                for (int group = 0; group < CONSUMERS; group++) {
                    barrierWait(results.written(), group);
                    if (SHARERS == 1 || group == CONSUMERS - 1) {
                        int column = at.column / SHARERS + group / SHARERS * (COLUMNS / CONSUMERS);
                        if (at.row < rows && column < columns / SHARERS) tmaStore(y, results.buffer, column, at.row, 0, 0);
                        bulkCommit();
                        bulkWaitRead<0>();
                    }
                    barrierArrive(results.read(group));
                }
            }
            bulkWait<0>();
        }
    } else {
        registersUp<232>();
        int thread = threadIdx.x - WARPGROUP, group = thread / WARPGROUP, warp = thread / 32, lane = thread % 32;
        for (int i = cluster; i < items; i += clusters) {
            Item item(i, wholeTiles, parts, stages);
            float sums[SUMS] = {};
            multiply(sums, ringW, ringX, next, item.endStage - item.firstStage, warp, lane);
            if (item.part >= 0) {
                float4 *to = partial + firstVector(item.part, rank, thread);
#pragma unroll
                for (int j = 0; j < VECTORS; j++) to[j * SUM_THREADS] = ((float4 *)sums)[j];
            } else {
                results.awaitTurn(group, i / clusters);
                writeResults(sums, results.buffer, warp % (4 * SHARERS), lane);
                results.passOn(lane);
            }
        }
    }
    clusterSync(); // until then the other block may arrive at this block's barriers and multicast to it
}

// Adds the parts of tiles. One block computes 32 rows of Y; its threads have the same columns as in gemm_mixed.
extern "C" __global__ void __launch_bounds__(SUM_THREADS)
gemm_mixed_sum(const float4 *partial, ELEMENT *y, int rows, int columns, int wholeTiles, int parts) {
    constexpr int BLOCK_ROWS = 32, N = BLOCK_ROWS / 2, BLOCKS = ROWS / BLOCK_ROWS; // BLOCKS per block of gemm_mixed
    __shared__ __align__(16) char results[CONSUMERS / SHARERS][BLOCK_ROWS * ROW_BYTES];
    int thread = threadIdx.x, warp = thread / 32, lane = thread % 32;
    int block = blockIdx.x % BLOCKS, rank = blockIdx.x / BLOCKS % CLUSTER, tile = blockIdx.x / BLOCKS / CLUSTER;

    float sums[N] = {};
#pragma unroll 4
    for (int part = 0; part < parts; part++) {
        const float4 *from = partial + firstVector(tile * parts + part, rank, thread) + block * N / 4 * SUM_THREADS;
#pragma unroll
        for (int i = 0; i < N / 4; i++) {
            float4 v = from[i * SUM_THREADS];
            sums[4 * i] += v.x, sums[4 * i + 1] += v.y, sums[4 * i + 2] += v.z, sums[4 * i + 3] += v.w;
        }
    }
    writeResults(sums, sharedAddress(results[warp / (4 * SHARERS)]), warp % (4 * SHARERS), lane);
    __syncthreads();

    Position at(wholeTiles + tile, countTileRows<ROWS>(rows), rank);
    int rowOfBlock = thread / 8, chunk = thread % 8, row = at.row + block * BLOCK_ROWS + rowOfBlock;
#pragma unroll
    for (int i = 0; i < CONSUMERS / SHARERS; i++) {
        int column = at.column / SHARERS + i * (COLUMNS / CONSUMERS) + chunk * 8;
        if (row < rows && column < columns / SHARERS) {
            *(uint4 *)(y + (long)row * (columns / SHARERS) + column) = *(uint4 *)(results[i] + swizzled(rowOfBlock, 16 * chunk));
        }
    }
}
