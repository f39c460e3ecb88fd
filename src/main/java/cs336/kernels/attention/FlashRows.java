package cs336.kernels.attention;

import cs336.kernels.runtime.RowLayout;
import cs336.torch.DType;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/**
 * The tile sizes of {@code kernels/flash_rows.cu}: the row-wise kernels before and after the main kernel of Hopper's
 * backward pass.
 *
 * @param type dtype of O, dO and dQ
 * @param width columns of the kernels, at least d
 * @param queries queries in a block of queries of the main kernel
 */
public record FlashRows(DType type, int width, int queries) {
    public static final String FILE = "flash_rows.cu";

    /** The kernels of the file. */
    public enum RowKernel {
        /** Computes D and L of each query and clears dQ. */
        BEFORE,
        /** Converts the fp32 sum of dQ to the dtype of the queries. */
        AFTER;

        /** Returns the name of the {@code __global__} function. */
        public String function() {
            return "flash_rows_" + name().toLowerCase(Locale.ROOT);
        }
    }

    private static final int COLUMNS_PER_THREAD = 8;
    private static final int ROWS_PER_THREAD = 4;

    /** Returns the number of threads in a block of a kernel, which processes one block of queries. */
    public int threads(RowKernel kernel) {
        int threadsPerRow = width / COLUMNS_PER_THREAD;
        if (kernel == RowKernel.BEFORE) {
            threadsPerRow = Integer.highestOneBit(2 * threadsPerRow - 1); // the next power of two, for shuffles
        }
        return queries * threadsPerRow / ROWS_PER_THREAD;
    }

    /** Returns the macros that a kernel is compiled with. */
    public Map<String, Object> defines(RowKernel kernel) {
        Map<String, Object> defines = new LinkedHashMap<>();
        defines.put(kernel.name(), 1);
        defines.put("ELEMENT", RowLayout.cudaName(type));
        defines.put("WIDTH", width);
        defines.put("QUERIES", queries);
        return defines;
    }
}
