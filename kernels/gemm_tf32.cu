// C = A · Bᵀ in TF32 on Hopper's tensor cores (sm_90a, wgmma). The rows of A and B are contiguous, as in the forward pass of a
// linear layer: A holds activations, B is the weight. TMA rounds their elements to TF32. B may be up to three matrices of equal
// size, one below the other, in separate memory. Or C = gelu(A · Bᵀ), or SwiGLU, C = silu(A · B0ᵀ) ∘ (A · B1ᵀ): half of a tile's
// columns belong to B0, the other half to B1.
//
// A cluster of two blocks computes tiles of 256 × COLUMNS elements of C, each block 128 rows. The blocks have different rows of
// A and the same rows of B. Each block loads half of the rows of B, and TMA multicasts them to both, because L2 cannot deliver
// both operands to each multiprocessor at the rate of the tensor cores.
//
// A stage is a depth of 32, 128 bytes of each row of A and B. Two warpgroups multiply, with 64 × COLUMNS elements of C each.
//
// Macros set at compile time:
//   EPILOGUE      NONE, GELU or SWIGLU
//   COLUMNS       columns of a tile, a multiple of 16 for which wgmma.cuh has an instruction
//   STAGES        stages in shared memory
//   THREADS       threads per block: 384
//   SHARED_BYTES  dynamic shared memory per block

#include "epilogue.cuh"
#include "gemm.cuh"

constexpr int ROWS = 128; // of a block's tile
constexpr int DEPTH = ROW_BYTES / sizeof(float);
constexpr int A_BYTES = ROWS * ROW_BYTES, STAGE_BYTES = A_BYTES + COLUMNS * ROW_BYTES;
constexpr int LOADED_COLUMNS = COLUMNS / CLUSTER; // of B, by each block
constexpr int SUMS = COLUMNS / 2;                 // per thread
typedef Ring<STAGES, STAGE_BYTES, CLUSTER> Stages; // A, then B
typedef TilePosition<ROWS, COLUMNS> Position;
static_assert(SHARED_BYTES == SWIZZLE_ALIGNMENT + Stages::BYTES + Stages::BARRIER_BYTES,
              "shared memory as the launch requests it");
static_assert(THREADS == (1 + CONSUMERS) * WARPGROUP, "a producer and two consumers");
static_assert(COLUMNS % 16 == 0, "each block loads whole groups of 8 rows of B");

// Accumulates A · Bᵀ over the stages of a tile.
__device__ __forceinline__ void multiply(float (&sums)[SUMS], const Stages &ring, PipelineState<STAGES> &next, int stages,
                                         int consumer, int lane) {
    int previous = 0; // the stage before
    for (int i = 0; i < stages; i++) {
        ring.awaitLoaded(next);
        unsigned long long a = operand(ring.buffer(next.stage) + consumer * (A_BYTES / CONSUMERS));
        unsigned long long b = operand(ring.buffer(next.stage) + A_BYTES);
        wgmmaFence();
#pragma unroll
        for (int k = 0; k < ROW_BYTES; k += 32) {
            wgmma<float, ALONG_SUM, ALONG_SUM>(sums, further(a, k), further(b, k), true);
        }
        wgmmaCommit();
        wgmmaWait<1>();
        if (i > 0) ring.release(previous, lane);
        previous = next.stage;
        next.advance();
    }
    wgmmaWait<0>();
    pin(sums);
    ring.release(previous, lane);
}

// Stores the first N of a thread's sums; row and column are those of the first one.
template <int N>
__device__ __forceinline__ void store(const float (&sums)[SUMS], float *c, int row, int column, int rows, int columns) {
#pragma unroll
    for (int i = 0; i < N; i += 2) {
        int r = row + i / 2 % 2 * 8, k = column + i / 4 * 8;
        if (r < rows && k < columns) *(float2 *)(c + (long)r * columns + k) = make_float2(sums[i], sums[i + 1]);
    }
}

// columns is the number of rows of all matrices of B, columnsOfB that of each; if there is more than one, except for SWIGLU, a
// multiple of COLUMNS. C has contiguous rows of an even number of columns: columnsOfB for SWIGLU, else columns.
extern "C" __global__ void __cluster_dims__(CLUSTER) __launch_bounds__(THREADS, 1)
gemm_tf32(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b0, const __grid_constant__ TensorMap b1,
          const __grid_constant__ TensorMap b2, float *c, int rows, int columns, int columnsOfB, int depth) {
    extern __shared__ char dynamicShared[];
    unsigned buffers = firstBuffer(dynamicShared);
    Stages ring{buffers, buffers + Stages::BYTES};
    auto [rank, cluster, clusters, tileRows, tileColumns, tiles, stages] =
        BlockWork<ROWS, COLUMNS, DEPTH>(rows, columns, depth);
    if (threadIdx.x == 0) ring.init();
    clusterSync();

    PipelineState<STAGES> next;
    if (threadIdx.x < WARPGROUP) {
        registersDown<72>();
        if (threadIdx.x == 0) {
            for (int tile = cluster; tile < tiles; tile += clusters) {
                Position at(tile, tileRows, tileColumns, rank);
                int matrix = EPILOGUE == SWIGLU ? rank : at.column / columnsOfB;
                const TensorMap &b = matrix == 0 ? b0 : matrix == 1 ? b1 : b2;
                int rowOfB = EPILOGUE == SWIGLU ? at.column / 2 : at.column - matrix * columnsOfB + rank * LOADED_COLUMNS;
                for (int i = 0; i < stages; i++) {
                    ring.expect(next);
                    unsigned buffer = ring.buffer(next.stage), full = ring.full(next.stage);
                    tmaLoad(buffer, a, full, i * DEPTH, at.row, 0, 0);
                    tmaMulticast(buffer + A_BYTES + rank * LOADED_COLUMNS * ROW_BYTES, b, full, ALL_BLOCKS, i * DEPTH, rowOfB, 0,
                                 0);
                    next.advance();
                }
            }
        }
    } else {
        registersUp<216>();
        int thread = threadIdx.x - WARPGROUP, lane = thread % 32;
        for (int tile = cluster; tile < tiles; tile += clusters) {
            float sums[SUMS] = {};
            multiply(sums, ring, next, stages, thread / WARPGROUP, lane);
            Position at(tile, tileRows, tileColumns, rank);
            int row = at.row + thread / 32 * 16 + lane / 4, columnOfPair = lane % 4 * 2;
            if constexpr (EPILOGUE == SWIGLU) {
#pragma unroll
                for (int i = 0; i < SUMS / 2; i++) sums[i] = silu(sums[i]) * sums[i + SUMS / 2];
                store<SUMS / 2>(sums, c, row, at.column / 2 + columnOfPair, rows, columnsOfB);
            } else {
                if constexpr (EPILOGUE == GELU) replaceByGelu(sums);
                store<SUMS>(sums, c, row, at.column + columnOfPair, rows, columns);
            }
        }
    }
    clusterSync(); // until then the other block may arrive at this block's barriers and multicast to it
}
