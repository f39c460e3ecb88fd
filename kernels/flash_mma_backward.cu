// FlashAttention-2 backward on tensor cores with mma.sync. With p = exp(q kᵀ · scale − l) and δ = rowsum(do ∘ o):
//
//   dv = pᵀ do     dp = do vᵀ     ds = p ∘ (dp − δ)     dq = ds k · scale     dk = dsᵀ q · scale
//
// Two kernels, each of which recomputes p and dp. In kernel QUERIES a block owns queries, iterates over the keys and
// accumulates dq; in kernel KEYS it owns keys, iterates over the queries and accumulates dk and dv. That takes seven
// matrix multiplications instead of five. But every sum stays in the registers of one warp until it is complete, without
// atomics, so results are bitwise reproducible. QUERIES runs first because it also computes δ, which KEYS reads.
//
// Both kernels have the same structure. A block owns rows of two tensors, X and Z, and iterates over tiles of two others,
// Y and W; the next tile is loaded while the current one is processed:
//
//                X    Z     Y    W     scores    dp        sums
//   QUERIES      q    do    k    v     X · Yᵀ    Z · Wᵀ    dq = ds · Y
//   KEYS         k    v     q    do    X · Yᵀ    Z · Wᵀ    dk = ds · Y,  dv = p · W      (all transposed)
//
// The grid of warps, the merging of results and the macros are those of flash_mma_forward.cu. One more macro:
//   QUERIES or KEYS   which kernel

#include "mma.cuh"

#ifdef KEYS
constexpr bool OWNS_KEYS = true;
#else
constexpr bool OWNS_KEYS = false;
#endif
constexpr int THREADS = ROW_WARPS * COLUMN_WARPS * 32;
constexpr int WARP_ROWS = ROW_TILES * 16;
constexpr int ROWS = ROW_WARPS * WARP_ROWS;
constexpr int TILE = COLUMN_WARPS * COLUMNS;
constexpr int TILE_BYTES = TILE * STRIDE;
constexpr int RESULTS = OWNS_KEYS ? 2 : 1; // ds · Y and p · W

// p, at most 1, is scaled by 2^P_EXPONENT for dv in fp16, which loses precision below 2⁻¹⁴ and underflows below 2⁻²⁴.
template <typename E> constexpr int P_EXPONENT = 0;
template <> constexpr int P_EXPONENT<fp16> = 15;
constexpr float P_UNIT = 1.0f / (1 << P_EXPONENT<T>);

using Scores = Sums[ROW_TILES][COLUMNS / 8]; // scores of a warp and tile; later p, dp and ds

// A warp's gradient accumulators. A thread has two rows of each 16.
struct Gradients {
    Sums sums[RESULTS][ROW_TILES][D / 8];

    __device__ __forceinline__ Gradients() {
#pragma unroll
        for (int r = 0; r < RESULTS; r++)
#pragma unroll
            for (int m = 0; m < ROW_TILES; m++)
#pragma unroll
                for (int n = 0; n < D / 8; n++) sums[r][m][n] = {};
    }

    __device__ __forceinline__ void add(int result, const Scores &p, const unsigned char *y) {
        float decay[ROW_TILES][2];
#pragma unroll
        for (int m = 0; m < ROW_TILES; m++) decay[m][0] = decay[m][1] = 1;
        Left left[COLUMNS / DEPTH][ROW_TILES];
        asLeft(left, p);
        addProduct(sums[result], decay, left, y);
    }

    // Number of values per lane; put and merge use shared memory as [values, lanes].
    static constexpr int VALUES = RESULTS * ROW_TILES * D / 2;

    __device__ __forceinline__ void put(float *to) {
        each([&](float &value, int i) { to[32 * i] = value; });
    }

    __device__ __forceinline__ void merge(const float *other) {
        each([&](float &value, int i) { value += other[32 * i]; });
    }

    template <typename Action> __device__ __forceinline__ void each(Action action) {
        int number = 0;
#pragma unroll
        for (int r = 0; r < RESULTS; r++)
#pragma unroll
            for (int m = 0; m < ROW_TILES; m++)
#pragma unroll
                for (int n = 0; n < D / 8; n++)
#pragma unroll
                    for (int i = 0; i < 4; i++) action(sums[r][m][n].value[i], number++);
    }

    __device__ __forceinline__ void store(int result, const Rows<T> &to, int firstRow, float factor, int lane) const {
#pragma unroll
        for (int m = 0; m < ROW_TILES; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                int row = firstRow + m * 16 + half * 8 + lane / 4;
                if (row >= to.count) continue;
#pragma unroll
                for (int n = 0; n < D / 8; n++) {
                    const float *value = &sums[result][m][n].value[2 * half];
                    storePair(to.row(row) + n * 8 + lane % 4 * 2, value[0] * factor, value[1] * factor);
                }
            }
    }
};
static_assert(ROW_WARPS * Gradients::VALUES * 32 * 4 <= 2 * ROWS * STRIDE + 4 * TILE_BYTES || COLUMN_WARPS == 1,
              "results to be merged must fit into shared memory");

// l · log₂ e and δ of the queries: of a thread's rows in kernel QUERIES, of the tile's columns in kernel KEYS. In KEYS they
// are in shared memory as [l and δ, TILE], and P_EXPONENT is subtracted from l.
struct Statistics {
    float l[ROW_TILES][2], delta[ROW_TILES][2];
    const float *column;

    __device__ __forceinline__ float lOf(int m, int n, int i) const {
        return OWNS_KEYS ? column[n * 8 + i % 2] : l[m][i / 2];
    }
    __device__ __forceinline__ float deltaOf(int m, int n, int i) const {
        return OWNS_KEYS ? column[TILE + n * 8 + i % 2] : delta[m][i / 2];
    }
};

// Sets a warp's queries in shared memory to zero if they have no keys (l is +∞): their ds is 0, but 0 · −∞ would be NaN. Warps
// with the same queries all write the same zeros; p and ds are 0 for the old values and for the new ones.
__device__ __forceinline__ void clearQueriesWithoutKeys(unsigned char *queries, const float *l) {
    int lane = laneId();
#pragma unroll
    for (int first = 0; first < COLUMNS; first += 32) {
        bool clears = first + lane < COLUMNS && l[first + lane] == INFINITE;
        if (__any_sync(0xffffffffu, clears)) {
            for (int at = 0; clears && at < CHUNKS; at++)
                *(uint4 *)(queries + (first + lane) * STRIDE + at * ACCESS) = make_uint4(0, 0, 0, 0);
            __syncwarp();
        }
    }
}

// Replaces scores by p.
__device__ __forceinline__ void weigh(Scores &p, const Statistics &of, float scaleLog2) {
#pragma unroll
    for (int m = 0; m < ROW_TILES; m++)
#pragma unroll
        for (int n = 0; n < COLUMNS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) p[m][n].value[i] = powerOf2(p[m][n].value[i] * scaleLog2 - of.lOf(m, n, i));
}

// Replaces dp by ds.
__device__ __forceinline__ void differentiate(Scores &dp, const Scores &p,
                                              const Statistics &of) {
#pragma unroll
    for (int m = 0; m < ROW_TILES; m++)
#pragma unroll
        for (int n = 0; n < COLUMNS / 8; n++)
#pragma unroll
            for (int i = 0; i < 4; i++)
                dp[m][n].value[i] =
                    p[m][n].value[i] * (OWNS_KEYS ? P_UNIT : 1) * (dp[m][n].value[i] - of.deltaOf(m, n, i));
}

// The main loop of a block: its rows of X and Z, and all tiles of Y and W from column begin to column end. Row r uses the
// columns from from(r) to to(r) − 1; the others are masked.
template <typename From, typename To, typename Copy>
__device__ __forceinline__ void accumulate(Gradients &gradients, Statistics &statistics, unsigned char *shared,
                                      const Rows<const T> &y, const Rows<const T> &w, int firstRow, int begin, int end,
                                      From from, To to, Copy copyStatistics, float scaleLog2) {
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int warpRow = warp / COLUMN_WARPS, warpColumn = warp % COLUMN_WARPS;
    const unsigned char *x = shared + warpRow * WARP_ROWS * STRIDE, *z = x + ROWS * STRIDE;
    unsigned char *tiles = shared + 2 * ROWS * STRIDE; // [2, Y and W, TILE_BYTES]
    int stage = 0;
    for (int tile = begin; tile < end; tile += TILE, stage ^= 1) {
        awaitCopies();
        __syncthreads(); // the tile has been loaded, and no warp still reads the previous one
        if (tile + TILE < end) {
            unsigned char *next = tiles + (stage ^ 1) * 2 * TILE_BYTES;
            copyRows<TILE, THREADS>(next, y, tile + TILE);
            copyRows<TILE, THREADS>(next + TILE_BYTES, w, tile + TILE);
            copyStatistics(stage ^ 1, tile + TILE);
        }
        int first = tile + warpColumn * COLUMNS;
        if (first >= to(firstRow + WARP_ROWS - 1) || first + COLUMNS <= from(firstRow)) continue;
        unsigned char *yTile = tiles + stage * 2 * TILE_BYTES + warpColumn * COLUMNS * STRIDE;
        const unsigned char *wTile = yTile + TILE_BYTES;
        const float *columns = (const float *)(tiles + 4 * TILE_BYTES) + stage * 2 * TILE + warpColumn * COLUMNS;
        if constexpr (OWNS_KEYS) clearQueriesWithoutKeys(yTile, columns);

        Scores p, dp;
        bool hides = first + COLUMNS > to(firstRow) || first < from(firstRow + WARP_ROWS - 1);
        auto hide = [&](Scores &s) { // sets masked columns to zero, even if they are NaN
#pragma unroll
            for (int m = 0; m < ROW_TILES; m++)
#pragma unroll
                for (int n = 0; n < COLUMNS / 8; n++)
#pragma unroll
                    for (int i = 0; i < 4; i++) {
                        int row = firstRow + m * 16 + lane / 4 + i / 2 * 8;
                        int column = first + n * 8 + lane % 4 * 2 + i % 2;
                        if (column < from(row) || column >= to(row)) s[m][n].value[i] = 0;
                    }
        };

        productOfRows<!OWNS_KEYS>(p, x, yTile); // queries may be infinite; as y they have been cleared
        if (OWNS_KEYS) statistics.column = columns + lane % 4 * 2;
        weigh(p, statistics, scaleLog2);
        if (hides) hide(p);
        if constexpr (OWNS_KEYS) gradients.add(1, p, wTile);
        productOfRows(dp, z, wTile);
        differentiate(dp, p, statistics);
        if (hides) hide(dp);
        gradients.add(0, dp, yTile);
    }

    if constexpr (COLUMN_WARPS > 1) {
        awaitCopies(); // in case there was no tile
        float *place = (float *)shared + warpRow * Gradients::VALUES * 32 + lane;
#pragma unroll 1
        for (int column = 1; column < COLUMN_WARPS; column++) {
            __syncthreads();
            if (warpColumn == column) gradients.put(place);
            __syncthreads();
            if (warpColumn == 0) gradients.merge(place);
        }
    }
}

// Parameters below: q, o, dO, dQ [batch, heads, queries, D] and k, v, dK, dV [batch, heads, keys, D], with strides of
// batches, heads and rows in elements; l [batch, heads, queries], contiguous; statistics [2, batch, heads, queries]:
// l · log₂ e − P_EXPONENT, and δ.

#ifdef QUERIES
extern "C" __global__ void __launch_bounds__(THREADS, SM_BLOCKS)
    flash_mma_queries(const T *q, const T *k, const T *v, const T *o, const T *dO, const float *l, float *statistics,
                      T *dQ, int queries, int keys, int causal, float scale, long qBatch, long qHead, int qRow,
                      long kBatch, long kHead, int kRow, long vBatch, long vHead, int vRow, long oBatch, long oHead,
                      int oRow, long dOBatch, long dOHead, int dORow, long dQBatch, long dQHead, int dQRow) {
    extern __shared__ __align__(16) unsigned char shared[];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int head = blockIdx.x, batch = blockIdx.y, plane = batch * gridDim.x + head;
    int blockRow = (gridDim.z - 1 - blockIdx.z) * ROWS; // the longest blocks first
    int firstRow = blockRow + warp / COLUMN_WARPS * WARP_ROWS;
    Rows<const T> qs{q + batch * qBatch + head * qHead, qRow, queries};
    Rows<const T> ks{k + batch * kBatch + head * kHead, kRow, keys};
    Rows<const T> vs{v + batch * vBatch + head * vHead, vRow, keys};
    Rows<const T> os{o + batch * oBatch + head * oHead, oRow, queries};
    Rows<const T> dOs{dO + batch * dOBatch + head * dOHead, dORow, queries};

    auto seen = [&](int row) { return causal ? min(row + 1, keys) : keys; }; // number of keys that a query attends to
    unsigned char *tiles = shared + 2 * ROWS * STRIDE;
    copyRows<ROWS, THREADS>(shared, qs, blockRow);
    copyRows<ROWS, THREADS>(shared + ROWS * STRIDE, dOs, blockRow);
    copyRows<TILE, THREADS>(tiles, ks, 0);
    copyRows<TILE, THREADS>(tiles + TILE_BYTES, vs, 0);

    Statistics own;
#pragma unroll
    for (int m = 0; m < ROW_TILES; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
            int row = firstRow + m * 16 + half * 8 + lane / 4;
            bool there = row < queries;
            float products = 0;
            for (int chunk = lane % 4; there && chunk < CHUNKS; chunk += 4) { // four lanes share a row
                auto os4 = Elements<T, VECTOR>::load(os.row(row) + chunk * VECTOR);
                auto dOs4 = Elements<T, VECTOR>::load(dOs.row(row) + chunk * VECTOR);
#pragma unroll
                for (int i = 0; i < VECTOR; i++) products += os4[i] * dOs4[i];
            }
            products = rowSum(products);
            long place = (long)plane * queries + row;
            float lRow = there ? l[place] : -INFINITE;
            own.l[m][half] = lRow == -INFINITE ? INFINITE : lRow * LOG2_E; // +∞ makes p = 0 for a query without keys
            own.delta[m][half] = products;
            if (there && warp % COLUMN_WARPS == 0 && lane % 4 == 0) {
                statistics[place] = own.l[m][half] - P_EXPONENT<T>;
                statistics[(long)gridDim.x * gridDim.y * queries + place] = products;
            }
        }

    Gradients gradients;
    auto zero = [](int) { return 0; };
    auto nothing = [](int, int) {};
    accumulate(gradients, own, shared, ks, vs, firstRow, 0, seen(min(blockRow + ROWS, queries) - 1), zero, seen, nothing,
          scale * LOG2_E);
    if (warp % COLUMN_WARPS == 0)
        gradients.store(0, Rows<T>{dQ + batch * dQBatch + head * dQHead, dQRow, queries}, firstRow, scale, lane);
}
#endif

#ifdef KEYS
extern "C" __global__ void __launch_bounds__(THREADS, SM_BLOCKS)
    flash_mma_keys(const T *q, const T *k, const T *v, const T *dO, const float *statistics, T *dK, T *dV,
                   int queries, int keys, int causal, float scale, long qBatch, long qHead, int qRow, long kBatch,
                   long kHead, int kRow, long vBatch, long vHead, int vRow, long dOBatch, long dOHead, int dORow,
                   long dKBatch, long dKHead, int dKRow, long dVBatch, long dVHead, int dVRow) {
    extern __shared__ __align__(16) unsigned char shared[];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int head = blockIdx.x, batch = blockIdx.y, plane = batch * gridDim.x + head;
    int blockRow = blockIdx.z * ROWS; // the longest blocks come first
    int firstRow = blockRow + warp / COLUMN_WARPS * WARP_ROWS;
    Rows<const T> qs{q + batch * qBatch + head * qHead, qRow, queries};
    Rows<const T> ks{k + batch * kBatch + head * kHead, kRow, keys};
    Rows<const T> vs{v + batch * vBatch + head * vHead, vRow, keys};
    Rows<const T> dOs{dO + batch * dOBatch + head * dOHead, dORow, queries};

    auto firstSeeing = [&](int row) { return causal ? row : 0; }; // first query that attends to a key
    auto allQueries = [&](int) { return queries; };
    unsigned char *tiles = shared + 2 * ROWS * STRIDE;
    float *columns = (float *)(tiles + 4 * TILE_BYTES); // [2, l and δ, TILE]
    auto copyStatistics = [&](int stage, int tile) { // past the end they are zero, as are q and do, so ds = 1 · (0 − 0)
        for (int i = threadIdx.x; i < 2 * TILE; i += THREADS) {
            int column = tile + i % TILE;
            bool there = column < queries;
            long row = ((long)(i / TILE) * gridDim.x * gridDim.y + plane) * queries + (there ? column : 0);
            unsigned target = sharedAddress(columns + stage * 2 * TILE + i);
            asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(statistics + row),
                         "r"(there ? 4 : 0)
                         : "memory");
        }
    };
    int begin = firstSeeing(blockRow) / TILE * TILE;
    copyRows<ROWS, THREADS>(shared, ks, blockRow);
    copyRows<ROWS, THREADS>(shared + ROWS * STRIDE, vs, blockRow);
    if (begin < queries) {
        copyRows<TILE, THREADS>(tiles, qs, begin);
        copyRows<TILE, THREADS>(tiles + TILE_BYTES, dOs, begin);
        copyStatistics(0, begin);
    }

    Gradients gradients;
    Statistics ofTile;
    accumulate(gradients, ofTile, shared, qs, dOs, firstRow, begin, queries, firstSeeing, allQueries, copyStatistics,
          scale * LOG2_E);
    if (warp % COLUMN_WARPS == 0) {
        gradients.store(0, Rows<T>{dK + batch * dKBatch + head * dKHead, dKRow, keys}, firstRow, scale, lane);
        gradients.store(1, Rows<T>{dV + batch * dVBatch + head * dVHead, dVRow, keys}, firstRow, P_UNIT, lane);
    }
}
#endif
