package cs336.kernels;

import cs336.bench.ArgumentCheck;
import cs336.bench.Case;
import cs336.bench.LabCommand;
import cs336.bench.Measurement;
import cs336.bench.Measurements;
import cs336.bench.Metric;
import cs336.bench.Provenance;
import cs336.bench.Samples;
import cs336.kernels.attention.FirstFlash;
import cs336.kernels.attention.FirstFlash.FirstFlashKernel;
import cs336.kernels.attention.FlashRows;
import cs336.kernels.attention.FlashRows.RowKernel;
import cs336.kernels.attention.HopperBackwardTile;
import cs336.kernels.attention.HopperForwardTile;
import cs336.kernels.attention.MmaTile;
import cs336.kernels.attention.MmaTile.MmaKernel;
import cs336.kernels.attention.MmaTileTable;
import cs336.kernels.norms.RmsNormTile;
import cs336.kernels.norms.WeightedSum;
import cs336.kernels.optimizer.MultiTensorAdamW;
import cs336.kernels.runtime.Cubin;
import cs336.kernels.runtime.GpuArchitecture;
import cs336.kernels.runtime.KernelCompiler;
import cs336.kernels.runtime.KernelResources;
import cs336.kernels.runtime.KernelSource;
import cs336.kernels.runtime.Occupancy;
import cs336.kernels.runtime.RowLayout;
import cs336.torch.DType;
import cs336.torch.Device;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;

/**
 * The command {@code kernels}: compiles the kernels of the weighted sum, RMSNorm, AdamW and attention, and stores their
 * registers, shared memory, register spills and occupancy.
 */
@Command(
        name = "kernels",
        description = {
            "Compiles the weighted-sum, RMSNorm, AdamW and attention kernels, with or without a GPU, and stores their"
                    + " registers, shared memory, spills and occupancy.",
            "Needs NVRTC: 'mvn dependency:resolve' downloads it (380 MB), also without a GPU. An installed CUDA toolkit"
                    + " works too."
        },
        footerHeading = "%nExamples:%n",
        footer = {"  ./cs336 kernels", "  ./cs336 kernels --architecture sm_80 --hidden 1024"})
public final class KernelsCommand extends LabCommand {
    private static final Metric REGISTERS = new Metric("registers", "");
    private static final Metric SHARED = Metric.bytes("shared-memory");
    private static final Metric SPILLS = Metric.bytes("spills");
    private static final Metric OCCUPANCY = new Metric("occupancy", "%");

    private static final GpuArchitecture HOPPER = GpuArchitecture.parse("sm_90a");
    private static final int HEADS = 16;
    private static final int TOKENS = 16_384;
    private static final int H200_MULTIPROCESSORS = 132;

    @Option(
            names = "--architecture",
            defaultValue = "sm_90a",
            paramLabel = "<sm>",
            description =
                    "GPU architecture to compile for: sm_80 or newer; the suffix a is for architecture-specific code,"
                            + " and only sm_90a (Hopper) includes the attention kernels for Hopper")
    private String architecture;

    @Option(
            names = "--hidden",
            split = ",",
            defaultValue = "1024,2048,4096,8192",
            paramLabel = "<n>",
            description = "row widths that RMSNorm is compiled for (attention: always d 64 and 128)")
    private List<Integer> widths;

    @Option(
            names = "--output",
            defaultValue = "data/measurements",
            paramLabel = "<folder>",
            description = "folder of the measurements; they go to its subfolder named after the architecture")
    private Path output;

    /** A kernel with the macros, threads and dynamic shared memory of one variant. */
    private record KernelBuild(
            String file,
            String kernel,
            int hidden,
            DType dtype,
            Map<String, Object> defines,
            int threads,
            int shared) {}

    @Override
    public Integer call() throws IOException, InterruptedException {
        return checked(this::compile);
    }

    private int compile() throws IOException {
        try {
            GpuArchitecture target = GpuArchitecture.parse(architecture);
            widths.forEach(width -> ArgumentCheck.atLeast("--hidden", 1, width));
            ArgumentCheck.writableFolder("--output", output);
            Measurements measurements = Measurements.of(output, architecture, "kernel_resources");
            Provenance provenance = Provenance.of(Device.cpu()).named(architecture);
            for (KernelBuild build : builds(target)) {
                store(build, target, measurements, provenance);
            }
            out().flush();
            return 0;
        } catch (IllegalStateException e) { // NVRTC is missing
            throw new IllegalArgumentException(e.getMessage(), e);
        }
    }

    private void store(KernelBuild build, GpuArchitecture target, Measurements measurements, Provenance provenance)
            throws IOException {
        Cubin cubin = KernelCompiler.shared().compile(KernelSource.named(build.file), build.defines, target);
        KernelResources used = cubin.resources(build.kernel);
        Occupancy occupancy = used.occupancy(target, build.threads, build.shared);
        Case c = Case.measuredHere("nvrtc")
                .with("kernel", build.kernel)
                .with("hidden", build.hidden == 0 ? "any" : build.hidden)
                .with("dtype", build.dtype)
                .with("threads", build.threads);
        List<Measurement> rows = List.of(
                Measurement.of(Samples.once(REGISTERS, used.registers())),
                Measurement.of(Samples.once(SHARED, used.sharedBytes() + build.shared)),
                Measurement.of(Samples.once(SPILLS, used.spillStores() + used.spillLoads())),
                Measurement.of(Samples.once(OCCUPANCY, 100 * occupancy.fraction())));
        measurements.put(c, rows, provenance);
        out().printf(
                        Locale.ROOT,
                        "%-22s %-6s %-5s %d registers, %,d bytes of shared memory, %,d bytes spilled, %s%n",
                        build.kernel,
                        c.text("hidden"),
                        build.dtype,
                        used.registers(),
                        used.sharedBytes() + build.shared,
                        used.spillStores() + used.spillLoads(),
                        occupancy);
    }

    private List<KernelBuild> builds(GpuArchitecture target) {
        List<KernelBuild> builds = new ArrayList<>();
        for (DType dtype : List.of(DType.FLOAT32, DType.BFLOAT16)) {
            int vector = 16 / dtype.bytes();
            for (String pass : List.of("forward", "backward")) {
                Map<String, Object> defines = WeightedSum.defines(pass, dtype, vector);
                int threads = (int) defines.get("THREADS");
                builds.add(new KernelBuild("weighted_sum.cu", "weighted_sum_" + pass, 0, dtype, defines, threads, 0));
            }
            for (int width : widths.stream().distinct().toList()) {
                int widest = Math.min(vector, Integer.lowestOneBit(width)); // as RowLayout.of for aligned tensors
                var layout = new RowLayout(width, dtype, dtype, widest, null);
                for (RmsNormTile tile : List.of(RmsNormTile.forward(layout), RmsNormTile.backward(layout))) {
                    builds.add(new KernelBuild(
                            "rmsnorm.cu",
                            tile.pass().kernel(),
                            width,
                            dtype,
                            tile.defines(layout),
                            tile.blockThreads(),
                            tile.sharedBytes(layout)));
                }
            }
        }
        builds.add(new KernelBuild(
                MultiTensorAdamW.FILE,
                MultiTensorAdamW.KERNEL,
                0,
                DType.FLOAT32,
                MultiTensorAdamW.defines(4),
                MultiTensorAdamW.THREADS,
                0));
        builds.addAll(flash(target));
        return builds;
    }

    /**
     * Returns the attention kernels in bf16, with the tiles for {@value #HEADS} heads of {@value #TOKENS} tokens. Their
     * head dimension d is stored as {@code hidden}.
     */
    private static List<KernelBuild> flash(GpuArchitecture target) {
        DType dtype = DType.BFLOAT16;
        List<KernelBuild> builds = new ArrayList<>();
        for (int d : List.of(64, 128)) {
            for (FirstFlashKernel kernel : FirstFlashKernel.values()) {
                builds.add(new KernelBuild(
                        FirstFlash.FILE,
                        kernel.function(),
                        d,
                        dtype,
                        kernel.defines(dtype, d),
                        FirstFlash.BLOCK.threads(),
                        kernel.sharedBytes(d)));
            }
            for (MmaKernel kernel : MmaKernel.values()) {
                builds.add(build(
                        MmaTileTable.of(kernel, dtype, 1, d, (long) HEADS * TOKENS, target, H200_MULTIPROCESSORS),
                        d,
                        dtype));
            }
            if (target.equals(HOPPER)) {
                builds.addAll(hopper(d, dtype));
            }
        }
        return builds;
    }

    private static KernelBuild build(MmaTile tile, int d, DType dtype) {
        return new KernelBuild(
                tile.kernel().file(),
                tile.kernel().function(),
                d,
                dtype,
                tile.defines(),
                tile.threads(),
                tile.sharedBytes());
    }

    private static List<KernelBuild> hopper(int d, DType dtype) {
        var forward = HopperForwardTile.of(d, HEADS, TOKENS, TOKENS, true, H200_MULTIPROCESSORS);
        var backward = HopperBackwardTile.of(d, HEADS, TOKENS, TOKENS, true, H200_MULTIPROCESSORS);
        var rows = backward.rows(dtype);
        List<KernelBuild> builds = new ArrayList<>();
        builds.add(new KernelBuild(
                HopperForwardTile.FILE,
                HopperForwardTile.KERNEL,
                d,
                dtype,
                forward.defines(dtype),
                forward.blockThreads(),
                forward.sharedBytes()));
        for (RowKernel kernel : RowKernel.values()) {
            builds.add(new KernelBuild(
                    FlashRows.FILE, kernel.function(), d, dtype, rows.defines(kernel), rows.threads(kernel), 0));
        }
        builds.add(new KernelBuild(
                HopperBackwardTile.FILE,
                HopperBackwardTile.KERNEL,
                d,
                dtype,
                backward.defines(dtype),
                HopperBackwardTile.THREADS,
                backward.sharedBytes()));
        return builds;
    }
}
