// Copies a matrix to become operand Q of gemm_fp32.cu: transposed, or split into hi and lo, or both. hi is x rounded to TF32, and
// lo is x − hi, of which tensor cores ignore the last bits.
//
// A block copies a tile of SIDE × SIDE elements. A thread reads and writes four adjacent elements at a time.
//
// Macros set at compile time:
//   TRANSPOSED    1 if the copies are transposed
//   PARTS         1: a copy; 2: hi and lo
//   SIDE          rows and columns of a tile: 64
//   THREADS       threads per block: 256
//   SHARED_BYTES  shared memory of a block

#include "elements.cuh"

constexpr int FOURS = SIDE / 4;               // per row of a tile
constexpr int ROWS_AT_ONCE = THREADS / FOURS; // rows of a tile that the block accesses at a time
constexpr int STRIDE = SIDE + 1;              // of a row in shared memory, padded: two-way bank conflicts instead of 16-way
static_assert(SHARED_BYTES == (TRANSPOSED ? SIDE * STRIDE * 4 : 0), "shared memory as the launch requests it");

__device__ __forceinline__ void store(float *high, float *low, long at, const float (&x)[4]) {
    float upper[4], lower[4];
#pragma unroll
    for (int i = 0; i < 4; i++) {
        upper[i] = PARTS == 1 ? x[i] : __uint_as_float(roundToTf32(x[i]));
        lower[i] = x[i] - upper[i];
    }
    *(float4 *)(high + at) = make_float4(upper[0], upper[1], upper[2], upper[3]);
    if (PARTS == 2) *(float4 *)(low + at) = make_float4(lower[0], lower[1], lower[2], lower[3]);
}

// x has contiguous rows; the copies are contiguous. Rows, columns and the stride are multiples of 4. Blocks are numbered along
// the rows of the tiles.
extern "C" __global__ void __launch_bounds__(THREADS)
operand_copy(const float *x, float *high, float *low, int rows, int columns, int stride) {
    extern __shared__ float shared[];
    int tilesInRow = (columns + SIDE - 1) / SIDE;
    int firstRow = blockIdx.x / tilesInRow * SIDE, firstColumn = blockIdx.x % tilesInRow * SIDE;
    int along = threadIdx.x % FOURS * 4, across = threadIdx.x / FOURS;
#pragma unroll
    for (int i = across; i < SIDE; i += ROWS_AT_ONCE) {
        int row = firstRow + i, column = firstColumn + along;
        if (row < rows && column < columns) {
            float4 four = *(const float4 *)(x + (long)row * stride + column);
            const float elements[4] = {four.x, four.y, four.z, four.w};
            if (TRANSPOSED) {
#pragma unroll
                for (int j = 0; j < 4; j++) shared[i * STRIDE + along + j] = elements[j];
            } else {
                store(high, low, (long)row * columns + column, elements);
            }
        }
    }
    if (TRANSPOSED) {
        __syncthreads();
#pragma unroll
        for (int i = across; i < SIDE; i += ROWS_AT_ONCE) {
            int row = firstRow + along, column = firstColumn + i; // of x
            if (row < rows && column < columns) {
                float elements[4];
#pragma unroll
                for (int j = 0; j < 4; j++) elements[j] = shared[(along + j) * STRIDE + i];
                store(high, low, (long)column * rows + row, elements);
            }
        }
    }
}
