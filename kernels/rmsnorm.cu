// RMSNorm over rows of H elements:   y = x · r · w,   r = 1 / √(mean(x²) + eps)
//
// Its gradients, with x̂ = x · r and g = dy · w:   dx = r · (g − x̂ · mean(g · x̂)),   dw = Σ over rows of dy · x̂
//
// The kernels are memory-bound. Each tensor is read or written once: a row stays in the registers of its threads from the load
// through the reduction to the store, while the next rows are prefetched. Two forms read a row twice: RELOAD, and the WIDE kernels,
// whose rows do not fit into registers. A block processes rows in a grid-stride loop, so that it can keep the weight in registers
// and accumulate its partial dw there. The forward pass does not store r: the backward pass reads x anyway and computes Σ x² in
// the same reduction as Σ g · x.
//
// Macros set at compile time:
//   FORWARD, BACKWARD, FORWARD_WIDE or BACKWARD_WIDE   which kernel
//   WIDTH            H, elements per row
//   ELEMENT, GAIN    dtype of x, y, dy and dx, and of the weight: float, bf16, fp16
//   VECTOR           contiguous elements per memory access; divides H
//   ROW_THREADS      threads per row
//   BLOCK_ROWS       rows that a block processes at a time, each in a slot of ROW_THREADS threads
//   SM_BLOCKS        blocks that must fit on a multiprocessor concurrently
//   STAGES           rows per slot buffered in shared memory: one in use, the others in flight; 1: load directly to registers
//   KEEP_WEIGHT      1: the weight stays in registers; 0: it is loaded for each row, from L1
//   RELOAD           1: the forward pass loads a row again for its results, so that L2 can evict it then; 0: it stays in registers

#include "elements.cuh"
#include "row_sum.cuh"

using T = ELEMENT;
using W = GAIN;

constexpr int H = WIDTH;
constexpr int N = VECTOR;
constexpr int STEP = ROW_THREADS * N;           // elements per access of all threads of a row
constexpr int PIECES = (H + STEP - 1) / STEP;   // accesses per thread and row
constexpr bool EVEN = H % STEP == 0;            // true if the last access uses all threads
constexpr int THREADS = ROW_THREADS * BLOCK_ROWS;

using X = Elements<T, N>;
using Weight = Elements<W, N>;

__device__ __forceinline__ int columnOf(int piece, int thread) { return piece * STEP + thread * N; }

__device__ __forceinline__ bool inRow(int column) { return EVEN || column < H; }

// A thread's elements of a row, with zeros beyond the row's end.
template <typename E> struct Slice {
    Elements<E, N> piece[PIECES];

    template <bool KEPT = false> __device__ __forceinline__ void load(const E *row, int thread) {
#pragma unroll
        for (int p = 0; p < PIECES; p++) {
            int column = columnOf(p, thread);
            piece[p] = !inRow(column) ? Elements<E, N>::zero()
                       : KEPT         ? Elements<E, N>::loadKept(row + column)
                                      : Elements<E, N>::load(row + column);
        }
    }

    __device__ __forceinline__ void keepPacked() {
#pragma unroll
        for (int p = 0; p < PIECES; p++) piece[p].keepPacked();
    }
};

// Prefetches rows of several tensors with cp.async into shared memory [STAGES, Tensors, PIECES, THREADS, N]. A thread copies
// exactly the elements that it reads later, so no barrier between threads is needed.
template <int Tensors> struct Incoming {
    const T *tensor[Tensors];
    long rows, stride, asked;
    int thread, stage = 0, free = 0;
    unsigned char *place;

    __device__ __forceinline__ Incoming(unsigned char *shared, int thread, long row, long stride, long rows)
        : rows(rows), stride(stride), asked(row), thread(thread), place(shared + threadIdx.x * X::BYTES) {}

    __device__ __forceinline__ unsigned char *at(int stage, int t, int piece) {
        return place + ((stage * Tensors + t) * PIECES + piece) * (THREADS * X::BYTES);
    }

    // Starts the copies of the next row; after the last row, commits an empty group.
    __device__ __forceinline__ void ask() {
        if (asked < rows) {
#pragma unroll
            for (int t = 0; t < Tensors; t++)
#pragma unroll
                for (int p = 0; p < PIECES; p++) {
                    int column = columnOf(p, thread);
                    if (inRow(column)) X::copyAsync(at(free, t, p), tensor[t] + asked * H + column);
                }
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
        asked += stride;
        free = free + 1 == STAGES ? 0 : free + 1;
    }

    __device__ __forceinline__ void begin() {
#pragma unroll
        for (int s = 1; s < STAGES; s++) ask();
    }

    // Loads the next row into registers. The stage of the previous row is free again and receives another row.
    __device__ __forceinline__ void next(Slice<T> (&slices)[Tensors]) {
        ask();
        if constexpr (STAGES == 1) {
            asm volatile("cp.async.wait_all;" ::: "memory");
        } else {
            asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
        }
#pragma unroll
        for (int t = 0; t < Tensors; t++)
#pragma unroll
            for (int p = 0; p < PIECES; p++)
                slices[t].piece[p] = inRow(columnOf(p, thread)) ? X::fromShared(at(stage, t, p)) : X::zero();
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }
};

__device__ __forceinline__ float reciprocalRoot(float squares, float eps) { return rsqrtf(squares * (1.0f / H) + eps); }

#ifdef FORWARD
extern "C" __global__ void __launch_bounds__(THREADS, SM_BLOCKS)
    rmsnorm_forward(const T *x, const W *weight, T *y, long rows, float eps) {
    extern __shared__ __align__(16) unsigned char staged[];
    __shared__ typename RowSum<ROW_THREADS, BLOCK_ROWS, 1>::Shared shared;
    int thread = threadIdx.x % ROW_THREADS, slot = threadIdx.x / ROW_THREADS;
    RowSum<ROW_THREADS, BLOCK_ROWS, 1> sum(shared, slot);
    long row = (long)blockIdx.x * BLOCK_ROWS + slot, stride = (long)gridDim.x * BLOCK_ROWS;
    Incoming<1> incoming(staged, thread, row, stride, rows);
    incoming.tensor[0] = x;
    if (STAGES > 1) incoming.begin();

    Slice<W> w;
    if (KEEP_WEIGHT) w.load(weight, thread);
    for (; row < rows; row += stride) {
        Slice<T> xs[1];
        if (STAGES > 1) {
            incoming.next(xs);
        } else {
            xs[0].load<RELOAD>(x + row * H, thread);
        }

        float squares = 0;
#pragma unroll
        for (int p = 0; p < PIECES; p++)
#pragma unroll
            for (int i = 0; i < N; i++) squares += xs[0].piece[p][i] * xs[0].piece[p][i];
        if (!RELOAD) xs[0].keepPacked();
        float r = reciprocalRoot(sum({squares}).value[0], eps);

#pragma unroll
        for (int p = 0; p < PIECES; p++) {
            int column = columnOf(p, thread);
            if (!inRow(column)) continue;
            if (RELOAD) xs[0].piece[p] = X::loadLast(x + row * H + column);
            Weight wp = KEEP_WEIGHT ? w.piece[p] : Weight::load(weight + column);
            float out[N];
#pragma unroll
            for (int i = 0; i < N; i++) out[i] = xs[0].piece[p][i] * r * wp[i];
            X::of(out).store(y + row * H + column);
        }
    }
}
#endif

#ifdef BACKWARD
// partial [blocks, H]: partial sums of dw, one row per block, for column_sum.cu.
extern "C" __global__ void __launch_bounds__(THREADS, SM_BLOCKS)
    rmsnorm_backward(const T *x, const W *weight, const T *dy, T *dx, float *partial, long rows, float eps) {
    extern __shared__ __align__(16) unsigned char staged[];
    __shared__ typename RowSum<ROW_THREADS, BLOCK_ROWS, 2>::Shared shared;
    int thread = threadIdx.x % ROW_THREADS, slot = threadIdx.x / ROW_THREADS;
    RowSum<ROW_THREADS, BLOCK_ROWS, 2> sum(shared, slot);
    long row = (long)blockIdx.x * BLOCK_ROWS + slot, stride = (long)gridDim.x * BLOCK_ROWS;
    Incoming<2> incoming(staged, thread, row, stride, rows);
    incoming.tensor[0] = x;
    incoming.tensor[1] = dy;
    if (STAGES > 1) incoming.begin();

    float dw[PIECES][N] = {};
    Slice<W> w;
    if (KEEP_WEIGHT) w.load(weight, thread);
    for (; row < rows; row += stride) {
        Slice<T> both[2];
        Slice<T> &xs = both[0], &dys = both[1];
        if (STAGES > 1) {
            incoming.next(both);
        } else {
            xs.load(x + row * H, thread);
            dys.load(dy + row * H, thread);
        }

        float squares = 0, products = 0; // Σ x², Σ g·x
#pragma unroll
        for (int p = 0; p < PIECES; p++) {
            int column = columnOf(p, thread);
            Weight wp = KEEP_WEIGHT ? w.piece[p] : inRow(column) ? Weight::load(weight + column) : Weight::zero();
#pragma unroll
            for (int i = 0; i < N; i++) {
                float xi = xs.piece[p][i];
                squares += xi * xi;
                products += dys.piece[p][i] * wp[i] * xi;
            }
        }
        xs.keepPacked();
        dys.keepPacked();
        if (KEEP_WEIGHT) w.keepPacked();
        Sums<2> sums = sum({squares, products});
        float r = reciprocalRoot(sums.value[0], eps);
        float mean = sums.value[1] * r * (1.0f / H); // of g · x̂

#pragma unroll
        for (int p = 0; p < PIECES; p++) {
            int column = columnOf(p, thread);
            if (!inRow(column)) continue;
            Weight wp = KEEP_WEIGHT ? w.piece[p] : Weight::load(weight + column);
            float out[N];
#pragma unroll
            for (int i = 0; i < N; i++) {
                float dyi = dys.piece[p][i], normalised = xs.piece[p][i] * r;
                out[i] = (dyi * wp[i] - normalised * mean) * r;
                dw[p][i] += dyi * normalised;
            }
            X::of(out).store(dx + row * H + column);
        }
    }

    // Add the partial dw of the slots one after the other through shared memory; the last slot has the sum.
    __shared__ float total[BLOCK_ROWS > 1 ? H : 1];
#pragma unroll
    for (int s = 0; s < BLOCK_ROWS; s++) {
        if (s > 0) __syncthreads(); // reached by all threads of the block
        if (slot == s) {
#pragma unroll
            for (int p = 0; p < PIECES; p++) {
                int column = columnOf(p, thread);
                if (!inRow(column)) continue;
#pragma unroll
                for (int i = 0; i < N; i++) {
                    if (s > 0) dw[p][i] += total[column + i];
                    if (s < BLOCK_ROWS - 1) total[column + i] = dw[p][i];
                }
                if (s == BLOCK_ROWS - 1) Elements<float, N>::of(dw[p]).store(partial + (long)blockIdx.x * H + column);
            }
        }
    }
}
#endif

// The second read of a row comes from L2.

#ifdef FORWARD_WIDE
extern "C" __global__ void __launch_bounds__(THREADS, SM_BLOCKS)
    rmsnorm_forward(const T *x, const W *weight, T *y, long rows, float eps) {
    __shared__ typename RowSum<THREADS, 1, 1>::Shared shared;
    RowSum<THREADS, 1, 1> sum(shared, 0);
    for (long row = blockIdx.x; row < rows; row += gridDim.x) {
        const T *xs = x + row * H;
        float squares = 0;
#pragma unroll 4
        for (int column = threadIdx.x * N; column < H; column += STEP) {
            X xp = X::load(xs + column);
#pragma unroll
            for (int i = 0; i < N; i++) squares += xp[i] * xp[i];
        }
        float r = reciprocalRoot(sum({squares}).value[0], eps);
#pragma unroll 2
        for (int column = threadIdx.x * N; column < H; column += STEP) {
            X xp = X::load(xs + column);
            Weight wp = Weight::load(weight + column);
            float out[N];
#pragma unroll
            for (int i = 0; i < N; i++) out[i] = xp[i] * r * wp[i];
            X::of(out).store(y + row * H + column);
        }
    }
}
#endif

#ifdef BACKWARD_WIDE
// partial [blocks, H]: partial sums of dw, one row per block, initialised to 0. Each column belongs to a single thread.
extern "C" __global__ void __launch_bounds__(THREADS, SM_BLOCKS)
    rmsnorm_backward(const T *x, const W *weight, const T *dy, T *dx, float *partial, long rows, float eps) {
    __shared__ typename RowSum<THREADS, 1, 2>::Shared shared;
    RowSum<THREADS, 1, 2> sum(shared, 0);
    partial += (long)blockIdx.x * H;
    for (long row = blockIdx.x; row < rows; row += gridDim.x) {
        const T *xs = x + row * H, *dys = dy + row * H;
        float squares = 0, products = 0;
#pragma unroll 2
        for (int column = threadIdx.x * N; column < H; column += STEP) {
            X xp = X::load(xs + column), dyp = X::load(dys + column);
            Weight wp = Weight::load(weight + column);
#pragma unroll
            for (int i = 0; i < N; i++) {
                squares += xp[i] * xp[i];
                products += dyp[i] * wp[i] * xp[i];
            }
        }
        Sums<2> sums = sum({squares, products});
        float r = reciprocalRoot(sums.value[0], eps);
        float mean = sums.value[1] * r * (1.0f / H);
        for (int column = threadIdx.x * N; column < H; column += STEP) {
            X xp = X::load(xs + column), dyp = X::load(dys + column);
            Weight wp = Weight::load(weight + column);
            float out[N];
#pragma unroll
            for (int i = 0; i < N; i++) {
                float normalised = xp[i] * r;
                out[i] = (dyp[i] * wp[i] - normalised * mean) * r;
                partial[column + i] += dyp[i] * normalised;
            }
            X::of(out).store(dx + row * H + column);
        }
    }
}
#endif
