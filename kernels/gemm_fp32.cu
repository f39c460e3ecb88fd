// D = P · Qᵀ for fp32 operands on Hopper's tensor cores (sm_90a, wgmma): with one TF32 multiplication, or with three, which are
// as accurate as fp32.
//
// wgmma reads TF32 operands from shared memory only if they are contiguous along the sum (K-major). Q is such an operand. wgmma
// reads P from registers, so P may have either layout: warps load it from shared memory.
//
// With one multiplication, TMA rounds the elements to TF32. With three, each element is hi + lo: hi is the element rounded to
// TF32, and tensor cores truncate the remainder lo to TF32. The kernel adds lo·hi + hi·lo + hi·hi; lo·lo is negligible. Both
// parts of Q are in memory (operand_copy.cu); those of P are computed in registers. Tensor cores truncate sums where fp32 would
// round. So each stage accumulates from zero, and its result is added in fp32.
//
// A cluster of two blocks computes tiles of 256 × COLUMNS elements of D, each block 128 rows. The blocks have different rows of
// P and the same rows of Q. Each block loads half of the rows of Q, and TMA multicasts them to both. A stage is a depth of 32.
// Two warpgroups multiply, with 64 × COLUMNS elements of D each.
//
// Macros set at compile time:
//   P_ALONG       1 if the rows of P are contiguous, 0 if its columns are
//   PRODUCTS      1 or 3 TF32 multiplications
//   COLUMNS       columns of a tile, a multiple of 16 for which wgmma.cuh has an instruction
//   STAGES        stages in shared memory
//   THREADS       threads per block: 384
//   SHARED_BYTES  dynamic shared memory per block

#include "gemm.cuh"

constexpr int ROWS = 128; // of a block's tile
constexpr int DEPTH = ROW_BYTES / sizeof(float);
constexpr int P_BYTES = ROWS * ROW_BYTES, Q_BYTES = COLUMNS * ROW_BYTES, PARTS = PRODUCTS == 3 ? 2 : 1; // of Q
constexpr int STAGE_BYTES = P_BYTES + PARTS * Q_BYTES;
constexpr int BOX_BYTES = DEPTH * ROW_BYTES;      // of 32 columns of P, if they are contiguous
constexpr int LOADED_COLUMNS = COLUMNS / CLUSTER; // rows of Q that each block loads
constexpr int SUMS = COLUMNS / 2;                 // per thread
constexpr int STEPS = DEPTH / 8;                  // instructions per stage and multiplication
constexpr int WORDS = 4 * STEPS;                  // of P per thread and stage
typedef Ring<STAGES, STAGE_BYTES, CLUSTER> Stages; // P, then the parts of Q: hi, lo
typedef TilePosition<ROWS, COLUMNS> Position;
static_assert(SHARED_BYTES == SWIZZLE_ALIGNMENT + Stages::BYTES + Stages::BARRIER_BYTES,
              "shared memory as the launch requests it");
static_assert(THREADS == (1 + CONSUMERS) * WARPGROUP, "a producer and two consumers");
static_assert(PRODUCTS == 1 || PRODUCTS == 3, "one or three TF32 multiplications");
static_assert(COLUMNS % 16 == 0, "each block loads whole groups of 8 rows of Q");

__device__ __forceinline__ unsigned loadWord(unsigned address) {
    unsigned word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address) : "memory");
    return word;
}

// Loads a warp's 16 rows of P of a stage. If the columns of P are contiguous, TMA has stored depth 4·v + u of each eight as row
// 2·u + v. So the threads that access shared memory at the same time read different banks.
__device__ __forceinline__ void loadP(unsigned (&words)[WORDS], unsigned p, int warp, int lane) {
    int row = warp * 16 + lane / 4, t = lane % 4;
#pragma unroll
    for (int i = 0; i < WORDS; i++) {
        int down = i % 2 * 8, half = i / 2 % 2, step = i / 4; // the row is row + down, the depth 8·step + 4·half + t
        words[i] = loadWord(p + (P_ALONG ? swizzled(row + down, (step * 8 + half * 4 + t) * 4)
                                         : row / 32 * BOX_BYTES + swizzled(step * 8 + 2 * t + half, (row % 32 + down) * 4)));
    }
}

// Issues the instructions of one multiplication, for a stage.
__device__ __forceinline__ void issue(float (&sums)[SUMS], const unsigned (&p)[WORDS], unsigned long long q, bool accumulate) {
#pragma unroll
    for (int step = 0; step < STEPS; step++) {
        wgmma<float, ALONG_SUM>(sums, p + 4 * step, further(q, 32 * step), accumulate || step > 0);
    }
}

// Accumulates P · Qᵀ over the stages of a tile. The tensor cores multiply one stage while the warps load P of the next one. With
// the load at the start of each stage's code instead, the compiler serialises the instructions (C7513).
__device__ __forceinline__ void multiplyOnce(float (&sums)[SUMS], const Stages &ring, PipelineState<STAGES> &next, int stages,
                                             int warp, int lane) {
    unsigned even[WORDS], odd[WORDS];
    int previous = -1; // the stage before
    auto load = [&](unsigned(&p)[WORDS]) {
        ring.awaitLoaded(next);
        loadP(p, ring.buffer(next.stage), warp, lane);
    };
    auto multiply = [&](const unsigned(&p)[WORDS]) {
        wgmmaFence();
        issue(sums, p, operand(ring.buffer(next.stage) + P_BYTES), true);
        wgmmaCommit();
        wgmmaWait<1>();
        if (previous >= 0) ring.release(previous, lane);
        previous = next.stage;
        next.advance();
    };
    load(even);
    for (int i = 0; i < stages; i += 2) {
        multiply(even);
        if (i + 1 == stages) break;
        load(odd);
        multiply(odd);
        if (i + 2 < stages) load(even);
    }
    wgmmaWait<0>();
    pin(sums);
    ring.release(previous, lane);
}

// Accumulates the three multiplications over the stages of a tile.
__device__ __forceinline__ void multiplyThrice(float (&sums)[SUMS], const Stages &ring, PipelineState<STAGES> &next, int stages,
                                               int warp, int lane) {
    for (int i = 0; i < stages; i++) {
        ring.awaitLoaded(next);
        unsigned high[WORDS], low[WORDS];
        loadP(low, ring.buffer(next.stage), warp, lane);
#pragma unroll
        for (int j = 0; j < WORDS; j++) {
            float x = __uint_as_float(low[j]);
            high[j] = roundToTf32(x);
            low[j] = __float_as_uint(x - __uint_as_float(high[j]));
        }
        float ofStage[SUMS];
        unsigned long long highOfQ = operand(ring.buffer(next.stage) + P_BYTES), lowOfQ = further(highOfQ, Q_BYTES);
        pin(high);
        pin(low);
        pin(ofStage);
        wgmmaFence();
        issue(ofStage, low, highOfQ, false);
        issue(ofStage, high, lowOfQ, true);
        issue(ofStage, high, highOfQ, true);
        wgmmaCommit();
        wgmmaWait<0>();
        pin(high);
        pin(low);
        pin(ofStage);
        ring.release(next.stage, lane);
        next.advance();
#pragma unroll
        for (int j = 0; j < SUMS; j++) sums[j] += ofStage[j];
    }
}

// Stores a thread's sums in D or, if transposed, in Dᵀ; row and column are those of the first one.
__device__ __forceinline__ void store(const float (&sums)[SUMS], float *d, int row, int column, int rows, int columns,
                                      bool transposed) {
#pragma unroll
    for (int i = 0; i < SUMS; i += 2) {
        int r = row + i / 2 % 2 * 8, k = column + i / 4 * 8;
        if (r < rows && k < columns) {
            if (!transposed) {
                *(float2 *)(d + (long)r * columns + k) = make_float2(sums[i], sums[i + 1]);
            } else {
                d[(long)k * rows + r] = sums[i];
                if (k + 1 < columns) d[(long)(k + 1) * rows + r] = sums[i + 1];
            }
        }
    }
}

// d is D or, if transposed, Dᵀ, with contiguous rows; D has an even number of columns. lowOfQ is not read if PRODUCTS is 1.
extern "C" __global__ void __cluster_dims__(CLUSTER) __launch_bounds__(THREADS, 1)
gemm_fp32(const __grid_constant__ TensorMap p, const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap lowOfQ,
          float *d, int rows, int columns, int depth, int transposed) {
    extern __shared__ char dynamicShared[];
    unsigned buffers = firstBuffer(dynamicShared);
    Stages ring{buffers, buffers + Stages::BYTES};
    auto [rank, cluster, clusters, tileRows, tileColumns, tiles, stages] =
        BlockWork<ROWS, COLUMNS, DEPTH>(rows, columns, depth);
    if (threadIdx.x == 0) ring.init();
    clusterSync();

    PipelineState<STAGES> next;
    if (threadIdx.x < WARPGROUP) {
        registersDown<40>();
        if (threadIdx.x == 0) {
            for (int tile = cluster; tile < tiles; tile += clusters) {
                Position at(tile, tileRows, tileColumns, rank);
                int rowOfQ = at.column + rank * LOADED_COLUMNS;
                for (int i = 0; i < stages; i++) {
                    ring.expect(next);
                    unsigned buffer = ring.buffer(next.stage), full = ring.full(next.stage);
                    if constexpr (P_ALONG) {
                        tmaLoad(buffer, p, full, i * DEPTH, at.row, 0, 0);
                    } else {
#pragma unroll
                        for (int box = 0; box < P_BYTES / BOX_BYTES; box++) {
                            tmaLoad(buffer + box * BOX_BYTES, p, full, at.row + box * DEPTH, 0, 0, i * (DEPTH / 8));
                        }
                    }
                    unsigned mine = buffer + P_BYTES + rank * LOADED_COLUMNS * ROW_BYTES;
                    tmaMulticast(mine, q, full, ALL_BLOCKS, i * DEPTH, rowOfQ, 0, 0);
                    if constexpr (PARTS == 2) {
                        tmaMulticast(mine + Q_BYTES, lowOfQ, full, ALL_BLOCKS, i * DEPTH, rowOfQ, 0, 0);
                    }
                    next.advance();
                }
            }
        }
    } else {
        registersUp<232>();
        int thread = threadIdx.x - WARPGROUP, lane = thread % 32, warp = thread / 32;
        for (int tile = cluster; tile < tiles; tile += clusters) {
            float sums[SUMS] = {};
            if constexpr (PRODUCTS == 1) {
                multiplyOnce(sums, ring, next, stages, warp, lane);
            } else {
                multiplyThrice(sums, ring, next, stages, warp, lane);
            }
            Position at(tile, tileRows, tileColumns, rank);
            store(sums, d, at.row + warp * 16 + lane / 4, at.column + lane % 4 * 2, rows, columns, transposed);
        }
    }
    clusterSync(); // until then the other block may arrive at this block's barriers and multicast to it
}
