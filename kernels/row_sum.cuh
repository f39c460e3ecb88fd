// Sum over a row that is spread over Threads consecutive threads; a block has Rows such rows, Rows · Threads threads in total.
// The order of addition depends only on these numbers, so sums are bitwise reproducible.

constexpr int WARP = 32;

template <int Count> struct Sums { float value[Count]; };

template <int Threads, int Rows, int Count> struct RowSum {
    static constexpr int WARPS = Threads / WARP;
    static_assert(Threads % WARP == 0 && WARPS <= WARP, "a row takes 1 to 32 whole warps");
    static_assert(WARPS == 1 || Rows <= 15, "each row of several warps needs its own named barrier, 1 to 15");

    // Double buffering: a fast warp writes the next row's sums while a slow one still reads this row's, so that one barrier per
    // row is enough.
    struct Shared { Sums<Count> ofWarp[2][Rows][WARPS]; };

    Shared &shared;
    int slot;
    int turn = 0;

    __device__ __forceinline__ RowSum(Shared &shared, int slot) : shared(shared), slot(slot) {}

    // Returns the sum of the partial sums of the row's threads, to all of them.
    __device__ __forceinline__ Sums<Count> operator()(Sums<Count> part) {
#pragma unroll
        for (int distance = WARP / 2; distance > 0; distance /= 2)
#pragma unroll
            for (int c = 0; c < Count; c++) part.value[c] += __shfl_xor_sync(0xffffffffu, part.value[c], distance);
        if constexpr (WARPS == 1) {
            return part;
        } else {
            Sums<Count> *ofWarp = shared.ofWarp[turn][slot];
            if (threadIdx.x % WARP == 0) ofWarp[threadIdx.x % Threads / WARP] = part;
            waitForRow();
            Sums<Count> sum = ofWarp[0];
#pragma unroll
            for (int w = 1; w < WARPS; w++)
#pragma unroll
                for (int c = 0; c < Count; c++) sum.value[c] += ofWarp[w].value[c];
            turn ^= 1;
            return sum;
        }
    }

    // A barrier of this row's threads only: the slots of a block may process different numbers of rows.
    __device__ __forceinline__ void waitForRow() {
        asm volatile("bar.sync %0, %1;" ::"r"(Rows == 1 ? 0 : slot + 1), "n"(Threads) : "memory");
    }
};
