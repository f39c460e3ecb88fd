package cs336.kernels;

import cs336.bench.Case;
import cs336.bench.Measurement;
import cs336.bench.Measurements;
import cs336.bench.Metric;
import cs336.bench.Provenance;
import cs336.bench.Samples;
import cs336.kernels.attention.FirstFlash;
import cs336.kernels.attention.FlashRows;
import cs336.kernels.attention.HopperBackwardTile;
import cs336.kernels.attention.HopperBackwardTiles;
import cs336.kernels.attention.HopperForwardTile;
import cs336.kernels.attention.HopperForwardTiles;
import cs336.kernels.attention.MmaTile;
import cs336.kernels.attention.MmaTileTable;
import cs336.kernels.norms.RmsNormTile;
import cs336.kernels.norms.WeightedSum;
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
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** What the compiler makes of each kernel: registers, shared memory, spills, and how many warps fit. */
@Command(
        name = "kernels",
        mixinStandardHelpOptions = true,
        sortOptions = false,
        description = {
            "Compiles the kernels for an architecture, card or not, and stores what they use of a multiprocessor.",
            "Needs NVRTC: on the class path (a build with 'mvn -Pgpu') or installed."
        },
        footerHeading = "%nExamples:%n",
        footer = {"  cs336 kernels", "  cs336 kernels --architecture sm_80 --hidden 1024"})
public final class KernelsCommand implements Callable<Integer> {
    private static final Metric REGISTERS = new Metric("registers", "");
    private static final Metric SHARED = Metric.bytes("shared-memory");
    private static final Metric SPILLS = Metric.bytes("spills");
    private static final Metric OCCUPANCY = new Metric("occupancy", "%");

    private static final GpuArchitecture HOPPER = GpuArchitecture.parse("sm_90a");
    private static final int HEADS = 16;
    private static final int TOKENS = 16_384;
    private static final int H200_MULTIPROCESSORS = 132;

    @Spec
    private CommandSpec spec;

    @Option(
            names = "--architecture",
            defaultValue = "sm_90a",
            paramLabel = "<sm>",
            description = "what to compile for. Default: ${DEFAULT-VALUE}")
    private String architecture;

    @Option(
            names = "--hidden",
            split = ",",
            defaultValue = "1024,2048,4096,8192",
            paramLabel = "<n>",
            description =
                    "widths of rows for which RMSNorm is compiled (attention: d 64 and 128). Default: ${DEFAULT-VALUE}")
    private List<Integer> widths;

    @Option(
            names = "--output",
            defaultValue = "data/measurements",
            paramLabel = "<folder>",
            description = "where the numbers are stored, under the architecture's name. Default: ${DEFAULT-VALUE}")
    private Path output;

    /** A kernel in one of its forms. */
    private record Form(
            String file,
            String kernel,
            int hidden,
            DType dtype,
            Map<String, Object> defines,
            int threads,
            int shared) {}

    @Override
    public Integer call() throws IOException {
        try {
            GpuArchitecture target = GpuArchitecture.parse(architecture);
            Measurements measurements = Measurements.of(output, architecture, "kernel_resources");
            Provenance provenance = Provenance.of(Device.cpu()).named(architecture);
            for (Form form : forms(target)) {
                Cubin cubin = KernelCompiler.shared().compile(KernelSource.named(form.file), form.defines, target);
                KernelResources used = cubin.resources(form.kernel);
                Occupancy occupancy = used.occupancy(target, form.threads, form.shared);
                Case c = Case.measuredHere("nvrtc")
                        .with("kernel", form.kernel)
                        .with("hidden", form.hidden == 0 ? "any" : form.hidden)
                        .with("dtype", form.dtype)
                        .with("threads", form.threads);
                List<Measurement> rows = new ArrayList<>();
                rows.add(Measurement.of(Samples.once(REGISTERS, used.registers())));
                rows.add(Measurement.of(Samples.once(SHARED, used.sharedBytes() + form.shared)));
                rows.add(Measurement.of(Samples.once(SPILLS, used.spillStores() + used.spillLoads())));
                rows.add(Measurement.of(Samples.once(OCCUPANCY, 100 * occupancy.fraction())));
                measurements.put(c, rows, provenance);
                spec.commandLine()
                        .getOut()
                        .printf("%-22s %-6s %-5s %s, %s%n", form.kernel, c.text("hidden"), form.dtype, used, occupancy);
            }
            spec.commandLine().getOut().flush();
            return 0;
        } catch (IllegalArgumentException | IllegalStateException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
    }

    private List<Form> forms(GpuArchitecture target) {
        List<Form> forms = new ArrayList<>();
        for (DType dtype : List.of(DType.FLOAT32, DType.BFLOAT16)) {
            int vector = 16 / dtype.bytes();
            for (String pass : List.of("forward", "backward")) {
                Map<String, Object> defines = WeightedSum.defines(pass, dtype, vector);
                int threads = (int) defines.get("THREADS");
                forms.add(new Form("weighted_sum.cu", "weighted_sum_" + pass, 0, dtype, defines, threads, 0));
            }
            for (int width : widths) {
                RowLayout layout = new RowLayout(width, dtype, dtype, width % vector == 0 ? vector : 1, null);
                for (RmsNormTile tile : List.of(RmsNormTile.forward(layout), RmsNormTile.backward(layout))) {
                    forms.add(new Form(
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
        forms.addAll(flash(target));
        return forms;
    }

    /**
     * Attention in bf16, with d in the place of a row's width, in the tiles that {@value #HEADS} heads of
     * {@value #TOKENS} tokens get.
     */
    private static List<Form> flash(GpuArchitecture target) {
        DType dtype = DType.BFLOAT16;
        List<Form> forms = new ArrayList<>();
        for (int d : List.of(64, 128)) {
            for (FirstFlash.Pass pass : FirstFlash.Pass.values()) {
                forms.add(new Form(
                        FirstFlash.FILE,
                        pass.kernel(),
                        d,
                        dtype,
                        pass.defines(dtype, d),
                        FirstFlash.BLOCK.threads(),
                        pass.sharedBytes(d)));
            }
            for (MmaTile.Pass pass : MmaTile.Pass.values()) {
                forms.add(form(
                        MmaTileTable.of(pass, dtype, 1, d, (long) HEADS * TOKENS, target, H200_MULTIPROCESSORS),
                        d,
                        dtype));
            }
            if (target.equals(HOPPER)) forms.addAll(hopper(d, dtype));
        }
        return forms;
    }

    private static Form form(MmaTile tile, int d, DType dtype) {
        return new Form(
                tile.pass().file(), tile.pass().kernel(), d, dtype, tile.defines(), tile.threads(), tile.sharedBytes());
    }

    private static List<Form> hopper(int d, DType dtype) {
        var forward = HopperForwardTiles.of(d, HEADS, TOKENS, TOKENS, true, H200_MULTIPROCESSORS);
        var backward = HopperBackwardTiles.tile(d, HEADS, TOKENS, TOKENS, true, H200_MULTIPROCESSORS);
        var rows = new FlashRows(dtype, backward.width(), backward.queries());
        List<Form> forms = new ArrayList<>();
        forms.add(new Form(
                HopperForwardTile.FILE,
                HopperForwardTile.KERNEL,
                d,
                dtype,
                forward.defines(dtype),
                forward.blockThreads(),
                forward.sharedBytes()));
        for (FlashRows.Pass pass : FlashRows.Pass.values()) {
            forms.add(new Form(FlashRows.FILE, pass.kernel(), d, dtype, rows.defines(pass), rows.threads(), 0));
        }
        forms.add(new Form(
                HopperBackwardTile.FILE,
                HopperBackwardTile.KERNEL,
                d,
                dtype,
                backward.defines(dtype),
                HopperBackwardTile.THREADS,
                backward.sharedBytes()));
        return forms;
    }
}
