package cs336.kernels.attention;

import cs336.kernels.attention.MmaTile.Pass;
import cs336.kernels.runtime.GpuArchitecture;
import cs336.kernels.runtime.TensorChecks;
import cs336.torch.DType;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.regex.MatchResult;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * Which tile a kernel of {@link MmaFlash} gets. Found by timing, on one H200 with T = S and causal, a dozen layouts a
 * pass, type and width that do not spill, for one head of 1,024 to 32,768 rows and 16 heads of 8,192: where rows are
 * few, warps share them and take columns of their own, so that all multiprocessors have work; where they are many, a
 * warp takes as many rows as its registers hold, since each element read from shared memory is then multiplied more
 * often.
 */
public final class MmaTileTable {
    private static final int MULTIPROCESSORS = 132; // of the card that the limits below were found on
    private static final int HOPPER = 9; // the generation that has all lines

    /** What is multiplied: two types of 16 bits, whose kernels are alike, and fp32 in either way. */
    private enum Numbers {
        HALF,
        TF32,
        TF32_X3;

        public static Numbers of(DType type, int products) {
            return type.bytes() == 2 ? HALF : products == 1 ? TF32 : TF32_X3;
        }
    }

    private record Key(int generation, Pass pass, Numbers numbers, int width) {}

    /** A layout, and from how many rows of all heads on it is taken. The other numbers are those of {@link MmaTile}. */
    private record Layout(int fromRows, int rowWarps, int columnWarps, int rowTiles, int columns, int smBlocks) {}

    /**
     * Architecture, pass, numbers and width; then, for each layout, from how many rows on, rowWarps × columnWarps,
     * rowTiles × columns, and blocks a multiprocessor. For sm_80 those lines stand here of which a layout would spill
     * on it, with others instead; none was timed there.
     */
    private static final String TABLE = """
            sm_90  FORWARD  HALF     16 | from 0: 2x4 1x32 4 | from 8192: 4x1 1x64 6
            sm_90  FORWARD  HALF     32 | from 0: 1x4 1x32 5 | from 3072: 2x4 1x32 4 | from 24576: 4x1 2x64 2
            sm_90  FORWARD  HALF     64 | from 0: 1x8 1x32 1 | from 8192: 4x1 1x64 3 | from 65536: 4x1 2x64 2
            sm_90  FORWARD  HALF    128 | from 0: 1x4 1x32 1 | from 8192: 2x2 1x32 2 | from 24576: 8x1 1x64 1
            sm_90  QUERIES  HALF     16 | from 0: 2x4 1x32 4 | from 65536: 4x1 2x32 4
            sm_90  QUERIES  HALF     32 | from 0: 1x4 1x32 5 | from 3072: 2x4 1x32 3 | from 65536: 8x1 1x32 3
            sm_90  QUERIES  HALF     64 | from 0: 1x8 1x32 1 | from 8192: 2x4 1x32 1 | from 65536: 4x1 2x32 2
            sm_90  QUERIES  HALF    128 | from 0: 1x4 1x32 1 | from 8192: 2x2 1x32 2 | from 24576: 4x1 1x32 2
            sm_90  KEYS     HALF     16 | from 0: 1x8 1x32 3 | from 8192: 2x4 1x32 3 | from 65536: 4x1 2x32 3
            sm_90  KEYS     HALF     32 | from 0: 1x8 1x32 2 | from 8192: 2x4 1x32 2 | from 65536: 4x1 2x32 2
            sm_90  KEYS     HALF     64 | from 0: 1x8 1x32 1 | from 8192: 2x2 1x32 3 | from 65536: 4x1 2x32 2
            sm_90  KEYS     HALF    128 | from 0: 2x2 1x32 2
            sm_90  FORWARD  TF32     16 | from 0: 1x8 1x16 4 | from 3072: 2x2 1x32 8 | from 24576: 4x1 2x64 3
            sm_90  FORWARD  TF32     32 | from 0: 1x8 1x16 3 | from 8192: 2x2 1x32 5 | from 24576: 4x1 2x64 3
            sm_90  FORWARD  TF32     64 | from 0: 1x8 1x16 1 | from 8192: 2x2 2x32 2 | from 65536: 4x1 2x64 2
            sm_90  FORWARD  TF32    128 | from 0: 1x4 1x16 1 | from 8192: 4x2 1x32 1 | from 65536: 8x1 2x32 1
            sm_90  QUERIES  TF32     16 | from 0: 1x8 1x16 4 | from 8192: 2x4 1x16 4 | from 65536: 4x1 2x32 4
            sm_90  QUERIES  TF32     32 | from 0: 1x8 1x16 2 | from 8192: 2x2 1x32 4 | from 65536: 4x1 2x32 3
            sm_90  QUERIES  TF32     64 | from 0: 1x8 1x16 1 | from 8192: 2x2 1x32 2 | from 65536: 4x1 2x32 2
            sm_90  QUERIES  TF32    128 | from 0: 1x4 1x16 1 | from 8192: 4x2 1x32 1 | from 24576: 8x1 1x32 1
            sm_90  KEYS     TF32     16 | from 0: 2x2 1x32 4 | from 65536: 4x1 2x32 3
            sm_90  KEYS     TF32     32 | from 0: 1x8 1x16 2 | from 8192: 2x2 1x32 4 | from 65536: 4x1 2x32 3
            sm_90  KEYS     TF32     64 | from 0: 1x8 1x16 1 | from 8192: 1x4 2x16 2 | from 65536: 4x1 2x32 2
            sm_90  KEYS     TF32    128 | from 0: 1x4 1x16 1 | from 8192: 4x2 1x32 1 | from 24576: 8x1 1x32 1
            sm_80  KEYS     TF32    128 | from 0: 1x4 1x16 1 | from 8192: 8x1 1x32 1 | from 24576: 8x1 1x32 1
            sm_90  FORWARD  TF32_X3  16 | from 0: 1x8 1x16 4 | from 24576: 2x4 1x16 4 | from 65536: 4x1 2x32 4
            sm_90  FORWARD  TF32_X3  32 | from 0: 1x8 1x16 3 | from 24576: 4x2 1x32 2 | from 65536: 4x1 2x32 2
            sm_90  FORWARD  TF32_X3  64 | from 0: 1x8 1x16 1 | from 8192: 4x2 1x32 1 | from 65536: 4x1 2x32 2
            sm_80  FORWARD  TF32_X3  64 | from 0: 1x8 1x16 1 | from 8192: 4x2 1x32 1 | from 65536: 4x1 1x32 3
            sm_90  FORWARD  TF32_X3 128 | from 0: 1x4 1x16 1 | from 6144: 2x4 1x16 1 | from 12288: 4x2 1x32 1 | from 24576: 8x1 1x32 1
            sm_90  QUERIES  TF32_X3  16 | from 0: 1x8 1x16 3 | from 24576: 2x2 1x32 5 | from 65536: 4x1 2x32 3
            sm_90  QUERIES  TF32_X3  32 | from 0: 1x8 1x16 2 | from 24576: 2x2 1x32 4 | from 65536: 4x1 2x32 2
            sm_90  QUERIES  TF32_X3  64 | from 0: 1x8 1x16 1 | from 8192: 4x2 1x32 1 | from 65536: 4x1 2x32 2
            sm_90  QUERIES  TF32_X3 128 | from 0: 1x4 1x16 1 | from 6144: 2x4 1x16 1 | from 12288: 4x2 1x32 1 | from 24576: 8x1 1x32 1
            sm_90  KEYS     TF32_X3  16 | from 0: 1x8 1x16 2 | from 8192: 2x2 1x32 4 | from 65536: 4x1 2x32 2
            sm_90  KEYS     TF32_X3  32 | from 0: 1x8 1x16 2 | from 24576: 4x2 1x32 2 | from 65536: 4x1 2x32 2
            sm_90  KEYS     TF32_X3  64 | from 0: 1x8 1x16 1 | from 8192: 4x2 1x32 1 | from 65536: 4x1 1x32 2
            sm_90  KEYS     TF32_X3 128 | from 0: 1x4 1x16 1 | from 6144: 2x4 1x16 1 | from 12288: 4x2 1x32 1
            sm_80  KEYS     TF32_X3 128 | from 0: 1x4 1x16 1 | from 12288: 4x2 1x16 1
            """;

    private static final Pattern LAYOUT = Pattern.compile("from (\\d+): (\\d+)x(\\d+) (\\d+)x(\\d+) (\\d+)");

    private static final Map<Key, List<Layout>> LAYOUTS =
            TABLE.lines().collect(Collectors.toMap(MmaTileTable::key, MmaTileTable::layouts));

    private MmaTileTable() {}

    private static Key key(String line) {
        String[] words = line.trim().split(" +");
        return new Key(
                GpuArchitecture.parse(words[0]).major(),
                Pass.valueOf(words[1]),
                Numbers.valueOf(words[2]),
                Integer.parseInt(words[3]));
    }

    private static List<Layout> layouts(String line) {
        return LAYOUT.matcher(line).results().map(MmaTileTable::layout).toList();
    }

    private static Layout layout(MatchResult found) {
        int[] n = IntStream.rangeClosed(1, 6)
                .map(i -> Integer.parseInt(found.group(i)))
                .toArray();
        return new Layout(n[0], n[1], n[2], n[3], n[4], n[5]);
    }

    /**
     * The tile for so many rows.
     *
     * @param rows that blocks own, of all heads: queries, or keys for {@link Pass#KEYS}
     */
    public static MmaTile of(
            Pass pass,
            DType type,
            int products,
            int width,
            long rows,
            GpuArchitecture architecture,
            int multiprocessors) {
        Layout found = null;
        for (Layout layout : layouts(architecture, pass, type, products, width)) {
            if (layout.fromRows <= rows * MULTIPROCESSORS / multiprocessors) found = layout;
        }
        return tile(pass, type, products, width, found).fitting(architecture);
    }

    private static List<Layout> layouts(GpuArchitecture architecture, Pass pass, DType type, int products, int width) {
        Numbers numbers = Numbers.of(type, products);
        List<Layout> found = LAYOUTS.get(new Key(architecture.major(), pass, numbers, width));
        return found != null ? found : LAYOUTS.get(new Key(HOPPER, pass, numbers, width));
    }

    private static MmaTile tile(Pass pass, DType type, int products, int width, Layout layout) {
        return new MmaTile(
                pass,
                type,
                products,
                width,
                layout.rowWarps,
                layout.columnWarps,
                layout.rowTiles,
                layout.columns,
                layout.smBlocks);
    }

    /** Every tile that may be taken on a card of this architecture. */
    public static Stream<MmaTile> all(GpuArchitecture architecture) {
        List<MmaTile> all = new ArrayList<>();
        for (DType type : TensorChecks.KERNEL_TYPES) {
            for (int products : type == DType.FLOAT32 ? new int[] {1, 3} : new int[] {1}) {
                for (Pass pass : Pass.values()) {
                    HeadWidths.ALL.forEach(width -> layouts(architecture, pass, type, products, width)
                            .forEach(layout -> all.add(
                                    tile(pass, type, products, width, layout).fitting(architecture))));
                }
            }
        }
        return all.stream().distinct();
    }
}
