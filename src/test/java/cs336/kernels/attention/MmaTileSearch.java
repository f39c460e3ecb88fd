package cs336.kernels.attention;

import cs336.kernels.LaunchTimes;
import cs336.kernels.attention.FlashVariant.AttentionGradients;
import cs336.kernels.attention.FlashVariant.AttentionOutput;
import cs336.kernels.attention.MmaTile.MmaKernel;
import cs336.kernels.runtime.Fp32Emulation;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.KernelCompiler;
import cs336.kernels.runtime.KernelResources;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.KernelVariant;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Measures candidate tiles for the kernels of {@link MmaFlash}, as the basis of the choice in {@link MmaTileTable}.
 *
 * <pre>
 * MmaTileSearch list TF32_X3 64              compiles all plausible tiles for sm_90a and prints those without spills
 * MmaTileSearch compile TF32_X3 64 FILE 0 8  compiles every eighth tile of a list from number 0 on, to fill the cache
 * MmaTileSearch time TF32_X3 64 FILE 1x8192,16x512    times all tiles of a list, for these heads × tokens
 * </pre>
 *
 * <p>A list has a line {@code FORWARD 2x4 1x16 1} per tile: kernel, rowWarps × columnWarps, rowTiles × columns, and
 * blocks per multiprocessor, as in the table. Times are of one head dimension, of sequences with a causal mask. A time
 * of {@link MmaKernel#QUERIES} or {@link MmaKernel#KEYS} is of both backward kernels, with the table's tile for the
 * other one. A line that begins with {@code *} is the table's tile.
 */
public final class MmaTileSearch {
    private static final double TOLERANCE = 1e-3; // of the largest element
    private static final double TOLERANCE_OF_HALVES = 1e-2;
    private static final int SM_THREADS = 512; // more would leave fewer than 128 registers per thread
    private static final int ALL_REGISTERS_THREADS = 256; // each may have 255 registers, the most of a thread

    private final String operands;
    private final DType type;
    private final Fp32Emulation gemm;
    private final int width;

    /** @param operands HALF, TF32 or TF32_X3 */
    private MmaTileSearch(String operands, int width) {
        this.operands = operands;
        boolean half = operands.equals("HALF");
        type = half ? DType.BFLOAT16 : DType.FLOAT32;
        gemm = half ? Fp32Emulation.TF32 : Fp32Emulation.valueOf(operands);
        this.width = width;
    }

    /** A tile with its median time. */
    private record TimedMmaTile(MmaTile tile, double ms, boolean isCorrect) {}

    public static void main(String[] arguments) throws IOException {
        var search = new MmaTileSearch(arguments[1], Integer.parseInt(arguments[2]));
        switch (arguments[0]) {
            case "list" -> search.list();
            case "compile" ->
                search.compile(Path.of(arguments[3]), Integer.parseInt(arguments[4]), Integer.parseInt(arguments[5]));
            case "time" -> search.time(Path.of(arguments[3]), arguments[4].split(","));
            default -> throw new IllegalArgumentException("'" + arguments[0] + "' must be list, compile or time");
        }
    }

    private MmaTile tile(MmaKernel kernel, int rowWarps, int columnWarps, int rowTiles, int columns, int smBlocks) {
        return new MmaTile(kernel, type, gemm.products(), width, rowWarps, columnWarps, rowTiles, columns, smBlocks);
    }

    private MmaTile parse(String line) {
        String[] words = line.trim().split("[ x]");
        int[] n = Arrays.stream(words, 1, 6).mapToInt(Integer::parseInt).toArray();
        return tile(MmaKernel.valueOf(words[0]), n[0], n[1], n[2], n[3], n[4]);
    }

    private static String line(MmaTile tile) {
        return "%s %dx%d %dx%d %d"
                .formatted(
                        tile.kernel(),
                        tile.rowWarps(),
                        tile.columnWarps(),
                        tile.rowTiles(),
                        tile.columns(),
                        tile.smBlocks());
    }

    private List<MmaTile> read(Path file) throws IOException {
        return Files.readAllLines(file).stream()
                .filter(line -> !line.isBlank())
                .map(this::parse)
                .toList();
    }

    /**
     * Prints the tiles without spills: of each layout that with the most blocks per multiprocessor, and one with half
     * of them if its threads may then have more registers.
     */
    private void list() {
        for (MmaKernel kernel : MmaKernel.values()) {
            for (MmaTile layout : candidates(kernel)) {
                int most = layout.smBlocks();
                while (most > 1 && spills(withBlocks(layout, most)) > 0) {
                    most--;
                }
                if (spills(withBlocks(layout, most)) == 0) {
                    System.out.println(line(withBlocks(layout, most)));
                    if (most > 1 && most * layout.threads() > ALL_REGISTERS_THREADS) {
                        System.out.println(line(withBlocks(layout, most / 2)));
                    }
                }
            }
        }
    }

    private MmaTile withBlocks(MmaTile t, int smBlocks) {
        return tile(t.kernel(), t.rowWarps(), t.columnWarps(), t.rowTiles(), t.columns(), smBlocks);
    }

    /** Returns the plausible layouts, with the most blocks per multiprocessor that shared memory and threads allow. */
    private List<MmaTile> candidates(MmaKernel kernel) {
        List<MmaTile> candidates = new ArrayList<>();
        for (int warps : new int[] {4, 8}) {
            for (int rowWarps = 1; rowWarps <= warps; rowWarps *= 2) {
                for (int rowTiles = 1; rowTiles <= 2; rowTiles++) {
                    for (int columns = 16; columns <= 64; columns *= 2) {
                        int columnWarps = warps / rowWarps;
                        int accumulators = rowTiles * columns;
                        if (accumulators > 64 || columns * columnWarps > 128 || rowTiles == 2 && columnWarps > 2) {
                            continue;
                        }
                        MmaTile tile =
                                tile(kernel, rowWarps, columnWarps, rowTiles, columns, SM_THREADS / (32 * warps));
                        MmaTile fitting = tile.fitting(KernelVariant.HOPPER);
                        if (fitting.rows() == tile.rows()
                                && fitting.columns() == tile.columns()
                                && fitting.columnWarps() == tile.columnWarps()) {
                            candidates.add(fitting);
                        }
                    }
                }
            }
        }
        return candidates;
    }

    private static int spills(MmaTile tile) {
        KernelResources used = KernelCompiler.shared()
                .compile(KernelSource.named(tile.kernel().file()), tile.defines(), KernelVariant.HOPPER)
                .resources(tile.kernel().function());
        return used.spillStores() + used.spillLoads();
    }

    private void compile(Path file, int first, int step) throws IOException {
        List<MmaTile> tiles = read(file);
        for (int i = first; i < tiles.size(); i += step) {
            if (spills(tiles.get(i)) > 0) {
                throw new IllegalArgumentException(line(tiles.get(i)) + " spills");
            }
        }
    }

    private void time(Path file, String... sizes) throws IOException {
        List<MmaTile> tiles = read(file);
        Device device = Device.cuda(0);
        for (String size : sizes) {
            int heads = Integer.parseInt(size.split("x")[0]);
            int tokens = Integer.parseInt(size.split("x")[1]);
            try (var scope = MemoryScope.open()) {
                Tensor[] inputs = new Tensor[4];
                for (int i = 0; i < inputs.length; i++) {
                    inputs[i] = torch.randn(new long[] {1, heads, tokens, width}, device.options(type));
                }
                for (MmaKernel kernel : MmaKernel.values()) {
                    List<MmaTile> ofKernel =
                            tiles.stream().filter(t -> t.kernel() == kernel).toList();
                    time(kernel, ofKernel, (long) heads * tokens, size, inputs);
                }
            }
        }
    }

    private void time(MmaKernel kernel, List<MmaTile> tiles, long rows, String size, Tensor... inputs) {
        Gpu gpu = Gpu.of(inputs[0]);
        MmaTile chosen =
                MmaTileTable.of(kernel, type, gemm.products(), width, rows, gpu.architecture(), gpu.multiprocessors());
        var flash = new MmaFlash(gemm);
        Tensor q = inputs[0], k = inputs[1], v = inputs[2], dO = inputs[3];
        try (var scope = MemoryScope.open()) {
            AttentionOutput output = flash.forward(q, k, v, true);
            Tensor[] expected = results(flash, kernel, Map.of(), output, q, k, v, dO);
            List<TimedMmaTile> timed = new ArrayList<>();
            List<MmaTile> all = new ArrayList<>(tiles);
            if (!all.contains(chosen)) {
                all.add(chosen);
            }
            for (MmaTile tile : all) {
                Map<MmaKernel, MmaTile> replaced = Map.of(kernel, tile);
                try (var inner = MemoryScope.open()) {
                    Tensor[] actual = results(flash, kernel, replaced, output, q, k, v, dO);
                    double ms = LaunchTimes.medianMs(
                            gpu.device(), () -> results(flash, kernel, replaced, output, q, k, v, dO));
                    timed.add(new TimedMmaTile(tile, ms, areClose(expected, actual)));
                }
            }
            timed.sort(Comparator.comparingDouble(TimedMmaTile::ms));
            System.out.printf("%s %s %d, %s heads x tokens%n", kernel, operands, width, size);
            for (TimedMmaTile t : timed) {
                System.out.printf(
                        "%s %-22s %.4f ms%s%n",
                        t.tile.equals(chosen) ? "*" : " ", line(t.tile), t.ms, t.isCorrect ? "" : "  WRONG");
            }
            System.out.flush();
        }
    }

    private static Tensor[] results(
            MmaFlash flash, MmaKernel kernel, Map<MmaKernel, MmaTile> tiles, AttentionOutput output, Tensor... x) {
        if (kernel == MmaKernel.FORWARD) {
            AttentionOutput found = flash.forward(x[0], x[1], x[2], true, tiles);
            return new Tensor[] {found.o(), found.l()};
        }
        AttentionGradients found = flash.backward(x[0], x[1], x[2], output.o(), output.l(), x[3], true, tiles);
        return new Tensor[] {found.dQ(), found.dK(), found.dV()};
    }

    private boolean areClose(Tensor[] expected, Tensor... actual) {
        for (int i = 0; i < expected.length; i++) {
            double largest = expected[i].abs().max().item().toDouble();
            double difference = actual[i].sub(expected[i]).abs().max().item().toDouble();
            if (!(difference <= (type == DType.FLOAT32 ? TOLERANCE : TOLERANCE_OF_HALVES) * largest)) {
                return false;
            }
        }
        return true;
    }
}
