// Random numbers by the generator Philox4x32-10 (Salmon et al., 2011), as cs336.compile.fuse.Philox computes them. It computes four
// words at a time, a block.

/** Computes the block of a sequence that begins at word `index`, a multiple of four. */
__device__ __forceinline__ void philoxBlock(
    unsigned long long seed, unsigned long long sequence, unsigned long long index, long long *words) {
    const unsigned long long block = index >> 2;
    unsigned word[4] = {(unsigned)block, (unsigned)(block >> 32), (unsigned)sequence, (unsigned)(sequence >> 32)};
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
#pragma unroll
    for (int i = 0; i < 4; i++) words[i] = word[i];
}

/** Returns word `index` of a sequence. */
__device__ __forceinline__ long long philox(unsigned long long seed, unsigned long long sequence, unsigned long long index) {
    long long words[4];
    philoxBlock(seed, sequence, index, words);
    const unsigned place = index & 3;
    return place == 0 ? words[0] : place == 1 ? words[1] : place == 2 ? words[2] : words[3];
}
