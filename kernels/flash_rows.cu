// The row-wise kernels around the main kernel of the backward pass (flash_hopper_backward.cu):
//
//   before:  D = rowsum(dO ∘ O), L in log₂ units, and zeros in the buffer that accumulates dQ; also a contiguous copy of dO if
//            TMA cannot access its layout, such as the gradient of a sum, whose strides are 0
//   after:   converts the fp32 sum of dQ, times the scale of the scores, to the dtype and strides of the queries
//
// Both are memory-bound: every access has 16 bytes, and each thread keeps several in flight.
//
// A head's queries are divided into blocks of QUERIES, the last one padded. For each block, terms [2, QUERIES] holds L and −D.
// L is +∞ for padded queries and for queries whose scores are all −∞, so that their probabilities 2^(s − L) are 0.
//
// The sum of dQ is stored in the order of a warpgroup's wgmma accumulator registers, in chunks of 64 queries × all columns or, if
// there are more than 64, half of them. Each of the 128 threads stores 16 bytes for every eight columns, next to those of its
// neighbours; thread 32w + l holds
//   rows 16w + l/4 and 8 below it, columns 2(l%4) and the next one: {upper left, upper right, lower left, lower right}.
//
// Macros set at compile time:
//   BEFORE or AFTER  which kernel
//   ELEMENT          dtype of O, dO and dQ: bf16, fp16
//   WIDTH            columns of the kernels: 16, 32, 64, 80 or 128; the tensors' d is at most that, and a multiple of 8
//   QUERIES          queries in a block of the main kernel: 64 or 128

#include "elements.cuh"

using T = ELEMENT;
using Eight = Elements<T, 8>;

// Threads per row, with eight columns each. Those of BEFORE add up a row by shuffles, so their number is a power of two.
#ifdef BEFORE
constexpr int LANES = WIDTH > 64 ? 16 : WIDTH / 8;
#else
constexpr int LANES = WIDTH / 8;
#endif
constexpr int ROWS_OF_THREAD = 4;
constexpr int THREADS = QUERIES * LANES / ROWS_OF_THREAD;

// Strides of a tensor [batch, heads, rows, d], in elements.
struct Strides { long batch, head, row; };

__device__ __forceinline__ long offset(Strides s, long batchAndHead, int heads, int row) {
    return batchAndHead / heads * s.batch + batchAndHead % heads * s.head + row * s.row;
}

#ifdef BEFORE
constexpr int ROW_STEP = THREADS / LANES; // distance between the rows of a thread
constexpr float LOG2_E = 1.4426950408889634f;

// Loads eight elements with this stride.
__device__ __forceinline__ Eight gather(const T *at, long stride) {
    Eight e;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        unsigned low = Elements<T, 1>::load(at + 2 * i * stride).word[0];
        e.word[i] = low | Elements<T, 1>::load(at + (2 * i + 1) * stride).word[0] << 16;
    }
    return e;
}

// Grid: one block per block of queries, head by head.
// l [batch, heads, rows]; terms [batch, heads, blocks, 2, QUERIES]; dQ [batch, heads, blocks · QUERIES, WIDTH] in the order of
// the accumulator registers.
// turns [batch, heads, blocks, 2]: counters, set to 0, that order the additions to a chunk of dQ; null if their order is free.
// copy: receives a copy of dO; null if dO's columns are contiguous and its rows 16-byte aligned.
extern "C" __global__ void __launch_bounds__(THREADS)
    flash_rows_before(const T *o, const T *dO, const float *l, float *terms, float *dQ, int *turns, int heads, int rows, int d,
                      long oBatch, long oHead, long oRow, long dOBatch, long dOHead, long dORow, long dOColumn, T *copy,
                      long copyBatch, long copyHead, long copyRow) {
    int blocks = (rows + QUERIES - 1) / QUERIES;
    long head = blockIdx.x / blocks;
    int first = blockIdx.x % blocks * QUERIES, lane = threadIdx.x % LANES, mine = threadIdx.x / LANES;
    bool copies = copy != nullptr;
    o += offset({oBatch, oHead, oRow}, head, heads, first) + lane * 8;
    dO += offset({dOBatch, dOHead, dORow}, head, heads, first) + lane * 8 * dOColumn;
    copy += offset({copyBatch, copyHead, copyRow}, head, heads, first) + lane * 8;

    Eight out[ROWS_OF_THREAD], gradient[ROWS_OF_THREAD];
#pragma unroll
    for (int i = 0; i < ROWS_OF_THREAD; i++) {
        int row = mine + i * ROW_STEP;
        bool inside = first + row < rows && lane * 8 < d;
        out[i] = inside ? Eight::load(o + row * oRow) : Eight::zero();
        gradient[i] = !inside ? Eight::zero() : copies ? gather(dO + row * dORow, dOColumn) : Eight::load(dO + row * dORow);
        if (inside && copies) gradient[i].store(copy + row * copyRow);
    }

    float4 *clear = (float4 *)(dQ + (long)blockIdx.x * (QUERIES * WIDTH)) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < WIDTH / LANES; i++) clear[i * THREADS] = make_float4(0, 0, 0, 0);
    if (turns != nullptr && threadIdx.x < 2) turns[2 * blockIdx.x + threadIdx.x] = 0;

    const float infinite = __int_as_float(0x7f800000);
    terms += (long)blockIdx.x * (2 * QUERIES);
#pragma unroll
    for (int i = 0; i < ROWS_OF_THREAD; i++) {
        float sum = 0;
#pragma unroll
        for (int c = 0; c < 8; c++) sum += out[i][c] * gradient[i][c];
#pragma unroll
        for (int distance = LANES / 2; distance > 0; distance /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, distance);
        if (lane == 0) {
            int row = mine + i * ROW_STEP;
            float own = first + row < rows ? l[head * rows + first + row] : -infinite;
            terms[row] = own == -infinite ? infinite : own * LOG2_E;
            terms[QUERIES + row] = -sum;
        }
    }
}
#endif

#ifdef AFTER
constexpr int CHUNK_ROWS = 64;
constexpr int CHUNK = WIDTH > 64 ? WIDTH / 2 : WIDTH; // columns

// Grid: one block per block of queries. In the order of the accumulator registers, four threads share eight columns of two rows;
// here one thread reads the elements of all four. Neighbouring threads have neighbouring columns, so that a warp writes whole
// lines of dQ.
extern "C" __global__ void __launch_bounds__(THREADS)
    flash_rows_after(const float *sum, T *dQ, float scale, int heads, int rows, int d, long batchStride, long headStride,
                     long rowStride) {
    constexpr int PIECES = ROWS_OF_THREAD / 2, EIGHTS = CHUNK / 8, PAIRS = CHUNK_ROWS / 2;
    int blocks = (rows + QUERIES - 1) / QUERIES;
    long head = blockIdx.x / blocks;
    int first = blockIdx.x % blocks * QUERIES;
    const float4 *from = (const float4 *)(sum + (long)blockIdx.x * (QUERIES * WIDTH));
    dQ += offset({batchStride, headStride, rowStride}, head, heads, first);

    float4 quad[PIECES][4];
    int chunk[PIECES], pair[PIECES], eight[PIECES]; // a pair of rows and eight columns of a chunk
#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        int index = p * THREADS + threadIdx.x;
        chunk[p] = index / (PAIRS * EIGHTS), pair[p] = index / EIGHTS % PAIRS, eight[p] = index % EIGHTS;
#pragma unroll
        for (int q = 0; q < 4; q++) quad[p][q] = from[((chunk[p] * EIGHTS + eight[p]) * PAIRS + pair[p]) * 4 + q];
    }

#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        int row = chunk[p] / (WIDTH / CHUNK) * CHUNK_ROWS + pair[p] / 8 * 16 + pair[p] % 8;
        int column = chunk[p] % (WIDTH / CHUNK) * CHUNK + eight[p] * 8;
        float upper[8], lower[8];
#pragma unroll
        for (int q = 0; q < 4; q++) {
            upper[2 * q] = quad[p][q].x * scale, upper[2 * q + 1] = quad[p][q].y * scale;
            lower[2 * q] = quad[p][q].z * scale, lower[2 * q + 1] = quad[p][q].w * scale;
        }
        if (column >= d) continue;
        if (first + row < rows) Eight::of(upper).store(dQ + row * rowStride + column);
        if (first + row + 8 < rows) Eight::of(lower).store(dQ + (row + 8) * rowStride + column);
    }
}
#endif
