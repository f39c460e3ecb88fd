// Column sums of a matrix: partial [parts, columns] fp32 → sum [columns] of dtype ELEMENT, in a fixed order. This is the second
// step of a weight's gradient: each block of the first kernel sums over its own rows.
//
// A block sums 32 columns. Thread (lane, slice) accumulates rows slice, slice + 32, …; then the first warp adds the slices.

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
