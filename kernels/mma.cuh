// Matrix multiplications on tensor cores with mma.sync (sm_80 and later), with operands stored as rows in shared
// memory.
//
// There are two kinds, both with fp32 accumulators in registers:
//   X · Yᵀ   of rows X and rows Y: both operands are loaded with ldmatrix
//   P · Y    of a result P of the first kind, which stays in registers, and rows Y, whose columns are gathered
//
// One instruction multiplies 16 rows by 8 columns, summing over 32 bytes of each: 16 elements of 16 bits, or 8 of
// fp32, which are converted to TF32 (11 significant bits). With PRODUCTS = 3 an fp32 number is split into two TF32
// numbers, and hi·hi + hi·lo + lo·hi has nearly the accuracy of fp32.
//
// Rows in shared memory are padded by 16 bytes. Eight consecutive rows then start in eight different groups of four
// banks for every row length, so that neither ldmatrix nor gathering every second row has bank conflicts.
//
// Macros set at compile time:
//   ELEMENT     float, bf16 or fp16
//   PRODUCTS    3 for fp32 split into two TF32 numbers; otherwise 1
//   HEAD_DIM    elements per row: 16, 32, 64, 80 or 128

#include "exponential.cuh"
#include "tensor_cores.cuh"

using T = ELEMENT;

constexpr int D = HEAD_DIM;
constexpr int ACCESS = 16;                            // bytes
constexpr int VECTOR = ACCESS / sizeof(T);            // elements per access
constexpr int CHUNKS = D / VECTOR;                    // accesses per row
constexpr int STRIDE = D * sizeof(T) + ACCESS;        // bytes from row to row in shared memory
constexpr int DEPTH = 32 / sizeof(T);                 // elements that one instruction sums over
constexpr int PARTS = PRODUCTS == 3 ? 2 : 1;          // TF32 numbers per element of an operand
constexpr bool FP32 = sizeof(T) == 4;
constexpr float LOG2_E = 1.4426950408889634f;
[[maybe_unused]] constexpr float INFINITE = __builtin_bit_cast(float, 0x7f800000);
static_assert(PRODUCTS == 1 || (PRODUCTS == 3 && FP32), "only fp32 is split");

// Fragments of the operands: 16 × DEPTH elements of the left one and DEPTH × 8 of the right one, distributed over a
// warp.
struct Left { unsigned word[PARTS][4]; };
struct Right { unsigned word[PARTS][2]; };

// A warp's 16 × 8 accumulator: a thread has columns 2·(lane % 4) and the next one, of row lane / 4 and of the row 8
// below.
struct Sums { float value[4]; };

// Returns the index of this thread in its warp. Each matrix multiplication reads it again, because keeping the
// addresses derived from it would cost registers.
__device__ __forceinline__ int laneId() {
    int lane;
    asm volatile("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}

// Numbers from here on round to an infinite TF32 number.
constexpr float LARGEST_TF32 = __builtin_bit_cast(float, 0x7f7ff000);

// Converts an fp32 element of an operand to one or two TF32 numbers. ANY: also for infinite numbers and those that round
// to them. Their first part is zero; otherwise their second part would be NaN, and so could be hi · lo with the other
// operand.
template <bool ANY = false, typename Operand>
__device__ __forceinline__ void setPart(Operand &operand, int i, float x) {
    if constexpr (PARTS == 1) {
        asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(operand.word[0][i]) : "f"(x));
    } else { // cheaper than cvt, which is four instructions; if it turns a NaN into zero, the second part is NaN
        unsigned rounded = roundToTf32(x);
        operand.word[0][i] = !ANY || fabsf(x) < LARGEST_TF32 ? rounded : 0;
        operand.word[1][i] = __float_as_uint(x - __uint_as_float(operand.word[0][i]));
    }
}

// Accumulators of a matrix multiplication. Tensor cores truncate sums where fp32 would round. The small terms hi·lo and
// lo·hi are accumulated separately, so that truncating the large sum does not lose them.
struct Growing {
    Sums large, small;

    __device__ __forceinline__ float value(int i) const {
        return PARTS == 2 ? large.value[i] + small.value[i] : large.value[i];
    }
};

// sums[m][n] += left[m] · right[n].
template <int M, int N>
__device__ __forceinline__ void multiply(Growing (&sums)[M][N], const Left (&left)[M], const Right (&right)[N]) {
#pragma unroll
    for (int product = PRODUCTS - 1; product >= 0; product--) // lo·hi, hi·lo, hi·hi
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int n = 0; n < N; n++)
                Mma<T>::add((product > 0 ? sums[m][n].small : sums[m][n].large).value, left[m].word[product == 2],
                            right[n].word[product == 1]);
}

__device__ __forceinline__ void ldmatrix(unsigned (&word)[4], unsigned at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(at));
}

__device__ __forceinline__ void ldmatrixTransposed(unsigned (&word)[4], unsigned at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(word[0]), "=r"(word[1]), "=r"(word[2]), "=r"(word[3])
                 : "r"(at));
}

template <bool ANY, typename Operand>
__device__ __forceinline__ void setWord(Operand &operand, int i, unsigned word) {
    if constexpr (FP32) {
        setPart<ANY>(operand, i, __uint_as_float(word));
    } else {
        operand.word[0][i] = word;
    }
}

// sums[m][n] = X · Yᵀ for 16·M rows at x and 8·N rows at y, both in shared memory. ANY: X may be infinite.
template <bool ANY = false, int M, int N>
__device__ __forceinline__ void productOfRows(Sums (&sums)[M][N], const unsigned char *x, const unsigned char *y) {
    int lane = laneId();
    unsigned left = sharedAddress(x) + lane % 16 * STRIDE + lane / 16 * ACCESS;
    unsigned right = sharedAddress(y) + (lane % 8 + lane / 16 * 8) * STRIDE + lane / 8 % 2 * ACCESS;
    Growing growing[M][N] = {};
#pragma unroll 2 // as much as registers allow
    for (int depth = 0; depth < D / DEPTH; depth++) {
        Left a[M];
        Right b[N];
        unsigned word[4];
#pragma unroll
        for (int m = 0; m < M; m++) {
            ldmatrix(word, left + m * 16 * STRIDE + depth * 2 * ACCESS);
#pragma unroll
            for (int i = 0; i < 4; i++) setWord<ANY>(a[m], i, word[i]);
        }
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            ldmatrix(word, right + n * 8 * STRIDE + depth * 2 * ACCESS);
#pragma unroll
            for (int i = 0; i < 4; i++) setWord<false>(b[n + i / 2], i % 2, word[i]);
        }
        multiply(growing, a, b);
    }
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
            for (int i = 0; i < 4; i++) sums[m][n].value[i] = growing[m][n].value(i);
}

// Converts accumulators to the left operand of the next matrix multiplication; each thread already has the elements
// it needs. The columns of two accumulators are the DEPTH elements of a 16-bit operand. Those of one are the 8
// elements of an fp32 operand, if column 2·i is taken as element i and column 2·i + 1 as element i + 4.
template <int M, int N, typename E = T>
__device__ __forceinline__ void asLeft(Left (&left)[8 * N / DEPTH][M], const Sums (&sums)[M][N]) {
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
        for (int k = 0; k < 8 * N / DEPTH; k++) {
            if constexpr (FP32) {
                const float(&p)[4] = sums[m][k].value;
                setPart(left[k][m], 0, p[0]);
                setPart(left[k][m], 1, p[2]);
                setPart(left[k][m], 2, p[1]);
                setPart(left[k][m], 3, p[3]);
            } else {
#pragma unroll
                for (int half = 0; half < 2; half++) {
                    const float(&p)[4] = sums[m][2 * k + half].value;
                    left[k][m].word[0][2 * half] = Element<E>::pair(p[0], p[1]);
                    left[k][m].word[0][2 * half + 1] = Element<E>::pair(p[2], p[3]);
                }
            }
        }
}

// Loads columns 8·n to 8·n + 15 of DEPTH rows at y as two right operands.
__device__ __forceinline__ void gatherColumns(Right (&right)[2], const unsigned char *y, int n, int lane) {
    if constexpr (FP32) {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float *row = (const float *)(y + (lane % 4 * 2 + i % 2) * STRIDE);
            setPart(right[i / 2], i % 2, row[8 * (n + i / 2) + lane / 4]);
        }
    } else {
        unsigned word[4];
        ldmatrixTransposed(word, sharedAddress(y) + lane % 16 * STRIDE + (n + lane / 16) * ACCESS);
#pragma unroll
        for (int i = 0; i < 4; i++) right[i / 2].word[0][i % 2] = word[i];
    }
}

// sums[m][n] = sums[m][n] · decay[m] + P · Y for rows at y. Each call accumulates from zero and adds its result in
// fp32, because the truncation of the tensor cores would otherwise accumulate over thousands of rows.
template <int M, int K>
__device__ __forceinline__ void addProduct(Sums (&sums)[M][D / 8], const float (&decay)[M][2], const Left (&p)[K][M],
                                           const unsigned char *y) {
    int lane = laneId();
    constexpr int GROUP = 2; // groups of 8 columns at a time
#pragma unroll
    for (int n = 0; n < D / 8; n += GROUP) {
        Growing part[M][GROUP] = {};
#pragma unroll
        for (int k = 0; k < K; k++) {
            Right right[GROUP];
            gatherColumns(right, y + k * DEPTH * STRIDE, n, lane);
            multiply(part, p[k], right);
        }
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
            for (int g = 0; g < GROUP; g++)
#pragma unroll
                for (int i = 0; i < 4; i++) {
                    float &sum = sums[m][n + g].value[i];
                    sum = sum * decay[m][i / 2] + part[m][g].value(i);
                }
    }
}

// One head of a tensor [batch, heads, rows, D].
template <typename E> struct Rows {
    E *first;
    int stride; // elements between rows
    int count;

    __device__ __forceinline__ E *row(int i) const { return first + (long)i * stride; }
};

// Starts copying ROWS rows of a tensor to shared memory with cp.async; rows past the end become zero.
template <int ROWS, int THREADS>
__device__ __forceinline__ void copyRows(unsigned char *to, const Rows<const T> &from, int firstRow) {
    constexpr int ROWS_AT_ONCE = THREADS / CHUNKS;
    int chunk = threadIdx.x % CHUNKS, place = threadIdx.x / CHUNKS;
    if (THREADS % CHUNKS != 0 && place >= ROWS_AT_ONCE) return;
#pragma unroll
    for (int r = 0; r < ROWS; r += ROWS_AT_ONCE) {
        int row = r + place;
        if (ROWS % ROWS_AT_ONCE != 0 && row >= ROWS) break;
        bool there = firstRow + row < from.count;
        const T *source = from.row(there ? firstRow + row : 0) + chunk * VECTOR;
        unsigned target = sharedAddress(to) + row * STRIDE + chunk * ACCESS;
        copy16(target, source, there);
    }
}

__device__ __forceinline__ void awaitCopies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Stores two adjacent elements of a result.
__device__ __forceinline__ void storePair(T *at, float low, float high) {
    Elements<T, 2>::of({low, high}).store(at);
}

// Reductions over the four lanes that share a row.
__device__ __forceinline__ float rowSum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

__device__ __forceinline__ float rowMax(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
