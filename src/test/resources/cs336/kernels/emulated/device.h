// A GPU emulated on the host. The threads of a block are fibers that take turns, and a barrier passes control on until all of its
// threads have arrived. Blocks run one after the other, every second one with warps that run ahead of the others. Accesses through
// Elements are checked against the tensors of the kernel. Other accesses end the program if they are behind a tensor.

#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#define __device__
#define __global__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static
#define __align__(bytes) __attribute__((aligned(bytes)))

struct Index { int x, y; };
inline Index threadIdx, blockIdx, gridDim;

[[noreturn]] inline void fail(const char *what) {
    fprintf(stderr, "%s in thread %d of block %d, %d\n", what, threadIdx.x, blockIdx.x, blockIdx.y);
    exit(1);
}

// ---- threads

constexpr int WARP_THREADS = 32, MAX_THREADS = 1024, STACK_BYTES = 1 << 16, MAX_ROUNDS = 1'000'000;

// A fiber begins with its context. Later switches jump, since a change of context also saves the signal mask, which takes longer.
struct Fiber {
    ucontext_t context;
    jmp_buf at;
    std::vector<char> stack = std::vector<char>(STACK_BYTES);
    bool began, ended;

    void go() {
        if (began) _longjmp(at, 1);
        began = true;
        setcontext(&context);
    }
};

inline std::vector<Fiber> fibers(MAX_THREADS);
inline jmp_buf scheduler;
inline void (*kernel)();

inline void passOn() {
    if (_setjmp(fibers[threadIdx.x].at) == 0) _longjmp(scheduler, 1);
}

inline void runThread() {
    kernel();
    fibers[threadIdx.x].ended = true;
    passOn();
}

inline long steps; // of all threads, to a barrier or past one

struct Barrier {
    int threads = 0, arrived = 0, phase = 0;
    void wait() {
        int current = phase;
        if (++arrived == threads) {
            arrived = 0;
            phase++;
        }
        steps++;
        while (phase == current) passOn();
        steps++;
    }
};

inline Barrier ofBlock, named[16], ofWarp[MAX_THREADS / WARP_THREADS];

inline void __syncthreads() { ofBlock.wait(); }
inline void syncThreads(int barrier, int threads) {
    named[barrier].threads = threads;
    named[barrier].wait();
}

inline float floats[MAX_THREADS];
inline double doubles[MAX_THREADS];
inline float *lanes(float) { return floats; }
inline double *lanes(double) { return doubles; }

template <typename T> T __shfl_xor_sync(unsigned, T value, int distance) {
    T *all = lanes(value);
    Barrier &warp = ofWarp[threadIdx.x / WARP_THREADS];
    all[threadIdx.x] = value;
    warp.wait();
    T other = all[threadIdx.x ^ distance];
    warp.wait();
    return other;
}

// Lets each of these threads run up to its next barrier, and returns whether one is still running.
inline bool takeTurns(int first, int end) {
    static volatile bool isRunning; // not in a register, which the jump back would restore
    isRunning = false;
    for (threadIdx.x = first; threadIdx.x < end; threadIdx.x++) {
        Fiber &fiber = fibers[threadIdx.x];
        if (fiber.ended) continue;
        if (_setjmp(scheduler) == 0) fiber.go();
        isRunning = isRunning || !fibers[threadIdx.x].ended;
    }
    return isRunning;
}

// Lets each warp run as far as it can without the others.
inline bool letWarpsRunAhead(int threads) {
    bool isRunning = false;
    for (int first = 0; first < threads; first += WARP_THREADS) {
        long before;
        bool isWarpRunning;
        do {
            before = steps;
            isWarpRunning = takeTurns(first, std::min(first + WARP_THREADS, threads));
        } while (steps > before);
        isRunning = isRunning || isWarpRunning;
    }
    return isRunning;
}

inline void launch(long blocksX, int blocksY, int threads, void (*of)()) {
    kernel = of;
    gridDim = {(int)blocksX, blocksY};
    for (int y = 0; y < blocksY; y++)
        for (int x = 0; x < blocksX; x++) {
            ofBlock = {threads};
            for (Barrier &barrier : named) barrier = {};
            for (Barrier &warp : ofWarp) warp = {WARP_THREADS};
            for (int t = 0; t < threads; t++) {
                Fiber &fiber = fibers[t];
                fiber.began = fiber.ended = false;
                getcontext(&fiber.context);
                fiber.context.uc_stack.ss_sp = fiber.stack.data();
                fiber.context.uc_stack.ss_size = STACK_BYTES;
                makecontext(&fiber.context, runThread, 0);
            }
            blockIdx = {x, y};
            bool runAhead = (x + y) % 2 == 0; // a missing barrier may have an effect in only one of the orders
            for (int round = 0; runAhead ? letWarpsRunAhead(threads) : takeTurns(0, threads); round++)
                if (round > MAX_ROUNDS) fail("barrier that not all threads reach");
        }
}

// ---- memory

struct Range { const char *begin, *end; };
inline std::vector<Range> tensors;
alignas(16) inline unsigned char dynamicShared[227 * 1024];
inline int dynamicSharedBytes;

inline void requireTensor(const void *at, int bytes) {
    const char *begin = (const char *)at;
    for (Range &tensor : tensors)
        if (begin >= tensor.begin && begin + bytes <= tensor.end) return;
    fail("access outside of all tensors");
}
inline void requireShared(const void *at, int bytes) {
    long start = (const unsigned char *)at - dynamicShared;
    if (start < 0 || start + bytes > dynamicSharedBytes) fail("access outside of shared memory");
}
inline void requireAligned(const void *at, int bytes) {
    if ((uintptr_t)at % (bytes < 16 ? bytes : 16) != 0) fail("misaligned access");
}

inline const auto before = signal(SIGSEGV, [](int) { fail("access behind a tensor"); });

// A tensor of the kernel, filled with NaN or with the next bytes of a file. No memory behind it can be accessed.
inline char *tensor(size_t bytes, FILE *from) {
    static size_t page = sysconf(_SC_PAGESIZE);
    size_t used = (bytes + 15) / 16 * 16, pages = (used + page - 1) / page * page;
    void *start = mmap(nullptr, pages + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED || mprotect((char *)start + pages, page, PROT_NONE) != 0) fail("no memory");
    char *begin = (char *)start + pages - used;
    memset(begin, 0xff, bytes);
    if (from != nullptr && fread(begin, 1, bytes, from) != bytes) fail("too few inputs");
    tensors.push_back({begin, begin + bytes});
    return begin;
}

// ---- arithmetic

inline float __uint_as_float(unsigned bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
inline float __int_as_float(int bits) { return __uint_as_float(bits); }
inline unsigned __float_as_uint(float value) {
    unsigned bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}
inline float rsqrt(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
using std::abs, std::exp, std::log, std::sqrt, std::tanh, std::erf;
