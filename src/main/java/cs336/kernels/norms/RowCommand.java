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
import cs336.kernels.norms.RowBenchmark.RowTraffic;
import cs336.kernels.runtime.TensorChecks;
import cs336.torch.DType;
import cs336.torch.Device;
import cs336.torch.MemoryScope;
import cs336.units.HostLoad;
import java.io.IOException;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/**
 * A command that compares implementations of an operation on rows with each other and with a copy of the rows. All
 * cases run in one process. The results of each are stored before the next one starts.
 */
abstract class RowCommand extends LabCommand {
    private static final String COPY = "copy";

    /** The largest number of elements; the bytes of all passes are below 2⁶³. */
    private static final double MAX_ELEMENTS = 0x1p56;

    @Option(names = "--rows", defaultValue = "50000", paramLabel = "<n>", description = "number of rows")
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
            description = "implementations to measure. Default: all")
    private List<String> implementations;

    @Option(names = "--passes", defaultValue = "1000", paramLabel = "<n>", description = "timed passes")
    private int passes;

    @Option(
            names = "--synchronize",
            split = ",",
            defaultValue = "group",
            paramLabel = "<when>",
            description =
                    "group: passes run back to back in 20 groups, timed by CUDA events; each: the wall time of each"
                            + " pass, with a device synchronization after it")
    private List<String> synchronizations;

    @Mixin
    private final StorageOptions storage;

    private final RowTraffic traffic;
    private final List<? extends RowImplementation> known;

    /**
     * @param problem the file of the measurements if --problem is not given
     * @param traffic the least traffic of the operation
     * @param known all implementations of the operation
     */
    RowCommand(String problem, RowTraffic traffic, RowImplementation... known) {
        storage = new StorageOptions(problem);
        this.traffic = traffic;
        this.known = List.of(known);
    }

    @Override
    public Integer call() throws IOException {
        RowPlan plan = checked(this::plan);
        System.err.printf(
                "%s: %s into %s%n",
                plan.provenance.device(), StorageOptions.numberOfCases(plan.cases.size()), plan.measurements.path());
        int failed = 0;
        for (RowSetting setting : plan.settings) {
            failed += measure(plan, setting);
        }
        return failed == 0 ? 0 : 1;
    }

    /** The parameters that all implementations and their copy share. */
    private record RowSetting(int rows, int width, DType dtype, int passes, PassSynchronization synchronization) {
        Case caseOf(String implementation, List<Metric> metrics) {
            return Case.measuredHere(implementation) // in this process, because starting one takes longer than a case
                    .with("rows", rows)
                    .with("hidden", width)
                    .with("dtype", dtype)
                    .with("passes", passes)
                    .with("synchronize", synchronization)
                    .yields(metrics.toArray(Metric[]::new));
        }

        Case copy() {
            return caseOf(COPY, RowBenchmark.COPY_METRICS);
        }

        Case of(RowImplementation implementation) {
            return caseOf(implementation.toString(), RowBenchmark.METRICS);
        }

        @Override
        public String toString() {
            return "%,d × %,d %s, synchronized after %s"
                    .formatted(
                            rows,
                            width,
                            dtype,
                            synchronization == PassSynchronization.EACH ? "each pass" : "groups of passes");
        }
    }

    /** The checked options: the cases to measure and where to store them. */
    private record RowPlan(
            Device device,
            Provenance provenance,
            Measurements measurements,
            List<? extends RowImplementation> implementations,
            List<RowSetting> settings,
            List<Case> cases) {}

    private RowPlan plan() throws IOException {
        ArgumentCheck.atLeast("--rows", 1, rows);
        ArgumentCheck.atLeast("--passes", RowBenchmark.GROUPS, passes);
        for (int width : widths) {
            ArgumentCheck.atLeast("--hidden", 1, width);
            if ((double) rows * width > MAX_ELEMENTS) {
                throw new IllegalArgumentException(
                        "--rows " + rows + " × --hidden " + width + " must be at most 2^56 elements");
            }
        }
        List<DType> types = dtypes.stream()
                .map(name -> ArgumentCheck.oneOf("--dtype", name, List.copyOf(TensorChecks.KERNEL_TYPES)))
                .toList();
        List<? extends RowImplementation> chosen = implementations == null
                ? known
                : implementations.stream()
                        .map(name -> ArgumentCheck.oneOf("implementation", name, known))
                        .distinct()
                        .toList();
        List<PassSynchronization> protocols = synchronizations.stream()
                .map(name -> ArgumentCheck.oneOf("--synchronize", name, List.of(PassSynchronization.values())))
                .toList();
        storage.requireWritable();
        Device device = Device.parse(storage.device());
        Provenance provenance = storage.named(Provenance.of(device));
        storage.requireClean(device.isCuda(), provenance.commit());
        Measurements measurements = storage.measurements(provenance);
        Set<RowSetting> settings = new LinkedHashSet<>();
        List<Case> cases = new ArrayList<>();
        for (int width : widths) {
            for (DType type : types) {
                for (PassSynchronization protocol : protocols) {
                    settings.add(new RowSetting(rows, width, type, passes, protocol));
                }
            }
        }
        for (RowSetting setting : settings) {
            cases.add(setting.copy());
            chosen.forEach(implementation -> cases.add(setting.of(implementation)));
        }
        for (Case c : cases) {
            measurements.requireSameColumns(c);
        }
        measurements.requireWritable();
        return new RowPlan(device, provenance, measurements, chosen, List.copyOf(settings), cases);
    }

    /** Measures and prints the implementations that are not stored, and returns the number of those that failed. */
    private int measure(RowPlan plan, RowSetting setting) throws IOException {
        PrintWriter out = out();
        List<RowImplementation> missing = new ArrayList<>();
        for (RowImplementation implementation : plan.implementations) {
            if (storage.again() || !plan.measurements.holds(setting.of(implementation))) {
                missing.add(implementation);
            }
        }
        if (missing.isEmpty()) {
            out.printf("%s: stored already%n", setting);
            out.flush();
            return 0;
        }
        HostLoad.check();
        int failed = 0;
        PassSynchronization synchronization = setting.synchronization;
        try (var scope = MemoryScope.open()) {
            RowBenchmark benchmark;
            List<Samples> copy;
            try {
                benchmark = new RowBenchmark(rows, setting.width, setting.dtype, plan.device, passes);
                copy = benchmark.copy(synchronization);
            } catch (RuntimeException e) {
                Status status = Status.of(e);
                store(plan, setting.copy(), List.of(), status);
                for (RowImplementation implementation : missing) {
                    store(plan, setting.of(implementation), List.of(), status);
                }
                out.printf("%s: %s: %s%n", setting, status, firstLine(e));
                out.flush();
                return status == Status.ERROR ? missing.size() : 0;
            }
            store(plan, setting.copy(), copy, Status.OK);
            double copyBandwidth = RowBenchmark.copyBandwidth(copy);
            out.printf("%s: copy %,.0f GB/s%n", setting, copyBandwidth);
            for (RowImplementation implementation : missing) {
                Case c = setting.of(implementation);
                try {
                    List<Samples> samples = benchmark.run(implementation, traffic, synchronization, copyBandwidth);
                    store(plan, c, samples, Status.OK);
                    out.printf(
                            "  %-16s forward %,.4f ms (%.0f %% of copy), forward-backward %,.4f ms (%.0f %%)%n",
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
                    out.printf("  %-16s %s: %s%n", implementation, status, firstLine(e));
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

    private static void store(RowPlan plan, Case c, List<Samples> samples, Status status) throws IOException {
        List<Measurement> rows = new ArrayList<>();
        samples.forEach(s -> rows.add(Measurement.of(s)));
        if (status != Status.OK) {
            c.metrics().forEach(m -> rows.add(Measurement.missing(m, status)));
        }
        plan.measurements.put(c, rows, plan.provenance.updated());
    }
}
