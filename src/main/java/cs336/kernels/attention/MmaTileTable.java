package cs336.kernels.attention;

import cs336.kernels.attention.MmaTile.MmaKernel;
import cs336.kernels.runtime.GpuArchitecture;
import cs336.kernels.runtime.TensorChecks;
import cs336.torch.DType;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * The tiles of the kernels of {@link MmaFlash}, selected by the number of rows. They were found by timing a dozen
 * layouts without spills for each kernel, dtype and width on one H200, with T = S and a causal mask, for one head of
 * 1,024 to 32,768 rows and for 16 heads of 8,192. {@code MmaTileSearch}, among the tests, timed all layouts without
 * spills for {@code TF32_X3} with width 64, also for 16 heads of 512 and 1,024 rows; for {@code TF32} with width 64 and
 * 48 and 100 heads of 128 and 512 rows; and for width 80 and 128 heads of 128 and 512 rows. With few rows, warps share
 * rows and split the columns, so that all multiprocessors have work. With many rows, a warp takes as many rows as its
 * registers hold, because each element read from shared memory is then used more often.
 */
public final class MmaTileTable {
    private static final int MULTIPROCESSORS = 132; // of the H200 on which the row limits below were found
    private static final int HOPPER = 9; // the generation whose lines cover every kernel, operands and width

    /** The tensor-core operands: 16-bit types, which share their tiles, or fp32 by one of two emulations. */
    private enum MmaOperands {
        HALF,
        TF32,
        TF32_X3;

        static MmaOperands of(DType type, int products) {
            return type.bytes() == 2 ? HALF : products == 1 ? TF32 : TF32_X3;
        }
    }

    private record MmaTableKey(int generation, MmaKernel kernel, MmaOperands operands, int width) {}

    /**
     * A layout and the smallest number of rows, of all heads, that it is used for; the other components are those of
     * {@link MmaTile}.
     */
    private record MmaLayout(int fromRows, int rowWarps, int columnWarps, int rowTiles, int columns, int smBlocks) {}

    /**
     * Architecture, kernel, operands and width; then, for each layout, its least number of rows, rowWarps ×
     * columnWarps, rowTiles × columns, and blocks per multiprocessor. The lines of sm_80 replace layouts that would
     * spill there; they were not timed on it.
     */
    private static final String TABLE = """
            sm_90  FORWARD  HALF     16 | from 0: 2x4 1x32 4 | from 8192: 4x1 1x64 6
            sm_90  FORWARD  HALF     32 | from 0: 1x4 1x32 5 | from 3072: 2x4 1x32 4 | from 24576: 4x1 2x64 2
            sm_90  FORWARD  HALF     64 | from 0: 1x8 1x32 1 | from 8192: 4x1 1x64 3 | from 65536: 4x1 2x64 2
            sm_90  FORWARD  HALF     80 | from 0: 1x8 1x16 1 | from 8192: 2x2 1x32 2 | from 24576: 4x1 2x32 3
            sm_90  FORWARD  HALF    128 | from 0: 1x4 1x32 1 | from 8192: 2x2 1x32 2 | from 24576: 8x1 1x64 1
            sm_90  QUERIES  HALF     16 | from 0: 2x4 1x32 4 | from 65536: 4x1 2x32 4
            sm_90  QUERIES  HALF     32 | from 0: 1x4 1x32 5 | from 3072: 2x4 1x32 3 | from 65536: 8x1 1x32 3
            sm_90  QUERIES  HALF     64 | from 0: 1x8 1x32 1 | from 8192: 2x4 1x32 1 | from 65536: 4x1 2x32 2
            sm_90  QUERIES  HALF     80 | from 0: 1x8 1x16 1 | from 8192: 2x2 1x32 2 | from 24576: 4x1 1x32 4 | from 98304: 4x1 2x32 2
            sm_90  QUERIES  HALF    128 | from 0: 1x4 1x32 1 | from 8192: 2x2 1x32 2 | from 24576: 4x1 1x32 2
            sm_90  KEYS     HALF     16 | from 0: 1x8 1x32 3 | from 8192: 2x4 1x32 3 | from 65536: 4x1 2x32 3
            sm_90  KEYS     HALF     32 | from 0: 1x8 1x32 2 | from 8192: 2x4 1x32 2 | from 65536: 4x1 2x32 2
            sm_90  KEYS     HALF     64 | from 0: 1x8 1x32 1 | from 8192: 2x2 1x32 3 | from 65536: 4x1 2x32 2
            sm_90  KEYS     HALF     80 | from 0: 1x8 1x16 1 | from 8192: 2x2 1x16 3 | from 24576: 4x1 1x32 3
            sm_90  KEYS     HALF    128 | from 0: 2x2 1x32 2
            sm_90  FORWARD  TF32     16 | from 0: 1x8 1x16 4 | from 3072: 2x2 1x32 8 | from 24576: 4x1 2x64 3
            sm_90  FORWARD  TF32     32 | from 0: 1x8 1x16 3 | from 8192: 2x2 1x32 5 | from 24576: 4x1 2x64 3
            sm_90  FORWARD  TF32     64 | from 0: 1x8 1x16 1 | from 8192: 2x2 2x32 2 | from 40960: 4x1 2x32 1 | from 65536: 4x1 2x64 2
            sm_90  FORWARD  TF32     80 | from 0: 1x8 1x16 1 | from 8192: 2x2 2x32 2 | from 40960: 4x1 2x32 2 | from 98304: 8x1 2x32 1
            sm_90  FORWARD  TF32    128 | from 0: 1x4 1x16 1 | from 8192: 4x2 1x32 1 | from 65536: 8x1 2x32 1
            sm_90  QUERIES  TF32     16 | from 0: 1x8 1x16 4 | from 8192: 2x4 1x16 4 | from 65536: 4x1 2x32 4
            sm_90  QUERIES  TF32     32 | from 0: 1x8 1x16 2 | from 8192: 2x2 1x32 4 | from 65536: 4x1 2x32 3
            sm_90  QUERIES  TF32     64 | from 0: 1x8 1x16 1 | from 8192: 2x2 1x32 2 | from 24576: 4x1 1x64 2 | from 40960: 4x1 2x32 2
            sm_90  QUERIES  TF32     80 | from 0: 1x8 1x16 1 | from 8192: 4x2 1x16 1 | from 40960: 8x1 2x32 1
            sm_90  QUERIES  TF32    128 | from 0: 1x4 1x16 1 | from 8192: 4x2 1x32 1 | from 24576: 8x1 1x32 1
            sm_90  KEYS     TF32     16 | from 0: 2x2 1x32 4 | from 65536: 4x1 2x32 3
            sm_90  KEYS     TF32     32 | from 0: 1x8 1x16 2 | from 8192: 2x2 1x32 4 | from 65536: 4x1 2x32 3
            sm_90  KEYS     TF32     64 | from 0: 1x8 1x16 1 | from 8192: 1x4 2x16 2 | from 12288: 2x2 2x32 2 | from 40960: 4x1 2x32 2
            sm_90  KEYS     TF32     80 | from 0: 1x8 1x16 1 | from 8192: 2x2 1x16 3 | from 24576: 8x1 1x64 1
            sm_90  KEYS     TF32    128 | from 0: 1x4 1x16 1 | from 8192: 4x2 1x32 1 | from 24576: 8x1 1x32 1
            sm_80  KEYS     TF32    128 | from 0: 1x4 1x16 1 | from 8192: 8x1 1x32 1 | from 24576: 8x1 1x32 1
            sm_90  FORWARD  TF32_X3  16 | from 0: 1x8 1x16 4 | from 24576: 2x4 1x16 4 | from 65536: 4x1 2x32 4
            sm_90  FORWARD  TF32_X3  32 | from 0: 1x8 1x16 3 | from 24576: 4x2 1x32 2 | from 65536: 4x1 2x32 2
            sm_90  FORWARD  TF32_X3  64 | from 0: 1x8 1x16 1 | from 6144: 2x4 1x32 1 | from 12288: 4x2 1x64 1 | from 65536: 4x1 2x32 2
            sm_80  FORWARD  TF32_X3  64 | from 0: 1x8 1x16 1 | from 8192: 4x2 1x32 1 | from 65536: 4x1 1x32 3
            sm_90  FORWARD  TF32_X3  80 | from 0: 1x8 1x16 1 | from 8192: 2x2 1x16 2 | from 24576: 4x1 1x64 2 | from 98304: 8x1 2x32 1
            sm_90  FORWARD  TF32_X3 128 | from 0: 1x4 1x16 1 | from 6144: 2x4 1x16 1 | from 12288: 4x2 1x32 1 | from 24576: 8x1 1x32 1
            sm_90  QUERIES  TF32_X3  16 | from 0: 1x8 1x16 3 | from 24576: 2x2 1x32 5 | from 65536: 4x1 2x32 3
            sm_90  QUERIES  TF32_X3  32 | from 0: 1x8 1x16 2 | from 24576: 2x2 1x32 4 | from 65536: 4x1 2x32 2
            sm_90  QUERIES  TF32_X3  64 | from 0: 1x8 1x16 1 | from 6144: 2x4 1x32 1 | from 12288: 4x2 1x64 1 | from 65536: 4x1 2x32 2
            sm_90  QUERIES  TF32_X3  80 | from 0: 1x8 1x16 1 | from 8192: 2x2 1x16 3 | from 24576: 4x1 1x32 2 | from 65536: 8x1 1x64 1
            sm_90  QUERIES  TF32_X3 128 | from 0: 1x4 1x16 1 | from 6144: 2x4 1x16 1 | from 12288: 4x2 1x32 1 | from 24576: 8x1 1x32 1
            sm_90  KEYS     TF32_X3  16 | from 0: 1x8 1x16 2 | from 8192: 2x2 1x32 4 | from 65536: 4x1 2x32 2
            sm_90  KEYS     TF32_X3  32 | from 0: 1x8 1x16 2 | from 24576: 4x2 1x32 2 | from 65536: 4x1 2x32 2
            sm_90  KEYS     TF32_X3  64 | from 0: 1x8 1x16 1 | from 6144: 2x4 1x32 1 | from 16384: 4x2 1x64 1 | from 65536: 4x1 1x32 2
            sm_90  KEYS     TF32_X3  80 | from 0: 1x8 1x16 1 | from 8192: 2x2 1x16 3 | from 24576: 4x1 1x32 2 | from 98304: 8x1 1x64 1
            sm_90  KEYS     TF32_X3 128 | from 0: 1x4 1x16 1 | from 6144: 2x4 1x16 1 | from 12288: 4x2 1x32 1
            sm_80  KEYS     TF32_X3 128 | from 0: 1x4 1x16 1 | from 12288: 4x2 1x16 1
            """;

    private static final Pattern LAYOUT = Pattern.compile("from (\\d+): (\\d+)x(\\d+) (\\d+)x(\\d+) (\\d+)");

    private static final Map<MmaTableKey, List<MmaLayout>> LAYOUTS =
            TABLE.lines().collect(Collectors.toMap(MmaTileTable::key, MmaTileTable::layouts));

    private MmaTileTable() {}

    private static MmaTableKey key(String line) {
        String[] words = line.trim().split(" +");
        return new MmaTableKey(
                GpuArchitecture.parse(words[0]).major(),
                MmaKernel.valueOf(words[1]),
                MmaOperands.valueOf(words[2]),
                Integer.parseInt(words[3]));
    }

    private static List<MmaLayout> layouts(String line) {
        return LAYOUT.matcher(line).results().map(MmaTileTable::layout).toList();
    }

    private static MmaLayout layout(MatchResult found) {
        int[] n = IntStream.rangeClosed(1, 6)
                .map(i -> Integer.parseInt(found.group(i)))
                .toArray();
        return new MmaLayout(n[0], n[1], n[2], n[3], n[4], n[5]);
    }

    /**
     * Selects the tile for a number of rows.
     *
     * @param products 3 for fp32 as sums of two TF32 numbers, otherwise 1
     * @param width elements in a row: 16, 32, 64, 80 or 128
     * @param rows rows that blocks own, of all heads: queries, or keys for {@link MmaKernel#KEYS}
     * @param multiprocessors multiprocessors of the GPU
     * @throws IllegalArgumentException if there is no kernel of this width
     */
    public static MmaTile of(
            MmaKernel kernel,
            DType type,
            int products,
            int width,
            long rows,
            GpuArchitecture architecture,
            int multiprocessors) {
        Objects.requireNonNull(kernel, "kernel must not be null");
        if (!HeadWidths.ALL.contains(width)) {
            throw new IllegalArgumentException("width must be one of " + HeadWidths.ALL + ", not " + width);
        }
        MmaLayout found = null;
        for (MmaLayout layout : layouts(architecture, kernel, type, products, width)) {
            if (layout.fromRows <= rows * MULTIPROCESSORS / multiprocessors) {
                found = layout;
            }
        }
        return tile(kernel, type, products, width, found).fitting(architecture);
    }

    private static List<MmaLayout> layouts(
            GpuArchitecture architecture, MmaKernel kernel, DType type, int products, int width) {
        MmaOperands operands = MmaOperands.of(type, products);
        List<MmaLayout> found = LAYOUTS.get(new MmaTableKey(architecture.major(), kernel, operands, width));
        return found != null ? found : LAYOUTS.get(new MmaTableKey(HOPPER, kernel, operands, width));
    }

    private static MmaTile tile(MmaKernel kernel, DType type, int products, int width, MmaLayout layout) {
        return new MmaTile(
                kernel,
                type,
                products,
                width,
                layout.rowWarps,
                layout.columnWarps,
                layout.rowTiles,
                layout.columns,
                layout.smBlocks);
    }

    /** Returns every tile that {@link #of} can select for an architecture. */
    public static Stream<MmaTile> all(GpuArchitecture architecture) {
        List<MmaTile> all = new ArrayList<>();
        for (DType type : TensorChecks.KERNEL_TYPES) {
            for (int products : type == DType.FLOAT32 ? new int[] {1, 3} : new int[] {1}) {
                for (MmaKernel kernel : MmaKernel.values()) {
                    HeadWidths.ALL.forEach(width -> layouts(architecture, kernel, type, products, width)
                            .forEach(layout -> all.add(
                                    tile(kernel, type, products, width, layout).fitting(architecture))));
                }
            }
        }
        return all.stream().distinct();
    }
}
