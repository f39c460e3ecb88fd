package cs336.kernels.runtime;

/**
 * The blocks of a launch, CUDA's {@code gridDim}.
 *
 * @param x 1 to 2³¹ − 1
 * @param y 1 to 65,535
 * @param z 1 to 65,535
 */
public record GridDim(int x, int y, int z) {
    private static final int MAX_Y_Z = 65_535;

    public GridDim {
        if (x < 1 || y < 1 || z < 1 || y > MAX_Y_Z || z > MAX_Y_Z) {
            throw new IllegalArgumentException("grid must be at least 1 in x, y and z, and y and z at most " + MAX_Y_Z
                    + ", not " + x + " × " + y + " × " + z);
        }
    }

    /** Creates a one-dimensional grid. */
    public GridDim(int x) {
        this(x, 1, 1);
    }

    /** Creates a two-dimensional grid. */
    public GridDim(int x, int y) {
        this(x, y, 1);
    }

    /** Returns the number of blocks, x · y · z. */
    public long blocks() {
        return (long) x * y * z;
    }

    @Override
    public String toString() {
        return x + (y > 1 || z > 1 ? "×" + y : "") + (z > 1 ? "×" + z : "");
    }
}
