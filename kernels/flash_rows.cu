// What the backward pass of attention does row by row, before and after its products (flash_hopper_backward.cu):
//
//   before:  D = rowsum(dO ∘ O), L in units of log₂, and zeros where dQ will be summed; and a dense copy of a dO that the copy
//            engine cannot reach, such as the gradient of a sum, whose strides are 0
//   after:   the sum of dQ, times the scale of the scores, in the type and strides of the queries
//
// Both are as fast as memory: every access has 16 bytes, and each thread has several of them under way.
//
// A head's queries are taken in blocks of QUERIES, the last one padded. For each, terms [2, QUERIES] holds L and −D. A
// padded query, and one whose scores are all −∞, gets L = +∞ there: all its probabilities 2^(s − L) come out as 0.
//
// The sum of dQ is stored as the registers of a warpgroup hold it, in chunks of 64 queries × 64 columns, or fewer. Its 128
// threads follow each other 16 bytes apart, eight columns after the other; thread 32w + l has there
//   rows 16w + l/4 and 8 below it, of columns 2(l%4) and its neighbour: {upper left, upper right, lower left, lower right}.
//
// Set by the compiler's options:
//   BEFORE or AFTER  which kernel
//   ELEMENT          type of O, dO and dQ: bf16, fp16
//   WIDTH            columns of the kernels: 16, 32, 64 or 128; the tensors' d is at most that, and a multiple of 8
//   QUERIES          queries in a block of the main kernel: 64 or 128

#include "elements.cuh"

using T = ELEMENT;
using Eight = Elements<T, 8>;

constexpr int LANES = WIDTH / 8;                  // threads that share a row, eight columns each
constexpr int ROWS_OF_THREAD = 4;
constexpr int THREADS = QUERIES * LANES / ROWS_OF_THREAD;

// Where a row of a tensor [batch, heads, rows, d] lies; strides in elements.
struct Strides { long batch, head, row; };

__device__ __forceinline__ long offset(Strides s, long batchAndHead, int heads, int row) {
    return batchAndHead / heads * s.batch + batchAndHead % heads * s.head + row * s.row;
}

#ifdef BEFORE
constexpr int ROW_STEP = THREADS / LANES; // from one row of a thread to its next
constexpr float LOG2_E = 1.4426950408889634f;

// Eight elements so far apart.
__device__ __forceinline__ Eight gather(const T *at, long stride) {
    Eight e;
#pragma unroll
    for (int i = 0; i < 4; i++) {
        unsigned low = Elements<T, 1>::load(at + 2 * i * stride).word[0];
        e.word[i] = low | Elements<T, 1>::load(at + (2 * i + 1) * stride).word[0] << 16;
    }
    return e;
}

// A block for each block of queries, those of a head one after the other.
// l [batch, heads, rows]; terms [batch, heads, blocks, 2, QUERIES]; dQ [batch, heads, blocks · QUERIES, WIDTH] in the order of
// registers;
// turns [batch, heads, blocks, 2], or null: whose turn it is to add to a chunk; begins at 0.
// copy: where dO goes as well, or null if its columns are neighbours and rows begin at multiples of 16 bytes.
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
    for (int i = 0; i < 2 * ROWS_OF_THREAD; i++) clear[i * THREADS] = make_float4(0, 0, 0, 0);
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
constexpr int CHUNK = WIDTH < 64 ? WIDTH : 64; // columns

// A block for each block of queries. Four threads share eight columns of two rows in the order of registers; here one thread
// takes what four of them had.
extern "C" __global__ void __launch_bounds__(THREADS)
    flash_rows_after(const float *sum, T *dQ, float scale, int heads, int rows, int d, long batchStride, long headStride,
                     long rowStride) {
    constexpr int PIECES = ROWS_OF_THREAD / 2;
    int blocks = (rows + QUERIES - 1) / QUERIES;
    long head = blockIdx.x / blocks;
    int first = blockIdx.x % blocks * QUERIES;
    const float4 *from = (const float4 *)(sum + (long)blockIdx.x * (QUERIES * WIDTH));
    dQ += offset({batchStride, headStride, rowStride}, head, heads, first);

    float4 quad[PIECES][4];
#pragma unroll
    for (int p = 0; p < PIECES; p++)
#pragma unroll
        for (int q = 0; q < 4; q++) quad[p][q] = from[(p * THREADS + threadIdx.x) * 4 + q];

#pragma unroll
    for (int p = 0; p < PIECES; p++) {
        int group = p * THREADS + threadIdx.x;                 // of four threads of the warpgroup
        int chunk = group / (32 * (CHUNK / 8)), eight = group / 32 % (CHUNK / 8);
        int row = chunk / (WIDTH / CHUNK) * CHUNK_ROWS + group % 32 / 8 * 16 + group % 8;
        int column = chunk % (WIDTH / CHUNK) * CHUNK + eight * 8;
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
