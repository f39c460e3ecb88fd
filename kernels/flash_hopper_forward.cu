// FlashAttention forward on Hopper:   O = softmax(Q Kᵀ / √d) V   and   L = log Σ exp(scores)   without a stored matrix of scores.
//
// Warps are specialised. In the first warpgroup of a block, the producer, one thread issues TMA loads of tiles into shared memory.
// The other warpgroups, the consumers, compute. A consumer has 64 queries and iterates over the keys in blocks, from the last one
// that its queries attend to down to the first:
//
//   S = Q Kᵀ         wgmma, both operands in shared memory
//   P = 2^(S − r)    in registers; S in log₂ units, r a reference close to the row's largest score
//   O += P V         wgmma, P as operand from registers
//
// While the tensor cores compute O += P V of one block, the warpgroup computes the exponentials of the next one.
//
// Online softmax with a lazy reference: every r gives the same O / Σ P as long as nothing overflows or underflows. If r is the
// row's largest score so far, as usual, the P of that key is exactly 1 and has no rounding error. This lowers the error of O by a
// few percent, and by more for queries that attend to few keys. Without a mask r is therefore the maximum; with a causal mask, for
// the first queries only. The other causal queries, which take nearly all of the time, avoid the maximum: P is computed with the
// current r, and only its sums are checked. If a sum is too large, or r is not set yet, the scores are recomputed, r is raised to
// the maximum and O is rescaled. For queries that attend to at most 64 keys, whose O is largest, the rounding error of P is also
// multiplied with V.
// The order of all sums is independent of timing, so results are bitwise reproducible.
//
// The kernel is persistent: at most one block per multiprocessor. Tiles are assigned statically, from the longest to the shortest,
// in rounds that alternate in direction, without an atomic counter, so that concurrent launches do not interfere.
//
// Macros set at compile time:
//   ELEMENT      bf16 or fp16
//   DIMENSION    16, 32, 64, 80 or 128: d or the next larger; TMA reads zeros beyond d and writes nothing there
//   CONSUMERS    2 or 3 warpgroups
//   SPLIT_KEYS   0: each consumer has separate queries, 64 each; 1: all have the same 64 queries and interleave the blocks of
//                keys, for launches with few tiles
//   CLUSTER      blocks of a cluster, which split the keys of a tile in the same way; more than 1 only with SPLIT_KEYS
//   KEYS         keys per block of keys, 64 or 128
//   STAGES       blocks of keys, and of values, in shared memory; per consumer with SPLIT_KEYS

#include "exponential.cuh"
#include "hopper.cuh"
#include "wgmma.cuh"

using T = ELEMENT;

constexpr int D = DIMENSION;
constexpr int WARPGROUP = 128;
constexpr int WARPGROUP_ROWS = 64;
constexpr int THREADS = (1 + CONSUMERS) * WARPGROUP;
constexpr int ROWS = SPLIT_KEYS ? WARPGROUP_ROWS : CONSUMERS * WARPGROUP_ROWS; // queries in a tile
constexpr int SHARES = SPLIT_KEYS ? CONSUMERS : 1;                             // consumers of a block that split the keys
constexpr int Q_BUFFERS = 2;                                                   // the next tile's queries are prefetched
static_assert(SPLIT_KEYS || CLUSTER == 1, "blocks of a cluster split the keys");

// Registers per thread, of 65,536 per multiprocessor: the producer needs few.
constexpr int LOADER_REGISTERS = CONSUMERS == 3 ? 32 : 24;
constexpr int CONSUMER_REGISTERS = CONSUMERS == 3 ? 160 : 240;

// True if registers, besides those of S, P and O, suffice for a separate loop of the careful step without a mask.
constexpr bool ROOM = KEYS / 2 + KEYS / 4 + DIMENSION / 2 + 40 <= CONSUMER_REGISTERS;

// A matrix is stored in panels of 64 columns, with rows of 128 bytes; one narrower than 64 is padded with zeros.
constexpr int PANEL = 64;
constexpr int PANELS = (D + PANEL - 1) / PANEL;
constexpr int Q_PANEL = WARPGROUP_ROWS * ROW_BYTES;
constexpr int Q_BYTES = PANELS * Q_PANEL; // per warpgroup
constexpr int KEY_PANEL = KEYS * ROW_BYTES;
constexpr int STAGE = PANELS * KEY_PANEL;
constexpr int Q_GROUPS = ROWS / WARPGROUP_ROWS;
constexpr int PLACES = SHARES * STAGES; // slots for blocks of keys

// Values per thread of a partial result: O, two references, two sums.
constexpr int PARTIAL = D / 2 + 4;

// Offsets in shared memory, whose start is 1024-byte aligned.
constexpr int Q_AT = 0;
constexpr int K_AT = Q_AT + Q_BUFFERS * Q_GROUPS * Q_BYTES;
constexpr int V_AT = K_AT + PLACES * STAGE;
constexpr int PARTIALS_AT = V_AT + PLACES * STAGE;
constexpr int BARRIERS_AT = PARTIALS_AT + (SHARES - 1) * PARTIAL * WARPGROUP * (int)sizeof(float);
// Then barriers of 8 bytes: Q full, Q empty, K full, K empty, V full, V empty, partial results given, partial result taken.

// Consumers with separate queries issue wgmma in turns, so that one's exponentials overlap with the others' GEMMs.
constexpr bool TAKE_TURNS = !SPLIT_KEYS;

// Named barriers: per consumer, its turn to issue wgmma; per consumer, its tile of O is complete; one of all consumers.
constexpr int TURN = 1, STORE = TURN + CONSUMERS, MERGE = STORE + CONSUMERS;

constexpr float INFINITE = __builtin_bit_cast(float, 0x7f800000);
constexpr float LN_2 = 0.693147180559945f;
constexpr float MOST = 32768; // limit of a thread's sum of P over one block; fp16 overflows at 65,504
constexpr int FEW = 1024; // up to this many keys, the reference is always the maximum

// Rank of this block in its cluster.
__device__ __forceinline__ int blockRank() { return CLUSTER > 1 ? blockIdx.x % CLUSTER : 0; }

struct Shape { int queries, keys, heads, batch, causal; };

// A tile as one block processes it: its last block of keys, and every CLUSTER-th before that.
// The head is counted over the whole batch. The first query is a multiple of 64, negative if the tile has empty groups.
struct Tile { int firstQuery, head, last; };

// Computes a block's tile in this round; returns false if no tile is left. Tiles are ordered from the last queries of all heads
// to the first, because with a causal mask the last queries attend to the most keys. Tiles are filled with groups of 64 queries
// from the last group on, so that the partial tile is the shortest: it starts before the first query, with empty groups. Rounds
// alternate in direction over the blocks.
__device__ __forceinline__ bool tileOf(const Shape &shape, int round, Tile &tile) {
    int clusters = gridDim.x / CLUSTER, cluster = blockIdx.x / CLUSTER;
    int number = round * clusters + (round % 2 == 0 ? cluster : clusters - 1 - cluster);
    int groups = (shape.queries + WARPGROUP_ROWS - 1) / WARPGROUP_ROWS, heads = shape.heads * shape.batch;
    if (number >= (groups + Q_GROUPS - 1) / Q_GROUPS * heads) return false;
    int fromLast = number / heads;
    tile.head = number - fromLast * heads;
    tile.firstQuery = (groups - (fromLast + 1) * Q_GROUPS) * WARPGROUP_ROWS;
    int seen = shape.causal ? min(shape.keys, tile.firstQuery + ROWS) : shape.keys;
    tile.last = (seen - 1) / KEYS - blockRank(); // negative if there is no block of keys
    return true;
}

// Addresses in shared memory.
struct Shared {
    unsigned start;

    __device__ __forceinline__ unsigned q(int buffer, int group) const {
        return start + Q_AT + (buffer * Q_GROUPS + group) * Q_BYTES;
    }
    __device__ __forceinline__ unsigned k(int place) const { return start + K_AT + place * STAGE; }
    __device__ __forceinline__ unsigned v(int place) const { return start + V_AT + place * STAGE; }
    __device__ __forceinline__ unsigned barrier(int i) const { return start + BARRIERS_AT + 8 * i; }
    __device__ __forceinline__ unsigned qFull(int buffer) const { return barrier(buffer); }
    __device__ __forceinline__ unsigned qEmpty(int buffer) const { return barrier(Q_BUFFERS + buffer); }
    __device__ __forceinline__ unsigned kFull(int place) const { return barrier(2 * Q_BUFFERS + place); }
    __device__ __forceinline__ unsigned kEmpty(int place) const { return barrier(2 * Q_BUFFERS + PLACES + place); }
    __device__ __forceinline__ unsigned vFull(int place) const { return barrier(2 * Q_BUFFERS + 2 * PLACES + place); }
    __device__ __forceinline__ unsigned vEmpty(int place) const { return barrier(2 * Q_BUFFERS + 3 * PLACES + place); }
    __device__ __forceinline__ unsigned given() const { return barrier(2 * Q_BUFFERS + 4 * PLACES); }
    __device__ __forceinline__ unsigned taken() const { return barrier(2 * Q_BUFFERS + 4 * PLACES + 1); }

    __device__ __forceinline__ void init() const {
        constexpr int READERS = 4 * CONSUMERS / SHARES; // warps that read a stage
        for (int i = 0; i < Q_BUFFERS; i++) {
            barrierInit(qFull(i), 1);
            barrierInit(qEmpty(i), Q_GROUPS);
        }
        for (int i = 0; i < PLACES; i++) {
            barrierInit(kFull(i), 1);
            barrierInit(kEmpty(i), READERS);
            barrierInit(vFull(i), 1);
            barrierInit(vEmpty(i), READERS);
        }
        if (CLUSTER > 1) {
            barrierInit(given(), 4 * (CLUSTER - 1)); // in the first block, signalled by the warps of the others' first consumers
            barrierInit(taken(), 4);                 // in the others, signalled by the warps of the first block's first consumer
        }
        barrierInitFence();
    }
};

// The slot of the count-th tile in a circular buffer of N slots, and the parity of its barriers' phase.
template <int N> struct Turn {
    int place;
    unsigned parity;

    __device__ __forceinline__ explicit Turn(unsigned count, int firstPlace = 0)
        : place(firstPlace + count % N), parity(count / N & 1) {}
};

// With SPLIT_KEYS each consumer has separate slots, so that a waiting thread is never a whole cycle ahead of a reading one.
using Stage = Turn<STAGES>;

// ---- The producer: one thread.

__device__ __forceinline__ void loadRows(
    unsigned to, int panelBytes, const TensorMap &map, unsigned full, int row, int head, int batch) {
#pragma unroll
    for (int p = 0; p < PANELS; p++)
        tmaLoad(to + p * panelBytes, map, full, p * PANEL, row, head, batch);
}

__device__ __forceinline__ void load(
    const Shared &shared, const Shape &shape,
    const TensorMap &q, const TensorMap &k, const TensorMap &v) {
    Tile tile;
    unsigned loaded[SHARES] = {}; // blocks loaded so far; per consumer with SPLIT_KEYS
    for (int round = 0; tileOf(shape, round, tile); round++) {
        Turn<Q_BUFFERS> buffer(round);
        unsigned qFull = shared.qFull(buffer.place);
        int batch = tile.head / shape.heads, head = tile.head - batch * shape.heads;
        barrierWait(shared.qEmpty(buffer.place), buffer.parity ^ 1);
        int leftOut = max(0, -tile.firstQuery / WARPGROUP_ROWS);
        barrierExpect(qFull, (Q_GROUPS - leftOut) * Q_BYTES);
        for (int g = leftOut; g < Q_GROUPS; g++) {
            int row = tile.firstQuery + g * WARPGROUP_ROWS;
            loadRows(shared.q(buffer.place, g), Q_PANEL, q, qFull, row, head, batch);
        }
        for (int n = tile.last; n >= 0;)
#pragma unroll
            for (int share = 0; share < SHARES; share++, n -= CLUSTER) {
                if (n < 0) break;
                Stage stage(loaded[share]++, share * STAGES);
                unsigned kFull = shared.kFull(stage.place), vFull = shared.vFull(stage.place);
                barrierWait(shared.kEmpty(stage.place), stage.parity ^ 1);
                barrierExpect(kFull, STAGE);
                loadRows(shared.k(stage.place), KEY_PANEL, k, kFull, n * KEYS, head, batch);
                barrierWait(shared.vEmpty(stage.place), stage.parity ^ 1);
                barrierExpect(vFull, STAGE);
                loadRows(shared.v(stage.place), KEY_PANEL, v, vFull, n * KEYS, head, batch);
            }
    }
}

// ---- A consumer. A thread has elements of two rows, 8 apart; element i of S, P or O belongs to row i/2 % 2.

using Scores = float[KEYS / 2];
using Output = float[D / 2];
using Packed = unsigned[KEYS / 4];

__device__ __forceinline__ float logarithm2(float x) {
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Reductions over the four lanes that share a row.
__device__ __forceinline__ float rowMax(float x) {
    x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
    return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}
__device__ __forceinline__ float rowSum(float x) {
    x += __shfl_xor_sync(~0u, x, 1);
    return x + __shfl_xor_sync(~0u, x, 2);
}

// The online softmax of a thread's two rows.
struct Softmax {
    float reference[2]; // r in log₂ units; −∞ until a score is not −∞
    float sum[2];       // this thread's partial Σ P

    __device__ __forceinline__ Softmax() : reference{-INFINITE, -INFINITE}, sum{0, 0} {}

    // Replaces scores by P and raises the references to the row maxima. Returns whether O must be multiplied by factor in some
    // row of the warp.
    __device__ __forceinline__ bool raise(Scores &s, float scale, float (&factor)[2]) {
        float largest[4] = {s[0], s[1], s[2], s[3]};
#pragma unroll
        for (int i = 4; i < KEYS / 2; i++) largest[i % 4] = fmaxf(largest[i % 4], s[i]);
        float shift[2];
        bool raised = false;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float next = fmaxf(reference[r], rowMax(fmaxf(largest[2 * r], largest[2 * r + 1])) * scale);
            raised |= next != reference[r];
            shift[r] = next == -INFINITE ? 0 : next; // −∞ − (−∞) would be NaN
            factor[r] = powerOf2(reference[r] - shift[r]);
            reference[r] = next;
        }
        float sums[4] = {0, 0, 0, 0};
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++) {
            s[i] = powerOf2(fmaf(s[i], scale, -shift[i / 2 % 2]));
            sums[i % 4] += s[i];
        }
        sum[0] = sum[0] * factor[0] + (sums[0] + sums[1]);
        sum[1] = sum[1] * factor[1] + (sums[2] + sums[3]);
        return __any_sync(~0u, raised);
    }

    // Replaces unmasked scores by P with the current references. Returns false if those are too small in
    // some row of the warp; then the scores are lost, and the sums are unchanged.
    __device__ __forceinline__ bool keep(Scores &s, float scale) {
        float sums[4] = {0, 0, 0, 0};
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++) {
            s[i] = powerOf2(fmaf(s[i], scale, -reference[i / 2 % 2]));
            sums[i % 4] += s[i];
        }
        sums[0] += sums[1];
        sums[2] += sums[3];
        if (__any_sync(~0u, !(sums[0] + sums[2] < MOST))) return false; // false also for NaN
        sum[0] += sums[0];
        sum[1] += sums[2];
        return true;
    }
};

__device__ __forceinline__ unsigned sharedWord(unsigned address) {
    unsigned word;
    asm volatile("ld.shared.b32 %0, [%1];" : "=r"(word) : "r"(address));
    return word;
}

// Recomputes S = Q Kᵀ with mma.sync, for the warp's 16 rows.
__device__ __forceinline__ void scoresAgain(Scores &s, unsigned q, unsigned k, int warp, int lane) {
    int row = lane / 4, byte = lane % 4 * 4;
#pragma unroll
    for (int i = 0; i < KEYS / 2; i++) s[i] = 0;
#pragma unroll 1
    for (int step = 0; step < D / 16; step++) {
        unsigned qs = q + step / 4 * Q_PANEL, ks = k + step / 4 * KEY_PANEL;
        int column = step % 4 * 32 + byte;
        unsigned a[4];
#pragma unroll
        for (int i = 0; i < 4; i++) a[i] = sharedWord(qs + swizzled(warp * 16 + row + i % 2 * 8, column + i / 2 * 16));
#pragma unroll
        for (int j = 0; j < KEYS / 8; j++) {
            unsigned b0 = sharedWord(ks + swizzled(8 * j + row, column));
            unsigned b1 = sharedWord(ks + swizzled(8 * j + row, column + 16));
#define MMA(TYPE)                                                                                                      \
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 "                                        \
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"                                     \
                 : "+f"(s[4 * j]), "+f"(s[4 * j + 1]), "+f"(s[4 * j + 2]), "+f"(s[4 * j + 3])                          \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1))
            if constexpr (sameType<T, bf16>) {
                MMA("bf16");
            } else {
                MMA("f16");
            }
        }
    }
}

// Issues the wgmma of S = Q Kᵀ.
__device__ __forceinline__ void askScores(Scores &s, unsigned q, unsigned k) {
    unsigned long long queries = operand(q), keys = operand(k);
#pragma unroll
    for (int step = 0; step < D / 16; step++)
        wgmma<T, ALONG_SUM, ALONG_SUM>(
            s,
            further(queries, step / 4 * Q_PANEL + step % 4 * 32),
            further(keys, step / 4 * KEY_PANEL + step % 4 * 32),
            step > 0);
    wgmmaCommit();
}

// Issues the wgmma of O += P V, for a block's first 4 N keys.
template <int N> __device__ __forceinline__ void askOutput(Output &o, const unsigned (&p)[N], unsigned v) {
    unsigned long long values = operand(v, PANELS > 1 ? KEY_PANEL : 0);
#pragma unroll
    for (int step = 0; step < N / 4; step++)
        wgmma<T, ACROSS_SUM>(o, p + 4 * step, further(values, step * 16 * ROW_BYTES), true);
    wgmmaCommit();
}

__device__ __forceinline__ void pack(Packed &p, const Scores &s) {
#pragma unroll
    for (int i = 0; i < KEYS / 4; i++) p[i] = Element<T>::pair(s[2 * i], s[2 * i + 1]);
    pin(p);
}

// Packs the rounding error of p, s − p, for the first 4 N keys.
template <int N> __device__ __forceinline__ void packRest(unsigned (&rest)[N], const Packed &p, const Scores &s) {
#pragma unroll
    for (int i = 0; i < N; i++)
        rest[i] = Element<T>::pair(s[2 * i] - Element<T>::get(p, 2 * i), s[2 * i + 1] - Element<T>::get(p, 2 * i + 1));
    pin(rest);
}

struct Consumer {
    const Shared &shared;
    const Shape &shape;
    float scale;
    int number;

    Output o;
    Softmax softmax;
    Packed p;

    __device__ __forceinline__ Consumer(const Shared &shared, const Shape &shape, float scale, int number)
        : shared(shared), shape(shape), scale(scale), number(number) {}

    // Index in the warpgroup. Read again at each use, because keeping it would cost registers.
    __device__ __forceinline__ int thread() const {
        int thread;
        asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
        return thread % WARPGROUP;
    }
    __device__ __forceinline__ int warp() const { return thread() / 32; }
    __device__ __forceinline__ int lane() const { return thread() % 32; }
    __device__ __forceinline__ int row() const { return warp() * 16 + lane() / 4; } // the first of the two rows

    // Sets the scores of keys that a row does not attend to: −∞.
    __device__ __forceinline__ void mask(Scores &s, int firstKey, int firstRow) const {
        int query = firstRow + row(), column = lane() % 4 * 2, seen[2];
#pragma unroll
        for (int r = 0; r < 2; r++)
            seen[r] = (shape.causal ? min(shape.keys, query + 8 * r + 1) : shape.keys) - firstKey - column;
#pragma unroll
        for (int i = 0; i < KEYS / 2; i++)
            if (i / 4 * 8 + i % 2 >= seen[i / 2 % 2]) s[i] = -INFINITE;
    }

    __device__ __forceinline__ void release(unsigned barrier) const {
        if (threadIdx.x % 32 == 0) barrierArrive(barrier);
    }

    // Consumers are warpgroups 1, 2 …
    __device__ __forceinline__ void takeTurn() const {
        if (TAKE_TURNS) namedSync(TURN - 1 + threadIdx.x / WARPGROUP, 2 * WARPGROUP);
    }
    __device__ __forceinline__ void passTurn() const {
        if (TAKE_TURNS) namedArrive(TURN + threadIdx.x / WARPGROUP % CONSUMERS, 2 * WARPGROUP);
    }

    // Computes P of a tile's first block, with the unrounded values in s. Nothing overlaps with it.
    __device__ __forceinline__ void begin(Scores &s, unsigned q, Stage stage, int firstKey, int firstRow) {
        float factor[2];
        barrierWait(shared.kFull(stage.place), stage.parity);
        wgmmaFence();
        askScores(s, q, shared.k(stage.place));
        wgmmaWait<0>();
        pin(s);
        release(shared.kEmpty(stage.place));
        mask(s, firstKey, firstRow);
        softmax.raise(s, scale, factor);
        pack(p, s);
    }

    // Computes P V of the previous block, and scores and exponentials of this one. CAREFUL: always with the row maximum.
    template <bool CAREFUL>
    __device__ __forceinline__ void step(unsigned q, Stage before, Stage stage, int firstKey, int firstRow, bool masked) {
        Scores s;
        float factor[2];
        unsigned k = shared.k(stage.place);
        barrierWait(shared.kFull(stage.place), stage.parity);
        takeTurn();
        wgmmaFence();
        askScores(s, q, k);
        barrierWait(shared.vFull(before.place), before.parity);
        wgmmaFence(); // a second one: the compiler requires it after the loop of the wait
        askOutput(o, p, shared.v(before.place));
        passTurn();
        wgmmaWait<1>();
        pin(s);

        bool raised;
        if (CAREFUL) {
            if (masked) mask(s, firstKey, firstRow);
            raised = softmax.raise(s, scale, factor);
        } else if (softmax.keep(s, scale)) {
            raised = false;
        } else {
            scoresAgain(s, q, k, warp(), lane());
            raised = softmax.raise(s, scale, factor);
        }

        wgmmaWait<0>();
        pin(o);
        release(shared.kEmpty(stage.place));
        release(shared.vEmpty(before.place));
        pack(p, s);
        if (raised)
#pragma unroll
            for (int i = 0; i < D / 2; i++) o[i] *= factor[i / 2 % 2];
        pin(o);
    }

    // Skips a block of keys that none of this consumer's queries attends to. A tile has one turn less than blocks, so a consumer
    // that skips all of them takes no turn for block 0.
    __device__ __forceinline__ void skip(Stage stage, bool turn) const {
        barrierWait(shared.kFull(stage.place), stage.parity);
        __syncwarp();
        release(shared.kEmpty(stage.place));
        barrierWait(shared.vFull(stage.place), stage.parity);
        __syncwarp();
        release(shared.vEmpty(stage.place));
        if (!turn) return;
        takeTurn();
        passTurn();
    }

    // Computes the tile's last P V; P may be given as a sum of several operands.
    template <typename... Parts> __device__ __forceinline__ void end(Stage before, const Parts &...parts) {
        barrierWait(shared.vFull(before.place), before.parity);
        wgmmaFence();
        (askOutput(o, parts, shared.v(before.place)), ...);
        wgmmaWait<0>();
        pin(o);
        release(shared.vEmpty(before.place));
    }

    // Processes the blocks of keys of a tile, with SPLIT_KEYS those of this consumer; block counts the blocks so far.
    __device__ __forceinline__ void attend(const Tile &tile, unsigned q, unsigned &block, int firstRow) {
        softmax = Softmax();
#pragma unroll
        for (int i = 0; i < D / 2; i++) o[i] = 0;
        pin(o);
        int unmasked = shape.causal ? min(shape.keys, firstRow + 1) : shape.keys;
        int seenByAll = unmasked / KEYS; // number of leading blocks without a mask
        bool few = !shape.causal || firstRow + WARPGROUP_ROWS <= FEW || shape.keys <= FEW;
        int easyBlocks = few ? 0 : seenByAll;
        int share = SHARES > 1 ? number : 0, n = tile.last - share * CLUSTER, place = share * STAGES;
        constexpr int STEP = SHARES * CLUSTER;
        int seenByAny = firstRow < 0 ? 0 : shape.causal ? firstRow + WARPGROUP_ROWS : shape.keys; // keys
#pragma unroll 1
        for (; !SPLIT_KEYS && n >= 0 && n * KEYS >= seenByAny; n--, block++) skip(Stage(block), n > 0);
        if (n < 0) return;
        Scores s;
        begin(s, q, Stage(block, place), n * KEYS, firstRow);
        if (min(seenByAny, shape.keys) <= WARPGROUP_ROWS) { // the only block: also multiply the rounding error of P
            unsigned rest[WARPGROUP_ROWS / 4];
            packRest(rest, p, s);
            end(Stage(block, place), p, rest);
            block++;
            return;
        }
#pragma unroll 1
        for (n -= STEP; n >= (ROOM ? seenByAll : easyBlocks) && n >= 0; n -= STEP, block++)
            step<true>(q, Stage(block, place), Stage(block + 1, place), n * KEYS, firstRow, ROOM || n >= seenByAll);
#pragma unroll 1
        for (; ROOM && n >= easyBlocks && n >= 0; n -= STEP, block++)
            step<true>(q, Stage(block, place), Stage(block + 1, place), n * KEYS, firstRow, false);
#pragma unroll 1
        for (; n >= 0; n -= STEP, block++)
            step<false>(q, Stage(block, place), Stage(block + 1, place), n * KEYS, firstRow, false);
        end(Stage(block++, place), p);
    }

    // Stores the partial O and softmax of this consumer. A thread's values are WARPGROUP apart, which avoids bank conflicts.
    __device__ __forceinline__ void give(float *share) const {
        share += thread();
#pragma unroll
        for (int i = 0; i < D / 2; i++) share[i * WARPGROUP] = o[i];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            share[(D / 2 + r) * WARPGROUP] = softmax.reference[r];
            share[(D / 2 + 2 + r) * WARPGROUP] = softmax.sum[r];
        }
    }

    __device__ __forceinline__ void take(const float *share) {
        share += thread();
        float mine[2], theirs[2];
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float reference = share[(D / 2 + r) * WARPGROUP];
            float larger = fmaxf(softmax.reference[r], reference);
            float shift = larger == -INFINITE ? 0 : larger;
            mine[r] = powerOf2(softmax.reference[r] - shift);
            theirs[r] = powerOf2(reference - shift);
            softmax.sum[r] = softmax.sum[r] * mine[r] + share[(D / 2 + 2 + r) * WARPGROUP] * theirs[r];
            softmax.reference[r] = larger;
        }
#pragma unroll
        for (int i = 0; i < D / 2; i++) o[i] = o[i] * mine[i / 2 % 2] + share[i * WARPGROUP] * theirs[i / 2 % 2];
    }

    // Merges the results of all consumers into the first one's, and those of a cluster's blocks into the first block's.
    __device__ __forceinline__ void merge(float *partials, int round) {
        constexpr int SHARE = PARTIAL * WARPGROUP;
        if (number > 0) give(partials + (number - 1) * SHARE);
        namedSync(MERGE, CONSUMERS * WARPGROUP);
        if (number == 0) {
#pragma unroll 1
            for (int other = 0; other < SHARES - 1; other++) take(partials + other * SHARE);
            if (CLUSTER > 1) mergeBlocks(partials, round % 2);
        }
        namedSync(MERGE, CONSUMERS * WARPGROUP); // from here on the buffers may be written again
    }

    __device__ __forceinline__ void mergeBlocks(float *partials, int parity) {
        if (blockRank() > 0) {
            give(partials);
            __syncwarp();
            if (lane() == 0) barrierArriveIn(0, shared.given());
            barrierWaitCluster(shared.taken(), parity);
        } else {
            barrierWaitCluster(shared.given(), parity);
#pragma unroll 1
            for (int rank = 1; rank < CLUSTER; rank++) {
                take(inBlock(partials, rank));
                __syncwarp();
                if (lane() == 0) barrierArriveIn(rank, shared.taken());
            }
        }
    }

    // Stores O by TMA, through the shared memory of Q, and L by the first lane of each row.
    __device__ __forceinline__ void store(
        const Tile &tile, unsigned q, unsigned qEmpty, int firstRow, const TensorMap &map, float *l) {
        float reciprocal[2];
        int row = this->row(), lane = this->lane();
#pragma unroll
        for (int r = 0; r < 2; r++) {
            float sum = rowSum(softmax.sum[r]);
            reciprocal[r] = sum == 0 ? 0 : 1 / sum;
            int query = firstRow + row + 8 * r;
            if (lane % 4 == 0 && query < shape.queries)
                l[(long)tile.head * shape.queries + query] =
                    (softmax.reference[r] + logarithm2(sum)) * LN_2;
        }
#pragma unroll
        for (int i = 0; i < D / 2; i += 2) {
            int column = i / 4 * 8, r = i / 2 % 2;
            unsigned at = q + column / PANEL * Q_PANEL + swizzled(row + 8 * r, column % PANEL * 2 + lane % 4 * 4);
            unsigned pair = Element<T>::pair(o[i] * reciprocal[r], o[i + 1] * reciprocal[r]);
            asm volatile("st.shared.b32 [%0], %1;" ::"r"(at), "r"(pair) : "memory");
        }
        asyncFence();
        namedSync(STORE + number, WARPGROUP);
        if (thread() == 0) {
            int batch = tile.head / shape.heads, head = tile.head - batch * shape.heads;
#pragma unroll
            for (int p = 0; p < PANELS; p++) tmaStore(map, q + p * Q_PANEL, p * PANEL, firstRow, head, batch);
            bulkCommit();
            bulkWaitRead<0>();
            barrierArrive(qEmpty);
        }
    }
};

__device__ __forceinline__ void consume(
    const Shared &shared, const Shape &shape, int number, float scale, const TensorMap &o, float *l, float *partials) {
    Consumer consumer(shared, shape, scale, number);
    Tile tile;
    int group = SPLIT_KEYS ? 0 : number;
    unsigned block = 0;
    if (number == CONSUMERS - 1) consumer.passTurn(); // the first consumer begins
    for (int round = 0; tileOf(shape, round, tile); round++) {
        Turn<Q_BUFFERS> buffer(round);
        unsigned q = shared.q(buffer.place, group);
        int firstRow = tile.firstQuery + group * WARPGROUP_ROWS;
        barrierWait(shared.qFull(buffer.place), buffer.parity);
        consumer.attend(tile, q, block, firstRow);
        if (SHARES > 1) consumer.merge(partials, round);
        if (SHARES == 1 || number == 0) {
            if (blockRank() == 0 && firstRow >= 0) {
                consumer.store(tile, q, shared.qEmpty(buffer.place), firstRow, o, l);
            } else {
                // First all warps must have passed the wait for Q, because a barrier distinguishes only odd and even phases.
                namedSync(STORE + number, WARPGROUP);
                if (consumer.thread() == 0) barrierArrive(shared.qEmpty(buffer.place));
            }
        }
    }
    if (number == 0) consumer.takeTurn(); // consumes the last turn that was passed
    if (consumer.thread() == 0) bulkWait<0>();
}

// q, k, v, o: tensor maps of [batch, heads, rows, d] with boxes of 64 columns and 64 rows (q, o) or KEYS rows (k, v).
// l [batch, heads, queries]. scale: log2(e) / √d.
extern "C" __global__ void __cluster_dims__(CLUSTER) __launch_bounds__(THREADS, 1) flash_hopper_forward(
    const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k, const __grid_constant__ TensorMap v,
    const __grid_constant__ TensorMap o, float *l, int queries, int keys, int heads, int batch, int causal, float scale) {
    extern __shared__ __align__(1024) unsigned char memory[];
    Shared shared{sharedAddress(memory)};
    Shape shape{queries, keys, heads, batch, causal};
    int warpgroup = __shfl_sync(~0u, threadIdx.x / WARPGROUP, 0); // tells the compiler that it is uniform in the warp
    if (threadIdx.x == 0) {
        tmaPrefetchMap(q);
        tmaPrefetchMap(k);
        tmaPrefetchMap(v);
        tmaPrefetchMap(o);
        shared.init();
    }
    if (CLUSTER > 1) {
        clusterSync(); // the other blocks' barriers are initialised, too
    } else {
        __syncthreads();
    }
    if (warpgroup == 0) {
        registersDown<LOADER_REGISTERS>();
        if (threadIdx.x == 0) load(shared, shape, q, k, v);
    } else {
        registersUp<CONSUMER_REGISTERS>();
        consume(shared, shape, warpgroup - 1, scale, o, l, (float *)(memory + PARTIALS_AT));
    }
}
