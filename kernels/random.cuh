// Random numbers by the generator Philox4x32-10 (Salmon et al., 2011), as cs336.compile.fuse.Philox computes them.

/** Computes single words of a sequence, and keeps the block of four words that the last one is in. */
struct Philox {
    unsigned long long block = ~0ull;
    unsigned word[4];

    /** Returns a word of a sequence. Calls of one object must have the same seed and sequence. */
    __device__ __forceinline__ long long operator()(
        unsigned long long seed, unsigned long long sequence, unsigned long long index) {
        if (index >> 2 != block) {
            block = index >> 2;
            compute(seed, sequence);
        }
        const unsigned place = index & 3;
        return place == 0 ? word[0] : place == 1 ? word[1] : place == 2 ? word[2] : word[3];
    }

private:
    __device__ __forceinline__ void compute(unsigned long long seed, unsigned long long sequence) {
        word[0] = (unsigned)block;
        word[1] = (unsigned)(block >> 32);
        word[2] = (unsigned)sequence;
        word[3] = (unsigned)(sequence >> 32);
        unsigned key[2] = {(unsigned)seed, (unsigned)(seed >> 32)};
#pragma unroll
        for (int round = 0; round < 10; round++) {
            const unsigned long long first = (unsigned long long)word[0] * 0xD2511F53u;
            const unsigned long long second = (unsigned long long)word[2] * 0xCD9E8D57u;
            word[0] = (unsigned)(second >> 32) ^ word[1] ^ key[0];
            word[1] = (unsigned)second;
            word[2] = (unsigned)(first >> 32) ^ word[3] ^ key[1];
            word[3] = (unsigned)first;
            key[0] += 0x9E3779B9u;
            key[1] += 0xBB67AE85u;
        }
    }
};
