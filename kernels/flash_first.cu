// FlashAttention-2 as published, in fp32 multiply-adds without tensor cores:   O = softmax(QKᵀ · scale + mask) V   for each head
//
// Source: Dao, "FlashAttention-2: Faster Attention with Better Parallelism and Work Partitioning", 2023, algorithms 1 and 2; names
// are the paper's. Tensors are contiguous: q, o, dO and dQ [heads, T, d], k, v, dK and dV [heads, S, d], and in fp32 the
// log-sum-exp L and D = rowsum(dO ∘ O) [heads, T].
//
// A block owns a tile of rows (queries in the forward pass) and iterates over tiles of the other side (keys), which it loads into
// shared memory. A warp has WARP_ROWS of the block's rows. To compute scores, each lane takes one row of the streamed tile; to
// accumulate a matrix multiplication, each lane takes every 32nd column. A row's maximum and sum are therefore reductions over the lanes
// of one warp, and warps do not communicate. The backward pass computes each tile of scores twice: once in the block that
// accumulates the gradients of its keys, once in the block that accumulates those of its queries. No two blocks add to the same
// element, so all results are bitwise reproducible.
//
// Macros set at compile time:
//   FORWARD, DELTA, BACKWARD_KEYS or BACKWARD_QUERIES   which kernel
//   ELEMENT     dtype of all tensors but L and D: float, bf16, fp16
//   WIDTH       head dimension d, at most 128
//   WARPS       warps per block
//   WARP_ROWS   rows per warp

#include "elements.cuh"

using E = ELEMENT;

constexpr int d = WIDTH;
constexpr int LANES = 32;
constexpr int COLUMNS = (d + LANES - 1) / LANES; // per lane
constexpr int OWN_STRIDE = COLUMNS * LANES;      // elements of a row in shared memory; columns from d on are zero
constexpr int PASSING_STRIDE = OWN_STRIDE + 1;   // odd: lanes that read one column of 32 rows access 32 different banks
constexpr int OWN = WARPS * WARP_ROWS;           // rows of the block's own tile
constexpr int PASSING = LANES;                   // rows of a streamed tile
constexpr int THREADS = WARPS * LANES;
constexpr int SM_BLOCKS = 1; // blocks per multiprocessor; without it ptxas spills registers to raise occupancy
constexpr float MINUS_INFINITY = __builtin_bit_cast(float, 0xff800000u);

extern __shared__ __align__(16) float shared[];

using Rows = float[WARP_ROWS];          // a value for each row of the warp, for the lane's row of the streamed tile
using Sums = float[WARP_ROWS][COLUMNS]; // accumulators: the warp's rows, the lane's columns

__device__ __forceinline__ int lane() { return threadIdx.x % LANES; }

__device__ __forceinline__ int warp() { return threadIdx.x / LANES; }

__device__ __forceinline__ float warpMax(float x) {
    for (int step = LANES / 2; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
    return x;
}

__device__ __forceinline__ float warpSum(float x) {
    for (int step = LANES / 2; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
    return x;
}

// Loads rows from `first` on of a head's x [rows, d] into shared memory, padded with zeros. Rows whose L is −∞ become zero, too.
template <int Count, int Stride>
__device__ __forceinline__ void loadTile(float *tile, const E *x, int first, int rows, const float *L) {
    for (int row = warp(); row < Count; row += WARPS)
#pragma unroll
        for (int c = lane(); c < OWN_STRIDE; c += LANES) {
            bool there = first + row < rows && c < d && (L == nullptr || L[first + row] != MINUS_INFINITY);
            tile[row * Stride + c] = there ? Elements<E, 1>::load(x + (long)(first + row) * d + c)[0] : 0.0f;
        }
}

__device__ __forceinline__ void loadOwn(float *tile, const E *x, int first, int rows) {
    loadTile<OWN, OWN_STRIDE>(tile, x, first, rows, nullptr);
}

__device__ __forceinline__ void loadPassing(float *tile, const E *x, int first, int rows, const float *L = nullptr) {
    loadTile<PASSING, PASSING_STRIDE>(tile, x, first, rows, L);
}

// Computes a tile of A Bᵀ: dot products of the warp's rows of A with the lane's row of B.
__device__ __forceinline__ void multiplyRows(Rows &product, const float *A, const float *B) {
    const float *a = A + warp() * WARP_ROWS * OWN_STRIDE, *b = B + lane() * PASSING_STRIDE;
    for (int r = 0; r < WARP_ROWS; r++) product[r] = 0;
#pragma unroll 8
    for (int c = 0; c < d; c++)
        for (int r = 0; r < WARP_ROWS; r++) product[r] += a[r * OWN_STRIDE + c] * b[c];
}

// Accumulates sum += A B. A lane holds the column of A that belongs to its row of B.
__device__ __forceinline__ void addProduct(Sums &sum, const Rows &A, const float *B) {
#pragma unroll 4
    for (int row = 0; row < PASSING; row++) {
        float b[COLUMNS];
        for (int c = 0; c < COLUMNS; c++) b[c] = B[row * PASSING_STRIDE + lane() + c * LANES];
        for (int r = 0; r < WARP_ROWS; r++) {
            float a = __shfl_sync(~0u, A[r], row);
            for (int c = 0; c < COLUMNS; c++) sum[r][c] += a * b[c];
        }
    }
}

__device__ __forceinline__ void storeRow(E *row, const float (&sum)[COLUMNS], float factor) {
    for (int c = 0; c < COLUMNS; c++) {
        int column = lane() + c * LANES;
        if (column < d) Elements<E, 1>::of({sum[c] * factor}).store(row + column);
    }
}

// The mask: true if query i attends to key j.
struct Mask {
    int T, S;
    bool causal;

    __device__ __forceinline__ bool operator()(int i, int j) const { return i < T && j < S && (!causal || j <= i); }
};

#ifdef FORWARD
// Algorithm 1 with online softmax. The block owns Bq queries.
extern "C" __global__ void __launch_bounds__(THREADS, SM_BLOCKS)
    flash_forward(const E *q, const E *k, const E *v, E *o, float *L,
                  int T, int S, int causal, float scale) {
    constexpr int Bq = OWN, Bk = PASSING;
    float *Q = shared, *K = Q + Bq * OWN_STRIDE, *V = K + Bk * PASSING_STRIDE;
    int tiles = (T + Bq - 1) / Bq, i0 = blockIdx.x % tiles * Bq, i1 = i0 + warp() * WARP_ROWS;
    long head = blockIdx.x / tiles;
    Mask seen{T, S, causal != 0};

    loadOwn(Q, q + head * T * d, i0, T);
    Sums O = {};   // sum of exp(s − m) v
    Rows l = {};   // sum of exp(s − m)
    Rows m;        // largest score so far
    for (int r = 0; r < WARP_ROWS; r++) m[r] = MINUS_INFINITY;

    int end = causal ? min(S, i0 + Bq) : S; // no query of the tile attends to a later key
    for (int j0 = 0; j0 < end; j0 += Bk) {
        __syncthreads();
        loadPassing(K, k + head * S * d, j0, S);
        loadPassing(V, v + head * S * d, j0, S);
        __syncthreads();
        Rows P;
        multiplyRows(P, Q, K);
        for (int r = 0; r < WARP_ROWS; r++) {
            float s = seen(i1 + r, j0 + lane()) ? P[r] * scale : MINUS_INFINITY;
            float mNew = fmaxf(m[r], warpMax(s));
            float shift = mNew == MINUS_INFINITY ? 0.0f : mNew; // −∞ − (−∞) would be NaN
            float decay = expf(m[r] - shift);                   // rescales the sums to the new maximum
            P[r] = expf(s - shift);
            l[r] = decay * l[r] + warpSum(P[r]);
            for (int c = 0; c < COLUMNS; c++) O[r][c] *= decay;
            m[r] = mNew;
        }
        addProduct(O, P, V);
    }

    for (int r = 0; r < WARP_ROWS && i1 + r < T; r++) {
        long row = head * T + i1 + r;
        storeRow(o + row * d, O[r], l[r] == 0.0f ? 0.0f : 1.0f / l[r]);
        if (lane() == 0) L[row] = m[r] + logf(l[r]);
    }
}
#endif

#ifdef DELTA
// Algorithm 2, line 4: D = rowsum(dO ∘ O). One warp per row.
extern "C" __global__ void __launch_bounds__(THREADS, SM_BLOCKS)
    flash_delta(const E *o, const E *dO, float *D, long rows) {
    long row = (long)blockIdx.x * WARPS + warp();
    if (row >= rows) return;
    float sum = 0;
    for (int c = lane(); c < d; c += LANES)
        sum += Elements<E, 1>::load(dO + row * d + c)[0] * Elements<E, 1>::load(o + row * d + c)[0];
    sum = warpSum(sum);
    if (lane() == 0) D[row] = sum;
}
#endif

// P = exp(S − L) and dS = P ∘ (dP − D); both are 0 for masked scores and for queries without keys (L = −∞).
__device__ __forceinline__ void differentiate(float &P, float &dS, bool seen, float score, float dP, float L, float D) {
    bool counts = seen && L != MINUS_INFINITY;
    P = counts ? expf(score - L) : 0.0f;
    dS = counts ? P * (dP - D) : 0.0f;
}

#ifdef BACKWARD_KEYS
// Algorithm 2 for dK and dV. The block owns Bk keys; each lane has one query of the streamed tile.
extern "C" __global__ void __launch_bounds__(THREADS, SM_BLOCKS)
    flash_backward_keys(const E *q, const E *k, const E *v, const E *dO, const float *L, const float *D,
                        E *dK, E *dV, int T, int S, int causal, float scale) {
    constexpr int Bq = PASSING, Bk = OWN;
    float *K = shared, *V = K + Bk * OWN_STRIDE, *Q = V + Bk * OWN_STRIDE, *G = Q + Bq * PASSING_STRIDE;
    int tiles = (S + Bk - 1) / Bk, j0 = blockIdx.x % tiles * Bk, j1 = j0 + warp() * WARP_ROWS;
    long head = blockIdx.x / tiles;
    Mask seen{T, S, causal != 0};

    loadOwn(K, k + head * S * d, j0, S);
    loadOwn(V, v + head * S * d, j0, S);
    Sums dKs = {}, dVs = {};
    for (int i0 = causal ? j0 : 0; i0 < T; i0 += Bq) { // queries before j0 do not attend to this tile
        __syncthreads();
        // Queries without keys are loaded as zeros: their dS is 0, but 0 · −∞ would be NaN.
        loadPassing(Q, q + head * T * d, i0, T, L + head * T);
        loadPassing(G, dO + head * T * d, i0, T);
        __syncthreads();
        int i = i0 + lane();
        float Li = i < T ? L[head * T + i] : MINUS_INFINITY, Di = i < T ? D[head * T + i] : 0.0f;
        Rows P, dS; // Pᵀ and dSᵀ: a row is a key
        multiplyRows(P, K, Q);
        multiplyRows(dS, V, G);
        for (int r = 0; r < WARP_ROWS; r++)
            differentiate(P[r], dS[r], seen(i, j1 + r), P[r] * scale, dS[r], Li, Di);
        addProduct(dVs, P, G);
        addProduct(dKs, dS, Q);
    }

    for (int r = 0; r < WARP_ROWS && j1 + r < S; r++) {
        long row = head * S + j1 + r;
        storeRow(dK + row * d, dKs[r], scale);
        storeRow(dV + row * d, dVs[r], 1.0f);
    }
}
#endif

#ifdef BACKWARD_QUERIES
// Algorithm 2 for dQ. The block owns Bq queries; each lane has one key of the streamed tile.
extern "C" __global__ void __launch_bounds__(THREADS, SM_BLOCKS)
    flash_backward_queries(const E *q, const E *k, const E *v, const E *dO, const float *L, const float *D,
                           E *dQ, int T, int S, int causal, float scale) {
    constexpr int Bq = OWN, Bk = PASSING;
    float *Q = shared, *G = Q + Bq * OWN_STRIDE, *K = G + Bq * OWN_STRIDE, *V = K + Bk * PASSING_STRIDE;
    int tiles = (T + Bq - 1) / Bq, i0 = blockIdx.x % tiles * Bq, i1 = i0 + warp() * WARP_ROWS;
    long head = blockIdx.x / tiles;
    Mask seen{T, S, causal != 0};

    loadOwn(Q, q + head * T * d, i0, T);
    loadOwn(G, dO + head * T * d, i0, T);
    Rows Ls, Ds;
    for (int r = 0; r < WARP_ROWS; r++) {
        Ls[r] = i1 + r < T ? L[head * T + i1 + r] : MINUS_INFINITY;
        Ds[r] = i1 + r < T ? D[head * T + i1 + r] : 0.0f;
    }
    Sums dQs = {};
    int end = causal ? min(S, i0 + Bq) : S;
    for (int j0 = 0; j0 < end; j0 += Bk) {
        __syncthreads();
        loadPassing(K, k + head * S * d, j0, S);
        loadPassing(V, v + head * S * d, j0, S);
        __syncthreads();
        Rows P, dS;
        multiplyRows(P, Q, K);
        multiplyRows(dS, G, V);
        for (int r = 0; r < WARP_ROWS; r++)
            differentiate(P[r], dS[r], seen(i1 + r, j0 + lane()), P[r] * scale, dS[r], Ls[r], Ds[r]);
        addProduct(dQs, dS, K);
    }

    for (int r = 0; r < WARP_ROWS && i1 + r < T; r++) storeRow(dQ + (head * T + i1 + r) * d, dQs[r], scale);
}
#endif
