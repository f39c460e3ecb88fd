// FlashAttention-2 forward on tensor cores with mma.sync:   o = softmax(q kᵀ · scale) v,   l = log Σ exp(q kᵀ · scale)
//
// A block owns ROWS queries and iterates over tiles of keys and values in shared memory; the next tile is loaded with
// cp.async while the current one is processed (double buffering). Warps form a grid of rows and columns. The warps of a
// row share their queries; each processes another COLUMNS keys of every tile with its own online softmax. At the end
// their results are merged from left to right, a fixed order, so that results are bitwise reproducible. More columns
// raise occupancy when there are few queries.
//
// With a causal mask the last queries attend to the most keys. Blocks start in the order of their index, so the longest
// ones get the lowest index.
//
// Macros set at compile time, in addition to those of mma.cuh:
//   ROW_WARPS, COLUMN_WARPS   warps of a block
//   ROW_TILES                 queries per warp, in units of 16
//   COLUMNS                   keys per warp and tile: a multiple of 16
//   SM_BLOCKS                 blocks that must fit on a multiprocessor concurrently

#include "mma.cuh"

constexpr int THREADS = ROW_WARPS * COLUMN_WARPS * 32;
constexpr int WARP_ROWS = ROW_TILES * 16;
constexpr int ROWS = ROW_WARPS * WARP_ROWS;
constexpr int TILE = COLUMN_WARPS * COLUMNS;
constexpr int TILE_BYTES = TILE * STRIDE;

using Scores = Sums[ROW_TILES][COLUMNS / 8]; // scores of a warp and tile

// The online softmax of a warp's queries; a thread has two rows of each 16. Statistics are in log₂ units: reference is
// the largest score times log₂ e, and the weight of a score is 2^(score · log₂ e − reference).
struct Softmax {
    Sums o[ROW_TILES][D / 8];
    float reference[ROW_TILES][2], sum[ROW_TILES][2]; // sum over this thread's columns only

    __device__ __forceinline__ Softmax() {
#pragma unroll
        for (int m = 0; m < ROW_TILES; m++) {
#pragma unroll
            for (int n = 0; n < D / 8; n++) o[m][n] = {};
            reference[m][0] = reference[m][1] = -INFINITE;
            sum[m][0] = sum[m][1] = 0;
        }
    }

    // Replaces scores by their weights. decay rescales earlier sums to the new reference.
    __device__ __forceinline__ void weigh(Scores &s, float scaleLog2, float (&decay)[ROW_TILES][2]) {
#pragma unroll
        for (int m = 0; m < ROW_TILES; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float largest = -INFINITE;
#pragma unroll
                for (int n = 0; n < COLUMNS / 8; n++)
                    largest = fmaxf(largest, fmaxf(s[m][n].value[2 * half], s[m][n].value[2 * half + 1]));
                float shift = raise(m, half, rowMax(largest) * scaleLog2, decay[m][half]);
                float added = 0;
#pragma unroll
                for (int n = 0; n < COLUMNS / 8; n++)
#pragma unroll
                    for (int i = 2 * half; i < 2 * half + 2; i++) {
                        s[m][n].value[i] = powerOf2(s[m][n].value[i] * scaleLog2 - shift);
                        added += s[m][n].value[i];
                    }
                sum[m][half] = sum[m][half] * decay[m][half] + added;
            }
    }

    // Raises the reference; returns it, or 0 while all scores are −∞.
    __device__ __forceinline__ float raise(int m, int half, float candidate, float &decay) {
        float next = fmaxf(reference[m][half], candidate);
        float shift = next == -INFINITE ? 0 : next;
        decay = powerOf2(reference[m][half] - shift);
        reference[m][half] = next;
        return shift;
    }

    // Merges the softmax of other columns, stored in shared memory as [values, lanes].
    __device__ __forceinline__ void merge(const float *other) {
#pragma unroll
        for (int m = 0; m < ROW_TILES; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float theirs = other[0], decay;
                float shift = raise(m, half, theirs, decay);
                float weight = powerOf2(theirs - shift);
                sum[m][half] = sum[m][half] * decay + other[32] * weight;
                other += 64;
#pragma unroll
                for (int n = 0; n < D / 8; n++)
#pragma unroll
                    for (int i = 2 * half; i < 2 * half + 2; i++, other += 32)
                        o[m][n].value[i] = o[m][n].value[i] * decay + *other * weight;
            }
    }

    __device__ __forceinline__ void put(float *to) const {
#pragma unroll
        for (int m = 0; m < ROW_TILES; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                to[0] = reference[m][half];
                to[32] = sum[m][half];
                to += 64;
#pragma unroll
                for (int n = 0; n < D / 8; n++)
#pragma unroll
                    for (int i = 2 * half; i < 2 * half + 2; i++, to += 32) *to = o[m][n].value[i];
            }
    }

    static constexpr int VALUES = ROW_TILES * (4 + D / 2);
};
static_assert(ROW_WARPS * Softmax::VALUES * 32 * 4 <= ROWS * STRIDE + 4 * TILE_BYTES || COLUMN_WARPS == 1,
              "results to be merged must fit into shared memory");

// q, o [batch, heads, queries, D] and k, v [batch, heads, keys, D], with strides of batches, heads and rows in
// elements; l [batch, heads, queries], contiguous. scaleLog2 is 1/√d · log₂ e.
extern "C" __global__ void __launch_bounds__(THREADS, SM_BLOCKS)
    flash_mma_forward(const T *q, const T *k, const T *v, T *o, float *l, int queries, int keys, int causal,
                      float scaleLog2, long qBatch, long qHead, int qRow, long kBatch, long kHead, int kRow,
                      long vBatch, long vHead, int vRow, long oBatch, long oHead, int oRow) {
    extern __shared__ __align__(16) unsigned char shared[];
    unsigned char *ownQ = shared, *tiles = shared + ROWS * STRIDE; // tiles: [2, K and V, TILE_BYTES]
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int warpRow = warp / COLUMN_WARPS, warpColumn = warp % COLUMN_WARPS;
    int head = blockIdx.x, batch = blockIdx.y, plane = batch * gridDim.x + head;
    int blockRow = (gridDim.z - 1 - blockIdx.z) * ROWS, firstRow = blockRow + warpRow * WARP_ROWS;
    Rows<const T> qs{q + batch * qBatch + head * qHead, qRow, queries};
    Rows<const T> ks{k + batch * kBatch + head * kHead, kRow, keys};
    Rows<const T> vs{v + batch * vBatch + head * vHead, vRow, keys};

    auto seen = [&](int row) { return causal ? min(row + 1, keys) : keys; }; // number of keys that a query attends to
    int blockSeen = seen(min(blockRow + ROWS, queries) - 1), warpSeen = seen(firstRow + WARP_ROWS - 1);

    copyRows<ROWS, THREADS>(ownQ, qs, blockRow);
    copyRows<TILE, THREADS>(tiles, ks, 0);
    copyRows<TILE, THREADS>(tiles + TILE_BYTES, vs, 0);
    Softmax softmax;
    int stage = 0;
    for (int tile = 0; tile < blockSeen; tile += TILE, stage ^= 1) {
        awaitCopies();
        __syncthreads(); // the tile has been loaded, and no warp still reads the previous one
        unsigned char *kTile = tiles + stage * 2 * TILE_BYTES, *next = tiles + (stage ^ 1) * 2 * TILE_BYTES;
        if (tile + TILE < blockSeen) {
            copyRows<TILE, THREADS>(next, ks, tile + TILE);
            copyRows<TILE, THREADS>(next + TILE_BYTES, vs, tile + TILE);
        }
        int first = tile + warpColumn * COLUMNS;
        if (first >= warpSeen) continue;
        kTile += warpColumn * COLUMNS * STRIDE;

        Scores s;
        productOfRows<true>(s, ownQ + warpRow * WARP_ROWS * STRIDE, kTile);
        if (first + COLUMNS > seen(firstRow)) {
#pragma unroll
            for (int m = 0; m < ROW_TILES; m++)
#pragma unroll
                for (int n = 0; n < COLUMNS / 8; n++)
#pragma unroll
                    for (int i = 0; i < 4; i++)
                        if (first + n * 8 + lane % 4 * 2 + i % 2 >= seen(firstRow + m * 16 + lane / 4 + i / 2 * 8))
                            s[m][n].value[i] = -INFINITE;
        }
        float decay[ROW_TILES][2];
        softmax.weigh(s, scaleLog2, decay);
        Left p[COLUMNS / DEPTH][ROW_TILES];
        asLeft(p, s);
        addProduct(softmax.o, decay, p, kTile + TILE_BYTES);
    }

    if constexpr (COLUMN_WARPS > 1) {
        float *place = (float *)shared + warpRow * Softmax::VALUES * 32 + lane;
#pragma unroll 1
        for (int column = 1; column < COLUMN_WARPS; column++) {
            __syncthreads();
            if (warpColumn == column) softmax.put(place);
            __syncthreads();
            if (warpColumn == 0) softmax.merge(place);
        }
        if (warpColumn > 0) return;
    }

    T *oHeadFirst = o + batch * oBatch + head * oHead;
#pragma unroll
    for (int m = 0; m < ROW_TILES; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int row = firstRow + m * 16 + half * 8 + lane / 4;
            float sum = rowSum(softmax.sum[m][half]);
            float inverse = sum == 0 ? 0 : 1 / sum; // without keys o = 0, and l = −∞ because the reference is −∞
            if (row >= queries) continue;
#pragma unroll
            for (int n = 0; n < D / 8; n++)
                storePair(oHeadFirst + (long)row * oRow + n * 8 + lane % 4 * 2,
                          softmax.o[m][n].value[2 * half] * inverse, softmax.o[m][n].value[2 * half + 1] * inverse);
            if (lane % 4 == 0)
                l[(long)plane * queries + row] = (softmax.reference[m][half] + __log2f(sum)) * (1 / LOG2_E);
        }
}
