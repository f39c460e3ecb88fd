package cs336.kernels.norms;

import cs336.bench.ArgumentCheck;
import cs336.bench.Case;
import cs336.bench.LabCommand;
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
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/**
 * The command {@code norms}, the course's benchmark of RMSNorm: compares normalisations with each other and with a copy
 * that moves as many bytes as a forward pass.
 */
@Command(
        name = "norms",
        description = {
            "Measures RMSNorm (tensor operations, hand-derived gradients, fused kernels) and PyTorch's layer_norm and"
                    + " rms_norm: the forward pass, forward with backward pass, and for comparison a copy of the rows.",
            "All cases run in one process. The results of each are stored before the next one starts."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  A few seconds on a laptop:",
            "    cs336 norms --rows 500 --hidden 256,1024 --passes 40",
            "  The course's sizes:",
            "    cs336 norms",
            "",
            "Exit codes: 0 all cases measured (out of memory is a result), 1 a case failed or a file cannot be written, 2 invalid arguments."
        })
public final class NormsCommand extends LabCommand {
    private static final String COPY = "copy";

    /** The largest number of elements; the bytes of all passes are below 2⁶³. */
    private static final double MAX_ELEMENTS = 0x1p56;

    @Option(names = "--rows", defaultValue = "50000", paramLabel = "<n>", description = "rows to normalise")
    private int rows;

    @Option(
            names = "--hidden",
            split = ",",
            defaultValue = "1024,2048,4096,8192",
            paramLabel = "<n>",
            description = "elements per row")
    private List<Integer> widths;

    @Option(
            names = "--dtype",
            split = ",",
            defaultValue = "fp32,bf16",
            paramLabel = "<dtype>",
            description = "dtypes of rows and weight: fp32, bf16, fp16")
    private List<String> dtypes;

    @Option(
            names = "--implementation",
            split = ",",
            paramLabel = "<name>",
            description = "plain, manual, rmsnorm-fused, rmsnorm-compiled, layernorm, torch-rms_norm; all if not given")
    private List<String> implementations;

    @Option(names = "--passes", defaultValue = "1000", paramLabel = "<n>", description = "timed passes, in 20 groups")
    private int passes;

    @Mixin
    private final StorageOptions storage = new StorageOptions("rmsnorm_benchmarking");

    @Override
    public Integer call() throws IOException {
        NormsPlan plan = checked(this::plan);
        System.err.printf(
                "%s: %d cases into %s%n", plan.provenance.device(), plan.cases.size(), plan.measurements.path());
        int failed = 0;
        for (int width : widths) {
            for (DType dtype : plan.dtypes) {
                failed += measure(plan, width, dtype);
            }
        }
        return failed == 0 ? 0 : 1;
    }

    /** The checked options: the cases to measure and where to store them. */
    private record NormsPlan(
            Device device,
            Provenance provenance,
            Measurements measurements,
            List<DType> dtypes,
            List<NormImplementation> implementations,
            List<Case> cases) {}

    private NormsPlan plan() throws IOException {
        ArgumentCheck.atLeast("--rows", 1, rows);
        ArgumentCheck.atLeast("--passes", NormBenchmark.GROUPS, passes);
        widths = widths.stream().distinct().toList();
        for (int width : widths) {
            ArgumentCheck.atLeast("--hidden", 1, width);
            if ((double) rows * width > MAX_ELEMENTS) {
                throw new IllegalArgumentException(
                        "--rows " + rows + " × --hidden " + width + " must be at most 2^56 elements");
            }
        }
        List<DType> types = dtypes.stream().map(DType::parse).distinct().toList();
        for (DType type : types) {
            if (!TensorChecks.KERNEL_TYPES.contains(type)) {
                throw new IllegalArgumentException("--dtype must be fp32, bf16 or fp16, not " + type);
            }
        }
        List<NormImplementation> chosen = implementations == null
                ? Arrays.asList(NormImplementation.values())
                : implementations.stream()
                        .map(NormImplementation::parse)
                        .distinct()
                        .toList();
        storage.requireWritable();
        Device device = Device.parse(storage.device());
        Provenance provenance = storage.named(Provenance.of(device));
        storage.requireClean(device.isCuda(), provenance.commit());
        Measurements measurements = storage.measurements(provenance);
        List<Case> cases = new ArrayList<>();
        for (int width : widths) {
            for (DType type : types) {
                cases.add(caseOf(COPY, width, type, NormBenchmark.COPY_METRICS));
                chosen.forEach(i -> cases.add(caseOf(i.toString(), width, type, NormBenchmark.METRICS)));
            }
        }
        for (Case c : cases) {
            measurements.requireSameColumns(c);
        }
        measurements.requireWritable();
        return new NormsPlan(device, provenance, measurements, types, chosen, cases);
    }

    private Case caseOf(String implementation, int width, DType dtype, List<Metric> metrics) {
        return Case.measuredHere(implementation) // in this process, because starting one takes longer than a case
                .with("rows", rows)
                .with("hidden", width)
                .with("dtype", dtype)
                .with("passes", passes)
                .yields(metrics.toArray(Metric[]::new));
    }

    /** Measures and prints the implementations that are not stored, and returns the number of those that failed. */
    private int measure(NormsPlan plan, int width, DType dtype) throws IOException {
        PrintWriter out = out();
        List<NormImplementation> missing = new ArrayList<>();
        for (NormImplementation implementation : plan.implementations) {
            Case c = caseOf(implementation.toString(), width, dtype, NormBenchmark.METRICS);
            if (storage.again() || !plan.measurements.holds(c)) {
                missing.add(implementation);
            }
        }
        if (missing.isEmpty()) {
            out.printf("%d × %d %s: stored already%n", rows, width, dtype);
            out.flush();
            return 0;
        }
        int failed = 0;
        Case copyCase = caseOf(COPY, width, dtype, NormBenchmark.COPY_METRICS);
        try (var scope = MemoryScope.open()) {
            NormBenchmark benchmark;
            List<Samples> copy;
            try {
                benchmark = new NormBenchmark(rows, width, dtype, plan.device, passes);
                copy = benchmark.copy();
            } catch (RuntimeException e) {
                Status status = Status.of(e);
                store(plan, copyCase, List.of(), status);
                for (NormImplementation implementation : missing) {
                    store(
                            plan,
                            caseOf(implementation.toString(), width, dtype, NormBenchmark.METRICS),
                            List.of(),
                            status);
                }
                out.printf("%d × %d %s: %s: %s%n", rows, width, dtype, status, firstLine(e));
                out.flush();
                return status == Status.ERROR ? missing.size() : 0;
            }
            store(plan, copyCase, copy, Status.OK);
            double copyBandwidth = NormBenchmark.copyBandwidth(copy);
            out.printf("%d × %d %s: copy %.0f GB/s%n", rows, width, dtype, copyBandwidth);
            for (NormImplementation implementation : missing) {
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
                    if (status == Status.ERROR) {
                        failed++;
                    }
                    out.printf("  %-15s %s: %s%n", implementation, status, firstLine(e));
                }
                out.flush();
            }
        }
        return failed;
    }

    private static String firstLine(RuntimeException e) {
        return String.valueOf(e.getMessage()).lines().findFirst().orElse("");
    }

    private static double median(List<Samples> samples, int metric) {
        return samples.get(metric).summary().median();
    }

    private static void store(NormsPlan plan, Case c, List<Samples> samples, Status status) throws IOException {
        List<Measurement> rows = new ArrayList<>();
        samples.forEach(s -> rows.add(Measurement.of(s)));
        if (status != Status.OK) {
            c.metrics().forEach(m -> rows.add(Measurement.missing(m, status)));
        }
        plan.measurements.put(c, rows, plan.provenance.updated());
    }
}
