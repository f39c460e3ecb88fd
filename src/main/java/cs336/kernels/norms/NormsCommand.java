package cs336.kernels.norms;

import cs336.bench.ArgumentCheck;
import cs336.bench.Case;
import cs336.bench.Measurement;
import cs336.bench.Measurements;
import cs336.bench.Metric;
import cs336.bench.Provenance;
import cs336.bench.Samples;
import cs336.bench.Status;
import cs336.bench.StorageOptions;
import cs336.kernels.runtime.TensorChecks;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Times normalisations against each other and against a copy: the course's RMSNorm benchmark. */
@Command(
        name = "norms",
        description = {
            "Times RMSNorm (plain operations, hand-derived gradients, fused kernels) beside PyTorch's layer_norm and"
                    + " rms_norm, forward and forward with backward, and a copy of the same bytes as the yardstick.",
            "All in one process; each implementation's numbers are stored before the next one starts."
        },
        sortOptions = false,
        mixinStandardHelpOptions = true,
        footerHeading = "%nExamples:%n",
        footer = {
            "  In seconds, on any laptop:",
            "    cs336 norms --rows 500 --hidden 256,1024 --passes 40",
            "  The course's sizes:",
            "    cs336 norms",
            "",
            "Exit codes: 0 all measured (out of memory is a result), 1 a case failed, 2 wrong use."
        })
public final class NormsCommand implements Callable<Integer> {
    private static final String COPY = "copy";

    @Spec
    private CommandSpec spec;

    @Option(
            names = "--rows",
            defaultValue = "50000",
            paramLabel = "<n>",
            description = "rows to normalise. Default: ${DEFAULT-VALUE}")
    private int rows;

    @Option(
            names = "--hidden",
            split = ",",
            defaultValue = "1024,2048,4096,8192",
            paramLabel = "<n>",
            description = "elements in a row. Default: ${DEFAULT-VALUE}")
    private List<Integer> widths;

    @Option(
            names = "--dtype",
            split = ",",
            defaultValue = "fp32,bf16",
            paramLabel = "<dtype>",
            description = "of rows and weight: fp32, bf16, fp16. Default: ${DEFAULT-VALUE}")
    private List<String> dtypes;

    @Option(
            names = "--implementation",
            split = ",",
            paramLabel = "<name>",
            description = "plain, manual, fused, layernorm, torch-rms_norm. Default: all")
    private List<String> implementations;

    @Option(
            names = "--passes",
            defaultValue = "1000",
            paramLabel = "<n>",
            description = "timed passes, in 20 groups. Default: ${DEFAULT-VALUE}")
    private int passes;

    @Mixin
    private final StorageOptions storage = new StorageOptions("rmsnorm_benchmarking");

    @Override
    public Integer call() throws IOException {
        NormsPlan plan = plan();
        PrintWriter out = spec.commandLine().getOut();
        System.err.printf(
                "%s: %d cases into %s%n", plan.provenance.device(), plan.cases.size(), plan.measurements.path());
        int failed = 0;
        for (int width : widths) {
            for (DType dtype : plan.dtypes) {
                failed += measure(plan, width, dtype, out);
            }
        }
        return failed == 0 ? 0 : 1;
    }

    /** What to do, checked. */
    private record NormsPlan(
            Device device,
            Provenance provenance,
            Measurements measurements,
            List<DType> dtypes,
            List<NormImplementation> implementations,
            List<Case> cases) {}

    private NormsPlan plan() throws IOException {
        try {
            ArgumentCheck.atLeast("--rows", 1, rows);
            ArgumentCheck.atLeast("--passes", NormBenchmark.GROUPS, passes);
            widths.forEach(width -> ArgumentCheck.atLeast("--hidden", 1, width));
            storage.requireNames();
            List<DType> types = dtypes.stream().map(DType::parse).toList();
            for (DType type : types) {
                if (!TensorChecks.KERNEL_TYPES.contains(type)) {
                    throw new IllegalArgumentException("--dtype must be fp32, bf16 or fp16, not " + type);
                }
            }
            List<NormImplementation> chosen = implementations == null
                    ? Arrays.asList(NormImplementation.values())
                    : implementations.stream().map(NormImplementation::parse).toList();
            Device where = Device.parse(storage.device());
            Provenance provenance = storage.named(Provenance.of(where));
            Measurements measurements = storage.measurements(provenance);
            List<Case> cases = new ArrayList<>();
            for (int width : widths) {
                for (DType type : types) {
                    cases.add(caseOf(COPY, width, type, NormBenchmark.COPY_METRICS));
                    chosen.forEach(i -> cases.add(caseOf(i.toString(), width, type, NormBenchmark.METRICS)));
                }
            }
            for (Case c : cases) measurements.requireSameColumns(c);
            return new NormsPlan(where, provenance, measurements, types, chosen, cases);
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
    }

    private Case caseOf(String implementation, int width, DType dtype, List<Metric> metrics) {
        return Case.measuredHere(implementation) // too short for a process of its own
                .with("rows", rows)
                .with("hidden", width)
                .with("dtype", dtype)
                .with("passes", passes)
                .yields(metrics.toArray(Metric[]::new));
    }

    /** Measures what is not stored yet of one width and type, and prints it. Returns how many cases failed. */
    private int measure(NormsPlan plan, int width, DType dtype, PrintWriter out) throws IOException {
        List<NormImplementation> open = new ArrayList<>();
        for (NormImplementation implementation : plan.implementations) {
            Case c = caseOf(implementation.toString(), width, dtype, NormBenchmark.METRICS);
            if (storage.again() || !plan.measurements.holds(c)) open.add(implementation);
        }
        if (open.isEmpty()) {
            out.printf("%d × %d %s: stored already%n", rows, width, dtype);
            out.flush();
            return 0;
        }
        int failed = 0;
        try (var scope = MemoryScope.open()) {
            NormBenchmark benchmark = new NormBenchmark(rows, width, dtype, plan.device, passes);
            List<Samples> copy = benchmark.copy();
            store(plan, caseOf(COPY, width, dtype, NormBenchmark.COPY_METRICS), copy, Status.OK);
            double copyBandwidth = NormBenchmark.copyBandwidth(copy);
            out.printf("%d × %d %s: copy %.0f GB/s%n", rows, width, dtype, copyBandwidth);
            for (NormImplementation implementation : open) {
                Case c = caseOf(implementation.toString(), width, dtype, NormBenchmark.METRICS);
                try {
                    List<Samples> samples = benchmark.run(implementation, copyBandwidth);
                    store(plan, c, samples, Status.OK);
                    out.printf(
                            "  %-15s forward %.4f ms (%.0f %% of copy), forward-backward %.4f ms (%.0f %%)%n",
                            implementation,
                            median(samples, 0),
                            median(samples, 3),
                            median(samples, 4),
                            median(samples, 7));
                } catch (RuntimeException e) {
                    Status status = Status.of(e);
                    store(plan, c, List.of(), status);
                    if (status == Status.ERROR) failed++;
                    out.printf("  %-15s %s: %s%n", implementation, status, e.getMessage());
                }
                out.flush();
            }
        }
        return failed;
    }

    private static double median(List<Samples> samples, int metric) {
        return samples.get(metric).summary().median();
    }

    private static void store(NormsPlan plan, Case c, List<Samples> samples, Status status) throws IOException {
        List<Measurement> rows = new ArrayList<>();
        samples.forEach(s -> rows.add(Measurement.of(s)));
        if (status != Status.OK) c.metrics().forEach(m -> rows.add(Measurement.missing(m, status)));
        plan.measurements.put(c, rows, plan.provenance);
    }
}
