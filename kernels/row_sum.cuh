// Sums over a row that Threads neighbouring threads share; a block of Rows such rows has Rows · Threads threads. The order of
// addition depends on nothing but these numbers, so the same row has the same sum, bit for bit.

constexpr int WARP = 32;

template <int Count> struct Sums { float value[Count]; };

template <int Threads, int Rows, int Count> struct RowSum {
    static constexpr int WARPS = Threads / WARP;
    static_assert(Threads % WARP == 0 && WARPS <= WARP, "a row takes 1 to 32 whole warps");
    static_assert(WARPS == 1 || Rows <= 15, "each row of several warps needs a barrier of its own, and 16 there are");

    // Two sets in turn: a warp that is ahead writes the other one while a slower one still reads, so one barrier a row is enough.
    struct Shared { Sums<Count> ofWarp[2][Rows][WARPS]; };

    Shared &shared;
    int slot;
    int turn = 0;

    __device__ __forceinline__ RowSum(Shared &shared, int slot) : shared(shared), slot(slot) {}

    // The sum of all threads' parts, given to all threads of the row.
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

    // Rows of a block wait for their own threads only: they need not be as many for each slot.
    __device__ __forceinline__ void waitForRow() {
        asm volatile("bar.sync %0, %1;" ::"r"(Rows == 1 ? 0 : slot + 1), "n"(Threads) : "memory");
    }
};
