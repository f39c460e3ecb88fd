package cs336.kernels.attention;

import cs336.kernels.runtime.RowLayout;
import cs336.torch.DType;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;

/**
 * {@code kernels/flash_rows.cu}: what the backward pass does row by row, before and after its products.
 *
 * @param type of O, dO and dQ
 * @param width columns of the kernels, at least d
 * @param queries in a block of queries of the main kernel
 */
public record FlashRows(DType type, int width, int queries) {
    public static final String FILE = "flash_rows.cu";

    /** Which kernel. */
    public enum Pass {
        BEFORE,
        AFTER;

        public String kernel() {
            return "flash_rows_" + name().toLowerCase(Locale.ROOT);
        }
    }

    private static final int COLUMNS_OF_THREAD = 8;
    private static final int ROWS_OF_THREAD = 4;

    /** Of a block, which has one block of queries. */
    public int threads() {
        return queries * (width / COLUMNS_OF_THREAD) / ROWS_OF_THREAD;
    }

    public Map<String, Object> defines(Pass pass) {
        Map<String, Object> defines = new LinkedHashMap<>();
        defines.put(pass.name(), 1);
        defines.put("ELEMENT", RowLayout.cudaName(type));
        defines.put("WIDTH", width);
        defines.put("QUERIES", queries);
        return defines;
    }
}
