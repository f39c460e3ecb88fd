package cs336.kernels.attention;

import java.util.List;

/**
 * The widths of rows that attention's kernels on tensor cores are compiled for; rows between them are filled up with
 * zeros.
 */
final class HeadWidths {
    static final List<Integer> ALL = List.of(16, 32, 64, 128);
    static final int WIDEST = 128;

    private HeadWidths() {}

    /**
     * The width of the kernels for rows of d.
     *
     * @throws IllegalArgumentException if there is none so wide
     */
    static int of(long d) {
        for (int width : ALL) {
            if (width >= d) return width;
        }
        throw new IllegalArgumentException("d must be at most " + WIDEST + ", not " + d);
    }
}
