package cs336.kernels.norms;

import cs336.kernels.LaunchTimes;
import cs336.kernels.norms.RmsNormTile.RmsNormPass;
import cs336.kernels.runtime.GpuArchitecture;
import cs336.kernels.runtime.KernelCompiler;
import cs336.kernels.runtime.KernelResources;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.RowLayout;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import org.bytedeco.pytorch.Tensor;
import org.bytedeco.pytorch.global.torch;

/**
 * Measures all tiles that are plausible for an RMSNorm kernel on this GPU, as the basis of the choice in
 * {@link RmsNormTile}. Prints the fastest ones, with their bandwidth as a percentage of that of a copy.
 *
 * <pre>java cs336.kernels.norms.RmsNormTileSearch [rows] [widths] [types]     such as 50000 1024,8192 fp32,bf16</pre>
 */
public final class RmsNormTileSearch {
    private static final int SHOWN = 5;
    private static final GpuArchitecture HOPPER = GpuArchitecture.parse("sm_90a");

    private RmsNormTileSearch() {}

    /** A tile with its median time and resource usage. */
    private record TimedTile(RmsNormTile tile, double ms, KernelResources used) {}

    /** Returns the tiles whose registers and shared memory suffice, as far as can be estimated without compiling. */
    public static List<RmsNormTile> candidates(RowLayout layout, boolean forward) {
        List<RmsNormTile> candidates = new ArrayList<>();
        for (int rowThreads = 32; rowThreads <= 1024; rowThreads *= 2) {
            int elements = (layout.accesses() + rowThreads - 1) / rowThreads * layout.vector();
            if (elements < layout.vector() || elements > (forward ? 64 : 32)) {
                continue;
            }
            if (layout.accesses() < rowThreads) {
                continue;
            }
            for (int block = Math.max(128, rowThreads); block <= Math.max(512, rowThreads); block *= 2) {
                if (rowThreads > 32 && block / rowThreads > 8) {
                    continue;
                }
                for (int smThreads : new int[] {512, 768, 1024, 1536, 2048}) {
                    if (smThreads % block != 0 || smThreads > 64 * 1024 / 32) {
                        continue;
                    }
                    int registers = 64 * 1024 / smThreads;
                    for (boolean keep : new boolean[] {true, false}) {
                        int words = layout.type().bytes() * elements / 4;
                        int needed = forward
                                ? words + (keep ? layout.gainType().bytes() * elements / 4 : 0)
                                : 2 * words
                                        + elements
                                        + (keep ? layout.gainType().bytes() * elements / 4 : 0);
                        if (needed + 20 > registers) {
                            continue;
                        }
                        for (int stages = 1; stages <= 3; stages++) {
                            candidates.add(new RmsNormTile(
                                    forward ? RmsNormPass.FORWARD : RmsNormPass.BACKWARD,
                                    rowThreads,
                                    block / rowThreads,
                                    smThreads / block,
                                    stages,
                                    keep,
                                    true,
                                    false));
                        }
                        if (forward) {
                            candidates.add(new RmsNormTile(
                                    RmsNormPass.FORWARD,
                                    rowThreads,
                                    block / rowThreads,
                                    smThreads / block,
                                    1,
                                    keep,
                                    false,
                                    false));
                        }
                    }
                }
            }
        }
        candidates.removeIf(tile -> (long) tile.sharedBytes(layout) * tile.smBlocks() > 220 * 1024);
        return candidates;
    }

    public static void main(String[] arguments) {
        int rows = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 50_000;
        int[] widths = Arrays.stream((arguments.length > 1 ? arguments[1] : "1024,2048,4096,8192").split(","))
                .mapToInt(Integer::parseInt)
                .toArray();
        String[] types = (arguments.length > 2 ? arguments[2] : "fp32,bf16").split(",");
        Device device = Device.cuda(0);
        for (String type : types) {
            for (int width : widths) {
                search(rows, width, DType.parse(type), device);
            }
        }
    }

    private static void search(int rows, int width, DType type, Device device) {
        try (var scope = MemoryScope.open()) {
            long[] shape = {rows, width};
            Tensor x = torch.randn(shape, device.options(DType.FLOAT32)).to(type.scalarType());
            Tensor dy = torch.randn(shape, device.options(DType.FLOAT32)).to(type.scalarType());
            Tensor weight = torch.randn(new long[] {width}, device.options(DType.FLOAT32))
                    .to(type.scalarType());
            Tensor y = torch.empty_like(x);
            RowLayout layout = RowLayout.of(weight, x, dy, y);
            double tensorGb = (double) rows * width * type.bytes() / 1e9;
            double copyMs = LaunchTimes.medianMs(device, () -> y.copy_(x));
            System.out.printf(
                    "%d x %d %s: copy %.4f ms, %.0f GB/s%n", rows, width, type, copyMs, 2e3 * tensorGb / copyMs);
            for (boolean forward : new boolean[] {true, false}) {
                List<RmsNormTile> candidates = candidates(layout, forward).parallelStream()
                        .filter(tile -> {
                            KernelResources used = resources(tile, layout);
                            return used.spillStores() == 0;
                        })
                        .toList();
                List<TimedTile> timed = new ArrayList<>();
                for (RmsNormTile tile : candidates) {
                    try (var inner = MemoryScope.open()) {
                        var kernels = new RmsNormKernels(layout, tile);
                        if (!kernels.fits()) {
                            System.out.println("  does not fit: " + tile);
                            continue;
                        }
                        double ms = LaunchTimes.medianMs(device, () -> {
                            if (forward) {
                                kernels.launchForward(x, weight, y, 1e-5);
                            } else {
                                kernels.launchBackward(x, weight, dy, y, 1e-5);
                            }
                        });
                        timed.add(new TimedTile(tile, ms, kernels.kernel().resources()));
                    }
                }
                timed.sort(Comparator.comparingDouble(TimedTile::ms));
                RmsNormTile chosen = forward ? RmsNormTile.forward(layout) : RmsNormTile.backward(layout);
                System.out.printf("  %s, %d tiles%n", forward ? "forward" : "backward", timed.size());
                for (int i = 0; i < timed.size(); i++) {
                    TimedTile t = timed.get(i);
                    if (i >= SHOWN && !t.tile.equals(chosen)) {
                        continue;
                    }
                    double fraction = (forward ? 2 : 3) / 2.0 * copyMs / t.ms;
                    System.out.printf(
                            "  %s%.4f ms %5.1f%% of copy  threads %4d rows %d blocks %d stages %d keep %b persistent %b"
                                    + " registers %d%n",
                            t.tile.equals(chosen) ? "*" : " ",
                            t.ms,
                            100 * fraction,
                            t.tile.rowThreads(),
                            t.tile.blockRows(),
                            t.tile.smBlocks(),
                            t.tile.stages(),
                            t.tile.keepWeight(),
                            t.tile.persistent(),
                            t.used.registers());
                }
            }
        }
    }

    private static KernelResources resources(RmsNormTile tile, RowLayout layout) {
        return KernelCompiler.shared()
                .compile(KernelSource.named("rmsnorm.cu"), tile.defines(layout), HOPPER)
                .resources(tile.pass().kernel());
    }
}
