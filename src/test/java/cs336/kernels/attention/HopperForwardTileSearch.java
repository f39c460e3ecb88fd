package cs336.kernels.attention;

import cs336.kernels.LaunchTimes;
import cs336.kernels.runtime.Gpu;
import cs336.kernels.runtime.KernelCompiler;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.KernelVariant;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.Arrays;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Measures all tiles of {@link HopperForwardTile} in bf16 with a causal mask, as the basis of the times that it
 * estimates with. Prints a row per size and tile; {@code *} marks the tile that it selects.
 *
 * <pre>
 * HopperForwardTileSearch compile 0 8                  compiles every eighth tile from number 0 on, to fill the cache
 * HopperForwardTileSearch time 64,128 1x4096,16x512    times the tiles of these head dimensions, for heads × tokens
 * </pre>
 */
public final class HopperForwardTileSearch {
    private HopperForwardTileSearch() {}

    public static void main(String[] arguments) {
        switch (arguments[0]) {
            case "compile" -> compile(Integer.parseInt(arguments[1]), Integer.parseInt(arguments[2]));
            case "time" -> {
                System.out.println("d,heads,tokens,consumers,split_keys,cluster,keys,stages,ms,selected");
                for (String d : arguments[1].split(",")) {
                    for (String size : arguments[2].split(",")) {
                        int[] n = Arrays.stream(size.split("x"))
                                .mapToInt(Integer::parseInt)
                                .toArray();
                        time(Integer.parseInt(d), n[0], n[1]);
                    }
                }
            }
            default -> throw new IllegalArgumentException("'" + arguments[0] + "' must be compile or time");
        }
    }

    private static void compile(int first, int step) {
        List<HopperForwardTile> tiles = HopperForwardTile.all();
        for (int i = first; i < tiles.size(); i += step) {
            KernelCompiler.shared()
                    .compile(
                            KernelSource.named(HopperForwardTile.FILE),
                            tiles.get(i).defines(DType.BFLOAT16),
                            KernelVariant.HOPPER);
        }
    }

    private static void time(int d, int heads, int tokens) {
        Device device = Device.cuda(0);
        try (var scope = MemoryScope.open()) {
            Tensor[] x = new Tensor[3];
            for (int i = 0; i < x.length; i++) {
                x[i] = torch.randn(new long[] {1, heads, tokens, d}, device.options(DType.BFLOAT16));
            }
            var selected = HopperForwardTile.of(
                    d, heads, tokens, tokens, true, Gpu.of(x[0]).multiprocessors());
            for (HopperForwardTile tile : HopperForwardTile.all()) {
                if (tile.dimension() == HeadWidths.of(d)) {
                    double ms =
                            LaunchTimes.medianMs(device, () -> HopperFlashForward.run(tile, x[0], x[1], x[2], true));
                    System.out.printf(
                            "%d,%d,%d,%d,%b,%d,%d,%d,%.5f,%s%n",
                            d,
                            heads,
                            tokens,
                            tile.consumers(),
                            tile.splitKeys(),
                            tile.cluster(),
                            tile.keys(),
                            tile.stages(),
                            ms,
                            tile.equals(selected) ? "*" : "");
                }
            }
            System.out.flush();
        }
    }
}
