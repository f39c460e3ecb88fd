// The main kernel of FlashAttention's backward pass on Hopper, from Q, K, V, dO and, for each query, the log-sum-exp L in log₂
// units and D = rowsum(dO ∘ O):
//
//   P = 2^(QKᵀ · scale · log₂e − L)     dV = PᵀdO     dS = P ∘ (dO Vᵀ − D)     dK = dSᵀQ · scale     dQ = dS K · scale
//
// A block owns a tile of 128 keys, 64 for each of two consumer warpgroups, and iterates over blocks of queries. It computes Sᵀ
// and dPᵀ instead of S and dP, because then Pᵀ and dSᵀ are in the registers that wgmma expects as operands for dV and dK, and dV
// and dK stay in registers until the end. The accumulators of dPᵀ start at −D, which saves the subtraction. Only dS goes through
// shared memory, because dQ needs the keys of both warpgroups. The wgmma for dQ of one block of queries is issued while the next
// block is processed, so that neither warpgroup waits for the other.
//
// Each warpgroup computes one chunk of dQ: half of a block's queries or, if rows are wider than 64, half of its columns. Blocks
// with other keys add to the same queries. So a warpgroup writes its chunk to shared memory in the order of the accumulator
// registers, and a warp of the third warpgroup, the producer, adds it to global memory by TMA (bulk reduction). The kernels of
// flash_rows.cu clear that sum and convert it.
//
// The queries of a tile can be split over SPLIT blocks, which form a cluster, so that few tiles occupy many multiprocessors. The
// first block of the cluster accumulates their dK and dV in a fixed order.
//
// dK and dV are bitwise reproducible. dQ is too if turns is not null: then tiles add to a chunk in a fixed order. This cannot
// deadlock, because a block only waits for blocks with a lower index, which the GPU starts earlier.
//   causal        tiles start, and add, from the last one to the first. A tile begins at its first query, so tiles that started
//                 together reach a chunk one step apart and do not wait.
//   not causal    tiles start, and add, from the first one to the last; those that started together wait once, at the beginning,
//                 for one step each.
//
// Macros set at compile time:
//   ELEMENT    dtype of all tensors but L, D and the sum of dQ: bf16, fp16
//   WIDTH      columns: 16, 32, 64, 80 or 128; the tensors' d is at most that, and TMA reads zeros beyond it
//   QUERIES    queries in a block of queries: 128, or 64 if rows are wider than 64
//   SPLIT      blocks that share a tile: 1 to 8

#include "elements.cuh"
#include "exponential.cuh"
#include "hopper.cuh"
#include "wgmma.cuh"

using T = ELEMENT;

constexpr int KEYS = 128;
constexpr int WARPGROUP = 128, CONSUMERS = 2;     // threads; consumer warpgroups
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;
constexpr int STAGES = 2;                         // blocks of Q and dO in shared memory

constexpr int PANEL = 64;                         // columns in a row of shared memory
constexpr int PANELS = WIDTH > PANEL ? 2 : 1;
constexpr int CHUNK = WIDTH / PANELS;             // columns of a chunk of dQ
constexpr int HALVES = QUERIES / 64;
static_assert(PANELS * HALVES == CONSUMERS, "each warpgroup computes one chunk of dQ");

constexpr int K_STEP = 16;                        // reduction dimension of one wgmma
constexpr int ACROSS = K_STEP * ROW_BYTES;        // bytes per K_STEP if the reduction runs across rows

// Shared memory: K and V [PANELS][KEYS], Q and dO [STAGES][PANELS][QUERIES], dSᵀ [2][HALVES][KEYS], each in rows of 128
// bytes; chunks of dQ [CONSUMERS]; L and −D [STAGES][2][QUERIES]; barriers. The second panel of K and V begins at column CHUNK,
// with which the second chunk of dQ begins; that of Q and dO begins at column 64.
constexpr int KEY_PANEL = KEYS * ROW_BYTES, KEY_TILE = PANELS * KEY_PANEL;
constexpr int QUERY_PANEL = QUERIES * ROW_BYTES, QUERY_TILE = PANELS * QUERY_PANEL;
constexpr int DS_TILE = HALVES * KEY_PANEL;
constexpr int CHUNK_BYTES = 64 * CHUNK * sizeof(float);
constexpr int TERMS_BYTES = 2 * QUERIES * sizeof(float);
constexpr int K_AT = 0;
constexpr int V_AT = K_AT + KEY_TILE;
constexpr int Q_AT = V_AT + KEY_TILE;
constexpr int DO_AT = Q_AT + STAGES * QUERY_TILE;
constexpr int DS_AT = DO_AT + STAGES * QUERY_TILE;
constexpr int CHUNKS_AT = DS_AT + 2 * DS_TILE;
constexpr int TERMS_AT = CHUNKS_AT + CONSUMERS * CHUNK_BYTES;
constexpr int BARRIERS_AT = TERMS_AT + STAGES * TERMS_BYTES;
static_assert(CONSUMERS * WARPGROUP * WIDTH * sizeof(float) <= DS_AT, "partial dK and dV must fit into the shared memory of the inputs");

// Barriers, in the order of shared memory.
struct Barriers {
    unsigned at;
    __device__ __forceinline__ unsigned keys() const { return at; }                                  // K and V loaded
    __device__ __forceinline__ unsigned full(int stage) const { return at + 8 + 8 * stage; }         // Q, dO, L, D loaded
    __device__ __forceinline__ unsigned empty(int stage) const { return full(STAGES) + 8 * stage; }  // … no longer needed
    __device__ __forceinline__ unsigned dSFull(int buffer) const { return empty(STAGES) + 8 * buffer; }
    __device__ __forceinline__ unsigned dSEmpty(int buffer) const { return dSFull(2) + 8 * buffer; }
    __device__ __forceinline__ unsigned chunkFull(int w) const { return dSEmpty(2) + 8 * w; }
    __device__ __forceinline__ unsigned chunkEmpty(int w) const { return chunkFull(CONSUMERS) + 8 * w; }

    __device__ __forceinline__ void init() const {
        constexpr int CONSUMER_WARPS = CONSUMERS * WARPGROUP / 32;
        barrierInit(keys(), 1);
        for (int s = 0; s < STAGES; s++) barrierInit(full(s), 1), barrierInit(empty(s), CONSUMER_WARPS);
        for (int b = 0; b < 2; b++) barrierInit(dSFull(b), CONSUMER_WARPS), barrierInit(dSEmpty(b), CONSUMER_WARPS);
        for (int w = 0; w < CONSUMERS; w++) barrierInit(chunkFull(w), WARPGROUP / 32), barrierInit(chunkEmpty(w), 1);
        barrierInitFence();
    }
};

// The slot of use i in a circular buffer of Places slots, and the parity of its barrier phase.
template <int Places> struct Turn {
    int place, phase;
    __device__ __forceinline__ explicit Turn(int i) : place(i % Places), phase(i / Places & 1) {}
};

// The work of a block: a tile of keys, and every SPLIT-th block of queries that attends to it, starting with the first.
struct Work {
    int tile, batchAndHead, blocks, tiles, first, steps;
    bool causal;

    // Heads are processed in groups whose tensors fit into L2; within a group, the tiles with most queries come first.
    __device__ __forceinline__ Work(int queries, int keys, int allHeads, int group, bool causal, bool backwards)
        : causal(causal) {
        tiles = (keys + KEYS - 1) / KEYS, blocks = (queries + QUERIES - 1) / QUERIES;
        int number = blockIdx.x / SPLIT, rank = blockIdx.x % SPLIT;
        int before = number / (tiles * group) * group; // heads of earlier groups
        int heads = min(group, allHeads - before);
        number -= before * tiles;
        tile = number / heads, batchAndHead = before + number % heads;
        if (backwards) tile = tiles - 1 - tile;
        first = (causal ? tile * (KEYS / QUERIES) : 0) + rank;
        steps = max(0, (blocks - first + SPLIT - 1) / SPLIT);
    }

    __device__ __forceinline__ int block(int step) const { return first + step * SPLIT; }

    // Number of tiles that add to a block of queries before this one.
    __device__ __forceinline__ int turn(int block) const {
        return causal ? min(tiles - 1, (block * QUERIES + QUERIES - 1) / KEYS) - tile : tile;
    }
};

// Producer: loads K and V once, then Q, dO, L and D for each step.
__device__ __forceinline__ void load(const Work &work, unsigned shared, Barriers barriers, const TensorMap &q,
                                     const TensorMap &k, const TensorMap &v, const TensorMap &dO, const float *terms,
                                     int heads) {
    int head = work.batchAndHead % heads, batch = work.batchAndHead / heads;
    barrierExpect(barriers.keys(), 2 * KEY_TILE);
#pragma unroll
    for (int p = 0; p < PANELS; p++) {
        tmaLoad(shared + K_AT + p * KEY_PANEL, k, barriers.keys(), p * CHUNK, work.tile * KEYS, head, batch);
        tmaLoad(shared + V_AT + p * KEY_PANEL, v, barriers.keys(), p * CHUNK, work.tile * KEYS, head, batch);
    }
    for (int i = 0; i < work.steps; i++) {
        Turn<STAGES> turn(i);
        int block = work.block(i), stage = turn.place;
        unsigned full = barriers.full(stage), to = stage * QUERY_TILE;
        barrierWait(barriers.empty(stage), turn.phase ^ 1);
        barrierExpect(full, 2 * QUERY_TILE + TERMS_BYTES);
#pragma unroll
        for (int p = 0; p < PANELS; p++)
            tmaLoad(shared + Q_AT + to + p * QUERY_PANEL, q, full, p * PANEL, block * QUERIES, head, batch);
        bulkLoad(shared + TERMS_AT + stage * TERMS_BYTES,
                 terms + ((long)work.batchAndHead * work.blocks + block) * (2 * QUERIES), TERMS_BYTES, full);
#pragma unroll
        for (int p = 0; p < PANELS; p++)
            tmaLoad(shared + DO_AT + to + p * QUERY_PANEL, dO, full, p * PANEL, block * QUERIES, head, batch);
    }
}

// Producer: adds one warpgroup's chunks to the sum of dQ. turns [heads, blocks, CONSUMERS], or null for any order.
__device__ __forceinline__ void send(const Work &work, unsigned shared, Barriers barriers, float *dQ, int *turns, int w) {
    for (int i = 0; i < work.steps; i++) {
        long chunk = ((long)work.batchAndHead * work.blocks + work.block(i)) * CONSUMERS + w;
        barrierWait(barriers.chunkFull(w), i & 1);
        if (turns != nullptr) {
            int mine = work.turn(work.block(i)), now;
            do {
                asm volatile("ld.acquire.gpu.global.s32 %0, [%1];" : "=r"(now) : "l"(turns + chunk) : "memory");
            } while (now != mine);
        }
        bulkAdd(dQ + chunk * (64 * CHUNK), shared + CHUNKS_AT + w * CHUNK_BYTES, CHUNK_BYTES);
        bulkCommit();
        if (turns != nullptr) {
            bulkWait<0>();
            asm volatile("fence.proxy.async.global;\n red.release.gpu.global.add.s32 [%0], 1;" ::"l"(turns + chunk)
                         : "memory");
        } else {
            bulkWaitRead<0>();
        }
        barrierArrive(barriers.chunkEmpty(w));
    }
    bulkWait<0>();
}

extern __shared__ __align__(1024) unsigned char sharedBytes[];

// A consumer warpgroup, with 64 keys of the tile.
struct Consumer {
    const Work &work;
    Barriers barriers;
    unsigned shared;
    int w, thread, warp, lane, keys; // keys: number of keys of the tensor
    float scaleLog2;
    float dK[WIDTH / 2] = {}, dV[WIDTH / 2] = {};
    unsigned dSAt; // address of this lane for storeMatrices

    __device__ __forceinline__ Consumer(const Work &work, Barriers barriers, int w, int keys, float scaleLog2)
        : work(work), barriers(barriers), shared(sharedAddress(sharedBytes)), w(w),
          thread(threadIdx.x % WARPGROUP), warp(thread / 32), lane(threadIdx.x % 32), keys(keys), scaleLog2(scaleLog2) {
        int row = w * 64 + warp * 16 + lane % 16;
        dSAt = shared + DS_AT + swizzled(row, lane / 16 * 16);
    }

    __device__ __forceinline__ void arrive(unsigned barrier) {
        if (lane == 0) barrierArrive(barrier);
    }

    // Issues d [64 keys, QUERIES] = A·Bᵀ; rows of A are keys, rows of B are queries.
    template <bool Add> __device__ __forceinline__ void multiplyRows(float (&d)[QUERIES / 2], unsigned a, unsigned b) {
        unsigned long long keyRows = operand(a), queryRows = operand(b);
        wgmmaFence();
#pragma unroll
        for (int k = 0; k < WIDTH / K_STEP; k++) {
            int column = k * K_STEP, panel = column / PANEL;
            int inKey = panel * KEY_PANEL + (column - panel * CHUNK) * sizeof(T);
            int inQuery = panel * QUERY_PANEL + (column - panel * PANEL) * sizeof(T);
            wgmma<T, ALONG_SUM, ALONG_SUM>(d, further(keyRows, inKey), further(queryRows, inQuery), Add || k > 0);
        }
        wgmmaCommit();
    }

    // Issues d [64 keys, WIDTH] += A·B; A is Pᵀ or dSᵀ, rows of B are queries.
    __device__ __forceinline__ void addProduct(float (&d)[WIDTH / 2], const unsigned (&a)[QUERIES / 4], unsigned b) {
        unsigned long long queryRows = operand(b, QUERY_PANEL);
        wgmmaFence();
#pragma unroll
        for (int k = 0; k < QUERIES / K_STEP; k++)
            wgmma<T, ACROSS_SUM>(d, a + 4 * k, further(queryRows, k * ACROSS), true);
        wgmmaCommit();
    }

    // Issues dQ = dS·K over all keys of the tile.
    __device__ __forceinline__ void multiplyDS(float (&dQ)[CHUNK / 2], int buffer) {
        unsigned long long dS = operand(shared + DS_AT + buffer * DS_TILE + (HALVES > 1 ? w * KEY_PANEL : 0));
        unsigned long long keyRows = operand(shared + K_AT + (PANELS > 1 ? w * KEY_PANEL : 0));
        wgmmaFence();
#pragma unroll
        for (int k = 0; k < KEYS / K_STEP; k++)
            wgmma<T, ACROSS_SUM, ACROSS_SUM>(dQ, further(dS, k * ACROSS), further(keyRows, k * ACROSS), k > 0);
        wgmmaCommit();
    }

    // Sets scores to −∞ for keys after their query and for keys past the end.
    __device__ __forceinline__ void hide(float (&s)[QUERIES / 2], int block) {
        int key = work.tile * KEYS + w * 64 + warp * 16 + lane / 4, query = block * QUERIES + 2 * (lane % 4);
#pragma unroll
        for (int half = 0; half < 2; half++, key += 8) {
            int firstSeen = key >= keys ? QUERIES : work.causal ? key - query : 0; // first column that attends to the key
#pragma unroll
            for (int i = 0; i < QUERIES / 2; i++)
                if (i / 2 % 2 == half && i / 4 * 8 + i % 2 < firstSeen) s[i] = __int_as_float(0xff800000);
        }
    }

    // Passes dQ of an earlier step to the producer warp that adds it to global memory.
    __device__ __forceinline__ void handOver(const float (&dQ)[CHUNK / 2], int step) {
        barrierWait(barriers.chunkEmpty(w), step & 1 ^ 1);
        float4 *chunk = (float4 *)(sharedBytes + CHUNKS_AT + w * CHUNK_BYTES) + thread;
#pragma unroll
        for (int i = 0; i < CHUNK / 8; i++)
            chunk[i * WARPGROUP] = make_float4(dQ[4 * i], dQ[4 * i + 1], dQ[4 * i + 2], dQ[4 * i + 3]);
        asyncFence();
        __syncwarp();
        arrive(barriers.chunkFull(w));
    }

    // Issues the wgmma of dQ of the previous step.
    __device__ __forceinline__ void askForDQ(float (&dQ)[CHUNK / 2], int step) {
        Turn<2> turn(step);
        barrierWait(barriers.dSFull(turn.place), turn.phase);
        multiplyDS(dQ, turn.place);
    }

    __device__ __forceinline__ void passOnDQ(float (&dQ)[CHUNK / 2], int step) {
        pin(dQ);
        arrive(barriers.dSEmpty(Turn<2>(step).place));
        handOver(dQ, step);
    }

    // True in all lanes of a warp if the block of queries has one without keys (L is +∞).
    __device__ __forceinline__ bool hasQueriesWithoutKeys(int stage) {
        const float *l = (const float *)(sharedBytes + TERMS_AT + stage * TERMS_BYTES);
        bool has = false;
#pragma unroll
        for (int i = 0; i < QUERIES / 32; i++) has |= withoutKeys(l[32 * i + lane]);
        return __any_sync(0xffffffffu, has);
    }

    // Sets queries without keys to zero: their dS is 0, but 0 · −∞ would be NaN. Each warp does this for the whole block of
    // queries, because its wgmma reads all of them. P and dS are 0 for the old values and for the new ones.
    __device__ __forceinline__ void clearQueriesWithoutKeys(int stage) {
        const float *l = (const float *)(sharedBytes + TERMS_AT + stage * TERMS_BYTES);
#pragma unroll 1
        for (int query = lane; query < QUERIES; query += 32) {
            if (!withoutKeys(l[query])) continue;
            for (int at = 0; at < PANELS * ROW_BYTES; at += 16) {
                int byte = stage * QUERY_TILE + at / ROW_BYTES * QUERY_PANEL + query * ROW_BYTES + at % ROW_BYTES;
                uint4 *chunk = (uint4 *)(sharedBytes + Q_AT + byte);
                if (chunk->x | chunk->y | chunk->z | chunk->w) *chunk = make_uint4(0, 0, 0, 0); // padding is zero already
            }
        }
        asyncFence();
        __syncwarp();
    }

    static __device__ __forceinline__ bool withoutKeys(float l) { return l == __int_as_float(0x7f800000); }

    // Processes one block of queries, and dQ of the previous step unless this is the first.
    template <bool First, bool Masked> __device__ __forceinline__ void step(int i) {
        Turn<STAGES> turn(i);
        Turn<2> dSTurn(i);
        unsigned q = shared + Q_AT + turn.place * QUERY_TILE, dO = shared + DO_AT + turn.place * QUERY_TILE;
        const float2 *l = (const float2 *)(sharedBytes + TERMS_AT + turn.place * TERMS_BYTES) + lane % 4;
        const float2 *minusD = l + QUERIES / 2;
        float s[QUERIES / 2], dP[QUERIES / 2], dQ[CHUNK / 2];
        unsigned p[QUERIES / 4], dS[QUERIES / 4];

        barrierWait(barriers.full(turn.place), turn.phase);
#pragma unroll
        for (int j = 0; j < QUERIES / 8; j++) {
            float2 columns = minusD[4 * j];
            dP[4 * j] = dP[4 * j + 2] = columns.x, dP[4 * j + 1] = dP[4 * j + 3] = columns.y;
        }
        pin(dP);
        multiplyRows<true>(dP, shared + V_AT + w * 64 * ROW_BYTES, dO);
        multiplyRows<false>(s, shared + K_AT + w * 64 * ROW_BYTES, q);
        bool clears = hasQueriesWithoutKeys(turn.place); // while the multiplications run
        wgmmaWait<0>();
        pin(dP);
        pin(s);
        if (clears) clearQueriesWithoutKeys(turn.place);
        if (Masked) hide(s, work.block(i));
#pragma unroll
        for (int j = 0; j < QUERIES / 8; j++) {
            float2 columns = l[4 * j];
#pragma unroll
            for (int e = 0; e < 4; e++) s[4 * j + e] = powerOf2(s[4 * j + e] * scaleLog2 - (e % 2 ? columns.y : columns.x));
        }
#pragma unroll
        for (int j = 0; j < QUERIES / 4; j++) p[j] = Element<T>::pair(s[2 * j], s[2 * j + 1]);
        pin(p);
#pragma unroll
        for (int j = 0; j < QUERIES / 4; j++)
            dS[j] = Element<T>::pair(s[2 * j] * dP[2 * j], s[2 * j + 1] * dP[2 * j + 1]);
        pin(dS);

        barrierWait(barriers.dSEmpty(dSTurn.place), dSTurn.phase ^ 1);
#pragma unroll
        for (int j = 0; j < QUERIES / 8; j += 2) // 16 queries; 64 per row of shared memory
            storeMatrices((dSAt ^ j % 8 * 16) + dSTurn.place * DS_TILE + j / 8 * KEY_PANEL, dS + 2 * j);
        asyncFence();
        __syncwarp();
        arrive(barriers.dSFull(dSTurn.place));

        addProduct(dV, p, dO);
        if (!First) askForDQ(dQ, i - 1);
        addProduct(dK, dS, q);
        if (!First) {
            wgmmaWait<1>();
            pin(dV);
            passOnDQ(dQ, i - 1);
        }
        wgmmaWait<0>();
        pin(dV);
        pin(dK);
        arrive(barriers.empty(turn.place));
    }

    __device__ __forceinline__ void run() {
        barrierWait(barriers.keys(), 0);
        if (work.steps > 0) {
            int end = (work.tile + 1) * KEYS, stride = QUERIES * SPLIT;
            int masked = end > keys ? work.steps : work.causal ? (end - work.first * QUERIES + stride - 1) / stride : 0;
            int i = 0;
            step<true, true>(i++);
#pragma unroll 1
            for (; i < work.steps; i++) {
                if (i < masked) {
                    step<false, true>(i);
                } else {
                    step<false, false>(i);
                }
            }
            float dQ[CHUNK / 2];
            askForDQ(dQ, i - 1);
            wgmmaWait<0>();
            passOnDQ(dQ, i - 1);
        }
        namedSync(1, CONSUMERS * WARPGROUP); // the inputs are no longer needed
    }

    // Accumulates dK and dV of the cluster in its first block.
    __device__ __forceinline__ void gather() {
        constexpr int THREADS = CONSUMERS * WARPGROUP, PIECES = WIDTH / 8;
        int rank = blockIdx.x % SPLIT;
        float4 *part = (float4 *)sharedBytes + w * WARPGROUP + thread; // [dK and dV][PIECES][THREADS]
        if (rank > 0) {
#pragma unroll
            for (int i = 0; i < PIECES; i++) {
                part[i * THREADS] = make_float4(dK[4 * i], dK[4 * i + 1], dK[4 * i + 2], dK[4 * i + 3]);
                part[(PIECES + i) * THREADS] = make_float4(dV[4 * i], dV[4 * i + 1], dV[4 * i + 2], dV[4 * i + 3]);
            }
        }
        clusterSync();
        if (rank == 0) {
#pragma unroll 1
            for (int r = 1; r < SPLIT; r++) {
                const float4 *other = (const float4 *)inBlock((const float *)part, r);
#pragma unroll
                for (int i = 0; i < PIECES; i++) {
                    add(dK + 4 * i, other[i * THREADS]);
                    add(dV + 4 * i, other[(PIECES + i) * THREADS]);
                }
            }
        }
        clusterSync();
    }

    static __device__ __forceinline__ void add(float *sum, float4 part) {
        sum[0] += part.x, sum[1] += part.y, sum[2] += part.z, sum[3] += part.w;
    }

    // Stores dK or dV by TMA through the shared memory of K or V.
    __device__ __forceinline__ void store(const TensorMap &map, const float (&d)[WIDTH / 2], float scale, int at, int head,
                                          int batch) {
        at += w * 64 * ROW_BYTES;
        int row = warp * 16 + lane / 4;
#pragma unroll
        for (int j = 0; j < WIDTH / 8; j++) {
            unsigned char *panel = sharedBytes + at + j / 8 * KEY_PANEL;
            int byte = j % 8 * 16 + lane % 4 * 4;
            *(unsigned *)(panel + swizzled(row, byte)) = Element<T>::pair(d[4 * j] * scale, d[4 * j + 1] * scale);
            *(unsigned *)(panel + swizzled(row + 8, byte)) = Element<T>::pair(d[4 * j + 2] * scale, d[4 * j + 3] * scale);
        }
        asyncFence();
        namedSync(2 + w, WARPGROUP);
        if (thread == 0) {
#pragma unroll
            for (int p = 0; p < PANELS; p++)
                tmaStore(map, shared + at + p * KEY_PANEL, p * PANEL, work.tile * KEYS + w * 64, head, batch);
            bulkCommit();
        }
    }
};

// Tensor maps of q, k, v and dO have boxes of QUERIES or KEYS rows, those of dK and dV boxes of 64 rows. terms, dQ and turns have
// the layouts of flash_rows.cu. Grid: SPLIT blocks for each tile of keys of each head; batchedHeads = batch · heads.
extern "C" __global__ void
#if SPLIT > 1
    __cluster_dims__(SPLIT, 1, 1)
#endif
    __launch_bounds__((1 + CONSUMERS) * WARPGROUP, 1)
    flash_hopper_backward(const __grid_constant__ TensorMap q, const __grid_constant__ TensorMap k,
                          const __grid_constant__ TensorMap v, const __grid_constant__ TensorMap dO,
                          const __grid_constant__ TensorMap dK, const __grid_constant__ TensorMap dV, const float *terms,
                          float *dQ, int *turns, int queries, int keys, int heads, int batchedHeads, int headGroup,
                          int causal, float scale, float scaleLog2) {
    Barriers barriers{sharedAddress(sharedBytes) + BARRIERS_AT};
    int warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / WARPGROUP, 0); // tells the compiler that it is uniform in the warp
    Work work(queries, keys, batchedHeads, headGroup, causal, causal && turns != nullptr);
    if (threadIdx.x == 0) barriers.init();
    __syncthreads();

    if (warpgroup == 0) {
        registersDown<PRODUCER_REGISTERS>();
        if (threadIdx.x == 0) load(work, sharedAddress(sharedBytes), barriers, q, k, v, dO, terms, heads);
#pragma unroll
        for (int w = 0; w < CONSUMERS; w++)
            if (threadIdx.x == 32 * (w + 1)) send(work, sharedAddress(sharedBytes), barriers, dQ, turns, w);
        return;
    }

    registersUp<CONSUMER_REGISTERS>();
    Consumer consumer(work, barriers, warpgroup - 1, keys, scaleLog2);
    consumer.run();
    if constexpr (SPLIT > 1) {
        consumer.gather();
        if (blockIdx.x % SPLIT > 0) return;
    }
    int head = work.batchAndHead % heads, batch = work.batchAndHead / heads;
    consumer.store(dK, consumer.dK, scale, K_AT, head, batch);
    consumer.store(dV, consumer.dV, 1, V_AT, head, batch);
    if (threadIdx.x % WARPGROUP == 0) bulkWait<0>();
}
