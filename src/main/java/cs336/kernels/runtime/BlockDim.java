package cs336.kernels.runtime;

/**
 * The threads of a block, CUDA's {@code blockDim}: at most 1024 in total.
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
            throw new IllegalArgumentException("block must have 1 to " + MAX + " threads, with z at most " + MAX_Z
                    + ", not " + x + " × " + y + " × " + z);
        }
    }

    /** Creates a one-dimensional block. */
    public BlockDim(int x) {
        this(x, 1, 1);
    }

    /** Creates a two-dimensional block. */
    public BlockDim(int x, int y) {
        this(x, y, 1);
    }

    /** Returns the number of threads, x · y · z. */
    public int threads() {
        return x * y * z;
    }

    @Override
    public String toString() {
        return x + (y > 1 || z > 1 ? "×" + y : "") + (z > 1 ? "×" + z : "");
    }
}
