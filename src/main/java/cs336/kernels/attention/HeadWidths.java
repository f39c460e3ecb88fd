package cs336.kernels.attention;

import java.util.List;

/**
 * The row widths that the tensor-core kernels of attention are compiled for. Rows of other widths are padded with zeros
 * to the next one.
 */
final class HeadWidths {
    /** Widths of the kernels for wgmma and for mma.sync; 80 is the head dimension of the 2.7B model. */
    static final List<Integer> ALL = List.of(16, 32, 64, 80, 128);

    static final int WIDEST = 128;

    private HeadWidths() {}

    /**
     * Returns the least of the widths that holds rows of d elements.
     *
     * @throws IllegalArgumentException if d is greater than {@value #WIDEST}
     */
    static int of(long d) {
        for (int width : ALL) {
            if (width >= d) {
                return width;
            }
        }
        throw new IllegalArgumentException("d must be at most " + WIDEST + ", not " + d);
    }
}
