// Weighted sums of rows: y[r] = Σ over h of x[r, h] · w[h], x [rows, width], w [width], y [rows].
//
// Its gradients:   dx[r, h] = dy[r] · w[h],   dw[h] = Σ over rows of dy[r] · x[r, h]
//
// Macros set at compile time:
//   FORWARD or BACKWARD   which kernel
//   ELEMENT       dtype of all tensors: float, bf16, fp16; sums are fp32
//   VECTOR        contiguous elements per memory access; divides the width
//   THREADS       threads per block. Forward: they share a row; backward: each has VECTOR columns

#include "elements.cuh"
#include "row_sum.cuh"

using T = ELEMENT;
constexpr int N = VECTOR;
using X = Elements<T, N>;

#ifdef FORWARD
// A block computes row blockIdx.x; with more rows than blocks, also rows blockIdx.x + gridDim.x, …
// Consecutive threads read consecutive elements of a row.
extern "C" __global__ void __launch_bounds__(THREADS)
    weighted_sum_forward(const T *x, const T *w, T *y, long rows, int width) {
    __shared__ typename RowSum<THREADS, 1, 1>::Shared shared;
    RowSum<THREADS, 1, 1> sum(shared, 0);
    for (long row = blockIdx.x; row < rows; row += gridDim.x) {
        float part = 0;
#pragma unroll 4
        for (int h = threadIdx.x * N; h < width; h += THREADS * N) {
            X xs = X::loadOnce(x + row * width + h), ws = X::load(w + h);
#pragma unroll
            for (int i = 0; i < N; i++) part += xs[i] * ws[i];
        }
        float total[1] = {sum({part}).value[0]};
        if (threadIdx.x == 0) Elements<T, 1>::of(total).store(y + row);
    }
}
#endif

#ifdef BACKWARD
// blockIdx.x selects columns, blockIdx.y selects rows blockIdx.y, blockIdx.y + gridDim.y, … A thread iterates over the rows
// of its columns, writes dx and accumulates dw in registers. partial [gridDim.y, width]: the partial sums of dw, for
// column_sum.cu.
extern "C" __global__ void __launch_bounds__(THREADS)
    weighted_sum_backward(const T *x, const T *w, const T *dy, T *dx, float *partial, long rows, int width) {
    int h = (blockIdx.x * THREADS + threadIdx.x) * N;
    if (h >= width) return;
    X ws = X::load(w + h);
    float dw[N] = {};
#pragma unroll 4
    for (long row = blockIdx.y; row < rows; row += gridDim.y) {
        float g = Elements<T, 1>::load(dy + row)[0];
        X xs = X::load(x + row * width + h);
        float out[N];
#pragma unroll
        for (int i = 0; i < N; i++) {
            out[i] = g * ws[i];
            dw[i] += g * xs[i];
        }
        X::of(out).store(dx + row * width + h);
    }
    Elements<float, N>::of(dw).store(partial + (long)blockIdx.y * width + h);
}
#endif
