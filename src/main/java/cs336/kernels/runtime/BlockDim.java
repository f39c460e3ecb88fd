package cs336.kernels.runtime;

/**
 * How many threads a block has, at most 1024 in all.
 *
 * @param x 1 to 1024
 * @param y 1 to 1024
 * @param z 1 to 64
 */
public record BlockDim(int x, int y, int z) {
    private static final int MAX = 1024;
    private static final int MAX_Z = 64;

    public BlockDim {
        if (x < 1 || y < 1 || z < 1 || z > MAX_Z || (long) x * y * z > MAX) {
            throw new IllegalArgumentException("block must have 1 to " + MAX + " threads, and z at most " + MAX_Z
                    + ", not " + x + " × " + y + " × " + z);
        }
    }

    /** Threads in a line. */
    public BlockDim(int x) {
        this(x, 1, 1);
    }

    /** Threads in a plane. */
    public BlockDim(int x, int y) {
        this(x, y, 1);
    }

    /** All threads. */
    public int threads() {
        return x * y * z;
    }

    @Override
    public String toString() {
        return x + (y > 1 || z > 1 ? "×" + y : "") + (z > 1 ? "×" + z : "");
    }
}
