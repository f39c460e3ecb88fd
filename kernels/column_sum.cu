// Sums the columns of a matrix, partial [parts, columns] fp32 → sum [columns] of type ELEMENT, always in the same order: the second
// half of a gradient that each block of another kernel has summed up over its own rows.
//
// A block takes 32 columns. Thread (lane, slice) adds every 32nd row from its slice on, then one warp adds the slices.

#include "elements.cuh"

constexpr int LANES = 32, SLICES = 32;

extern "C" __global__ void __launch_bounds__(LANES *SLICES)
    column_sum(const float *partial, ELEMENT *sum, int parts, int columns) {
    __shared__ float bySlice[SLICES][LANES];
    int lane = threadIdx.x % LANES, slice = threadIdx.x / LANES;
    int column = blockIdx.x * LANES + lane;

    float part = 0;
    if (column < columns) {
#pragma unroll 8
        for (int row = slice; row < parts; row += SLICES) part += partial[(long)row * columns + column];
    }
    bySlice[slice][lane] = part;
    __syncthreads();
    if (slice == 0 && column < columns) {
        float total[1] = {};
#pragma unroll
        for (int s = 0; s < SLICES; s++) total[0] += bySlice[s][lane];
        Elements<ELEMENT, 1>::of(total).store(sum + column);
    }
}
