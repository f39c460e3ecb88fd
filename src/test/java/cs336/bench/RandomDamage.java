package cs336.bench;

import java.util.Arrays;
import java.util.Random;
import java.util.function.IntSupplier;

/** Random damage of files. */
public final class RandomDamage {
    private RandomDamage() {}

    /** Returns a copy of a file's bytes, cut off in one of four cases, of which up to three have a random value. */
    public static byte[] of(byte[] whole, Random random) {
        return of(whole, random, random::nextInt);
    }

    /**
     * Returns a copy of a file's bytes, cut off in one of four cases, of which up to three have another value.
     *
     * @param value returns a value, of which the lowest eight bits are used
     */
    public static byte[] of(byte[] whole, Random random, IntSupplier value) {
        byte[] bytes = Arrays.copyOf(whole, random.nextInt(4) == 0 ? random.nextInt(whole.length) : whole.length);
        for (int n = random.nextInt(4); n > 0 && bytes.length > 0; n--) {
            bytes[random.nextInt(bytes.length)] = (byte) value.getAsInt();
        }
        return bytes;
    }
}
