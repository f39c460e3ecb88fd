package cs336.compile.fuse;

import org.bytedeco.pytorch.Scalar;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * The random number generator Philox4x32-10, which PyTorch uses on GPUs too, by tensor operations. Number i of a
 * sequence is a function of i alone, so it can be recomputed. {@code random.cuh} computes the same numbers in CUDA.
 *
 * <p>Source: Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011.
 */
final class Philox {
    private static final int ROUNDS = 10;
    private static final int WORDS = 4; // per counter
    private static final long WORD = 0xFFFFFFFFL; // the bits of a word
    private static final long[] MULTIPLIERS = {0xD2511F53L, 0xCD9E8D57L};
    private static final long[] KEY_STEPS = {0x9E3779B9L, 0xBB67AE85L};

    private Philox() {}

    /**
     * Returns random words of 32 bits.
     *
     * @param seed int64, the key
     * @param sequence int64, the number of the sequence
     * @param index int64, the indices of the words in the sequence; all tensors broadcast
     * @return int64, from 0 to 2³² − 1
     */
    static Tensor of(Tensor seed, Tensor sequence, Tensor index) {
        Tensor counter = shifted(index, 2); // four words each
        Tensor[] words = {low(counter), high(counter), low(sequence), high(sequence)};
        Tensor[] key = {low(seed), high(seed)};
        for (int round = 0; round < ROUNDS; round++) {
            Tensor first = words[0].mul(new Scalar(MULTIPLIERS[0])); // all 64 bits, as an unsigned number
            Tensor second = words[2].mul(new Scalar(MULTIPLIERS[1]));
            words = new Tensor[] {
                high(second).bitwise_xor(words[1]).bitwise_xor(key[0]),
                low(second),
                high(first).bitwise_xor(words[3]).bitwise_xor(key[1]),
                low(first)
            };
            for (int i = 0; i < key.length; i++) {
                key[i] = low(key[i].add(new Scalar(KEY_STEPS[i])));
            }
        }
        Tensor place = index.bitwise_and(new Scalar((long) WORDS - 1));
        Tensor word = words[WORDS - 1];
        for (long i = 0; i < WORDS - 1; i++) {
            word = torch.where(place.eq(new Scalar(i)), words[(int) i], word);
        }
        return word;
    }

    private static Tensor low(Tensor number) {
        return number.bitwise_and(new Scalar(WORD));
    }

    private static Tensor high(Tensor number) {
        return low(shifted(number, Integer.SIZE));
    }

    /** Shifts right. The highest bits become copies of the sign. */
    private static Tensor shifted(Tensor number, int bits) {
        return number.bitwise_right_shift(new Scalar((long) bits));
    }
}
