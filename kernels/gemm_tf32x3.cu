// C = A · B in fp32 on tensor cores with mma.sync (sm_80 and later). Each operand is split into a sum of two TF32
// numbers of 11 significant bits, and hi·hi + hi·lo + lo·hi is as accurate as a sum of fp32 products. Operands below
// 1e-34 lose accuracy, because lo is subnormal; those above 3.4e38 and infinite ones give NaN.
//
// Tiles: a block computes TILE × TILE elements of C, and each of its 8 warps 64 × 32 of them, with 4 × 4 instructions
// of 16 rows, 8 columns and a depth of 8. Stages of DEPTH columns of A and rows of B are copied to shared memory with
// cp.async, STAGES − 1 ahead.
//
// Stream-K: the stages of all tiles are numbered consecutively and divided evenly among as many blocks as
// multiprocessors, so that no multiprocessor waits for the last tiles. The block that computes the first stage of a tile
// stores the tile. Other blocks write their partial sums of it to the workspace and set their flag. The first block
// waits for each flag, resets it, and adds the sums in a fixed order, so results are reproducible. Ranges of stages are
// assigned in reverse order of the block index. A block therefore waits only for blocks of lower index, which the GPU
// starts first.
//
// Tensor cores truncate sums where fp32 would round. So each stage accumulates from zero, and its result is added in
// fp32.
//
// The order of rows, columns and depth within a tile is free, if A, B and C agree. For thread (g, t) = (lane / 4,
// lane % 4), row 4·g + j is row g (j even) or g + 8 (j odd) of instruction j / 2, column 4·g + j is column g of
// instruction j, and depth 4·t + i is depth t (i even) or t + 4 (i odd) of instruction i / 2. Then a thread loads and
// stores 16 bytes at a time.
//
// Macros set at compile time:
//   A_BY_ROWS      1 if A is stored row by row, 0 if column by column
//   B_BY_ROWS      1 if B is stored row by row, 0 if column by column
//   TILE           rows and columns of a tile: 128
//   DEPTH          depth of a stage: 32
//   STAGES         stages in shared memory
//   THREADS        threads per block: 256
//   SHARED_BYTES   dynamic shared memory per block

#include "tensor_cores.cuh"

constexpr int WARP_ROWS = 64, WARP_COLUMNS = 32;
constexpr int ALONG_STRIDE = DEPTH + 4;  // elements between lines along the depth, padded to avoid bank conflicts
constexpr int ACROSS_STRIDE = TILE + 8;  // elements between lines across the depth, likewise
constexpr bool A_ALONG = A_BY_ROWS, B_ALONG = !B_BY_ROWS;
constexpr int A_ELEMENTS = A_ALONG ? TILE * ALONG_STRIDE : DEPTH * ACROSS_STRIDE;
constexpr int B_ELEMENTS = B_ALONG ? TILE * ALONG_STRIDE : DEPTH * ACROSS_STRIDE;
static_assert(SHARED_BYTES == STAGES * (A_ELEMENTS + B_ELEMENTS) * 4, "shared memory as the launch requests it");
static_assert(TILE == 128 && DEPTH == 32 && THREADS == TILE * TILE / (WARP_ROWS * WARP_COLUMNS) * 32, "8 warps");

// An operand in memory consists of lines of contiguous elements. Lines along the depth are rows of A or columns of B;
// lines across the depth are columns of A or rows of B.
struct Operand {
    const float *first;
    int stride; // elements between lines
    int extent; // rows of A or columns of B
};

// Starts copying a stage to shared memory; elements outside of the matrix become zero.
template <bool ALONG>
__device__ __forceinline__ void copyStage(float *to, const Operand &from, int firstOfTile, int firstDepth, int depth) {
    constexpr int PER_LINE = (ALONG ? DEPTH : TILE) / 4; // copies of 16 bytes
    constexpr int LINES = ALONG ? TILE : DEPTH;
#pragma unroll
    for (int i = 0; i < LINES * PER_LINE / THREADS; i++) {
        int index = i * THREADS + threadIdx.x;
        int line = index / PER_LINE, place = index % PER_LINE * 4;
        int rowOrColumn = firstOfTile + (ALONG ? line : place);
        int k = firstDepth + (ALONG ? place : line);
        bool there = rowOrColumn < from.extent && k < depth;
        long offset = ALONG ? (long)rowOrColumn * from.stride + k : (long)k * from.stride + rowOrColumn;
        // Depth 4·t + i is stored as line 4·i + t, so that the four t read different banks.
        int target = ALONG ? line * ALONG_STRIDE + place
                           : ((line & ~15) + (line & 3) * 4 + (line / 4 & 3)) * ACROSS_STRIDE + place;
        copy16(sharedAddress(to + target), from.first + (there ? offset : 0), there);
    }
}

// The elements at depth t and t + 4 of an instruction, of one row or column, each as two TF32 numbers.
struct Pair { unsigned high[2], low[2]; };

__device__ __forceinline__ void split(Pair &pair, int i, float x) {
    pair.high[i] = roundToTf32(x);
    pair.low[i] = __float_as_uint(x - __uint_as_float(pair.high[i]));
}

// Loads rows or columns 4·g to 4·g + 3 after the first, 16 deep: pairs[j][i] is row or column 4·g + j at the depth of
// instruction i.
template <bool ALONG>
__device__ __forceinline__ void loadPairs(Pair (&pairs)[4][2], const float *stage, int first, int firstDepth, int g, int t) {
    float4 line[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        int at = ALONG ? (first + 4 * g + i) * ALONG_STRIDE + firstDepth + 4 * t
                       : (firstDepth + 4 * i + t) * ACROSS_STRIDE + first + 4 * g;
        line[i] = *(const float4 *)(stage + at);
    }
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float element[4] = {line[i].x, line[i].y, line[i].z, line[i].w};
#pragma unroll
        for (int j = 0; j < 4; j++) {
            if constexpr (ALONG) {
                split(pairs[i][j / 2], j % 2, element[j]);
            } else {
                split(pairs[j][i / 2], i % 2, element[j]);
            }
        }
    }
}

// c += a · b, where a has rows g (upper) and g + 8 (lower) of the instruction.
__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&upper)[2], const unsigned (&lower)[2],
                                         const unsigned (&b)[2]) {
    Mma<float>::add(c, {upper[0], lower[0], upper[1], lower[1]}, b);
}

// A warp's part of a tile: the accumulators of 4 × 4 instructions.
using Sums = float[4][4][4];

// Adds the products of one stage.
__device__ __forceinline__ void addStage(Sums &sums, const float *a, const float *b, int g, int t) {
    Sums ofStage = {};
#pragma unroll
    for (int depth = 0; depth < DEPTH; depth += 16) {
        Pair right[4][2];
        loadPairs<B_ALONG>(right, b, 0, depth, g, t);
#pragma unroll
        for (int half = 0; half < 2; half++) { // of the rows
            Pair left[4][2];
            loadPairs<A_ALONG>(left, a, WARP_ROWS / 2 * half, depth, g, t);
#pragma unroll
            for (int i = 0; i < 2; i++)
#pragma unroll
                for (int product = 2; product >= 0; product--) // lo·hi, hi·lo, hi·hi
#pragma unroll
                    for (int m = 0; m < 2; m++)
#pragma unroll
                        for (int n = 0; n < 4; n++) {
                            const Pair &upper = left[2 * m][i], &lower = left[2 * m + 1][i];
                            multiply(ofStage[2 * half + m][n], product == 2 ? upper.low : upper.high,
                                     product == 2 ? lower.low : lower.high,
                                     product == 1 ? right[n][i].low : right[n][i].high);
                        }
        }
    }
#pragma unroll
    for (int m = 0; m < 4; m++)
#pragma unroll
        for (int n = 0; n < 4; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) sums[m][n][i] += ofStage[m][n][i];
}

// Calls visit(row, column, x) for each group of four adjacent sums x of this thread, at its place in the warp's part.
template <typename Visit>
__device__ __forceinline__ void forEachFour(Sums &sums, int g, int t, Visit visit) {
#pragma unroll
    for (int j = 0; j < 8; j++)
#pragma unroll
        for (int right = 0; right < 2; right++) {
            float *x[4];
#pragma unroll
            for (int n = 0; n < 4; n++) x[n] = &sums[j / 2][n][j % 2 * 2 + right];
            visit(j / 4 * (WARP_ROWS / 2) + 4 * g + j % 4, 8 * t + 4 * right, x);
        }
}

// Returns the first stage of a range.
__device__ __forceinline__ int firstStage(int allStages, int range) { return (long)allStages * range / gridDim.x; }

// C has contiguous rows. Strides, the depth if a line is along it, and the extents of lines across it are multiples of 4.
// flags has one number per block, zero before and after the kernel; partial has one tile per block.
extern "C" __global__ void __launch_bounds__(THREADS, 1)
gemm_tf32x3(const float *aFirst, const float *bFirst, float *c, int *flags, float *partial, int rows, int columns,
            int depth, int aStride, int bStride) {
    extern __shared__ __align__(16) float shared[];
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, t = lane % 4;
    int warpRow = warp % 2 * WARP_ROWS, warpColumn = warp / 2 * WARP_COLUMNS;
    Operand a{aFirst, aStride, rows}, b{bFirst, bStride, columns};

    int stagesPerTile = (depth + DEPTH - 1) / DEPTH;
    int tileRows = (rows + TILE - 1) / TILE;
    int allStages = stagesPerTile * tileRows * ((columns + TILE - 1) / TILE);
    int range = gridDim.x - 1 - blockIdx.x;
    int next = firstStage(allStages, range), end = firstStage(allStages, range + 1);

    int copied = next, copiedTile = next / stagesPerTile, copiedStage = next % stagesPerTile;
    auto copyNext = [&] {
        if (copied < end) {
            float *to = shared + copied % STAGES * (A_ELEMENTS + B_ELEMENTS);
            copyStage<A_ALONG>(to, a, copiedTile % tileRows * TILE, copiedStage * DEPTH, depth);
            copyStage<B_ALONG>(to + A_ELEMENTS, b, copiedTile / tileRows * TILE, copiedStage * DEPTH, depth);
        }
        copied++;
        if (++copiedStage == stagesPerTile) {
            copiedStage = 0;
            copiedTile++;
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int i = 0; i < STAGES - 1; i++) copyNext();

    while (next < end) {
        int tile = next / stagesPerTile;
        int firstOfTile = tile * stagesPerTile, endOfTile = firstOfTile + stagesPerTile;
        bool storesTile = next == firstOfTile;
        Sums sums = {};
        for (; next < min(end, endOfTile); next++) {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
            __syncthreads(); // the stage has arrived, and no warp reads the stage before it any more
            copyNext();
            const float *stage = shared + next % STAGES * (A_ELEMENTS + B_ELEMENTS);
            addStage(sums, stage + warpRow * (A_ALONG ? ALONG_STRIDE : 1),
                     stage + A_ELEMENTS + warpColumn * (B_ALONG ? ALONG_STRIDE : 1), g, t);
        }
        if (!storesTile) {
            float *mine = partial + (long)blockIdx.x * TILE * TILE;
            forEachFour(sums, g, t, [&](int row, int column, float *(&x)[4]) {
                float *to = mine + (warpRow + row) * TILE + warpColumn + column;
                __stcg((float4 *)to, make_float4(*x[0], *x[1], *x[2], *x[3]));
            });
            __threadfence();
            __syncthreads();
            if (threadIdx.x == 0) *(volatile int *)(flags + blockIdx.x) = 1;
            continue;
        }
        int reached = next;
        for (int other = blockIdx.x - 1; reached < endOfTile; other--) {
            if (threadIdx.x == 0) {
                while (*(volatile int *)(flags + other) == 0) {}
                *(volatile int *)(flags + other) = 0;
                __threadfence();
            }
            __syncthreads();
            const float *theirs = partial + (long)other * TILE * TILE;
            forEachFour(sums, g, t, [&](int row, int column, float *(&x)[4]) {
                float4 y = __ldcg((const float4 *)(theirs + (warpRow + row) * TILE + warpColumn + column));
                *x[0] += y.x;
                *x[1] += y.y;
                *x[2] += y.z;
                *x[3] += y.w;
            });
            reached = firstStage(allStages, gridDim.x - other);
        }
        int firstRow = tile % tileRows * TILE + warpRow, firstColumn = tile / tileRows * TILE + warpColumn;
        forEachFour(sums, g, t, [&](int row, int column, float *(&x)[4]) {
            row += firstRow;
            column += firstColumn;
            if (row < rows && column < columns) {
                *(float4 *)(c + (long)row * columns + column) = make_float4(*x[0], *x[1], *x[2], *x[3]);
            }
        });
    }
}
