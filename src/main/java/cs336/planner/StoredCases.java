package cs336.planner;

import cs336.basics.ModelEdition;
import cs336.basics.TransformerConfig;
import cs336.bench.Measurements;
import cs336.bench.ModelOptions;
import cs336.bench.Pass;
import cs336.bench.Precision;
import cs336.bench.Project;
import cs336.bench.Status;
import cs336.checkpointing.CheckpointPolicy;
import cs336.distributed.bench.FsdpMode;
import cs336.numbers.Header;
import cs336.numbers.Tables;
import cs336.units.Bytes;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.FileTime;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.Table;

/**
 * A reader of the stored measurements on the H200 GPUs of one node that correspond to a {@link StepPlan}: peak memory,
 * step time, and cases that ran out of memory. Measurements of other programs, such as those in {@code peers/}, are not
 * among them.
 */
public final class StoredCases {
    /** The metric of the peak memory of a step in the files of one GPU. */
    private static final String PEAK = "peak-memory";

    private static final List<StoredFile> FILES = List.of(
            new StoredFile("h200", "benchmarking_mixed_precision", PEAK),
            new StoredFile("h200", "benchmarking_script", PEAK),
            new StoredFile("h200", "benchmarking_warmup", PEAK),
            new StoredFile("h200", "gradient_checkpointing", PEAK),
            new StoredFile("h200", "memory_profiling", PEAK),
            new StoredFile("h200", "normalization_benchmarking", PEAK),
            new StoredFile("h200", "torch_compile", PEAK),
            new StoredFile("h200-x2", "fsdp_accounting", "peak"),
            new StoredFile("h200-x2", "optimizer_state_sharding_accounting", "second-step-peak"),
            new StoredFile("h200-x2", "ddp_benchmarking", null),
            new StoredFile("h200-x4", "fsdp_accounting", "peak"),
            new StoredFile("h200-x4", "optimizer_state_sharding_accounting", null),
            new StoredFile("h200-x4", "ddp_benchmarking", null));

    /** The modes of {@code ddp}, {@code shard} and {@code fsdp} that a plan can have, by their labels there. */
    private static final Map<String, FsdpMode> MODES = Map.of(
            "bucketed", FsdpMode.DDP,
            "unsharded", FsdpMode.DDP,
            "ddp", FsdpMode.DDP,
            "zero-1", FsdpMode.ZERO_1,
            "fsdp", FsdpMode.FSDP,
            "fsdp-without-prefetch", FsdpMode.FSDP_WITHOUT_PREFETCH);

    private static final Set<String> NORMALIZATIONS = Set.of("rmsnorm-fused", "layernorm");
    private static final Set<String> ATTENTIONS = Set.of("flash", "sdpa");

    private static final Map<Path, CasesOfFile> READ = new ConcurrentHashMap<>();

    private StoredCases() {}

    /**
     * A file of measurements.
     *
     * @param machine name of its folder
     * @param name its name without extension
     * @param peak metric of the peak memory of a step; null if the file has none
     */
    private record StoredFile(String machine, String name, String peak) {}

    private record CasesOfFile(FileTime modified, List<StoredCase> cases) {}

    /** The launch mode of the operators of a stored case. */
    public enum Execution {
        /** Operator by operator. */
        EAGER("eager"),
        /** As one CUDA graph. */
        GRAPH("graph"),
        /** As one CUDA graph with generated kernels. */
        FUSED("fused");

        private final String suffix;

        Execution(String suffix) {
            this.suffix = suffix;
        }
    }

    /**
     * A stored case.
     *
     * @param file name of the file of measurements, without extension
     * @param plan the plan that describes it
     * @param execution how its operators are launched
     * @param peakBytes largest measured peak memory of a GPU; null if it was not measured
     * @param stepMs measured median time in ms; null if it was not measured
     * @param outOfMemory whether it ran out of memory
     */
    public record StoredCase(
            String file, StepPlan plan, Execution execution, Long peakBytes, Double stepMs, boolean outOfMemory) {}

    /**
     * Returns all stored cases, in the order of their files.
     *
     * @throws IOException if a file cannot be read
     */
    public static List<StoredCase> all() throws IOException {
        var cases = new ArrayList<StoredCase>();
        for (StoredFile file : FILES) {
            cases.addAll(of(file));
        }
        return cases;
    }

    /**
     * Returns the stored cases of a plan with {@linkplain Execution#EAGER eager} execution. On one GPU the mode is not
     * compared, and without buckets their size is not.
     *
     * @throws IOException if a file cannot be read
     */
    public static List<StoredCase> of(StepPlan plan) throws IOException {
        StepPlan wanted = withoutUnused(plan);
        return all().stream()
                .filter(stored -> stored.execution == Execution.EAGER && stored.plan.equals(wanted))
                .toList();
    }

    /** Returns a plan with the default mode and size of buckets where they have no effect, as in stored cases. */
    private static StepPlan withoutUnused(StepPlan plan) {
        StepPlan used = plan.gpus() == 1 ? plan.withGpus(1, FsdpMode.DDP) : plan;
        return plan.gpus() > 1 && plan.mode().hasBuckets() ? used : used.withBucketMb(StepPlan.BUCKET_MB);
    }

    private record StoredRow(
            @Header("measured in") String file,
            @Header("peak memory (GiB)") Double gib,
            @Header("time (ms)") Double ms) {}

    /** Returns a table with a row for each case; the cell of a peak or time that was not measured is empty. */
    public static Table table(List<StoredCase> cases) {
        List<StoredRow> rows = cases.stream()
                .map(stored -> new StoredRow(
                        stored.file + (stored.outOfMemory ? " (out of memory)" : ""),
                        stored.peakBytes == null ? null : new Bytes(stored.peakBytes).gib(),
                        stored.stepMs))
                .toList();
        return Tables.of(StoredRow.class, rows).setName("stored measurements");
    }

    /** Returns the cases of a file, which is read again only after it has changed. */
    private static List<StoredCase> of(StoredFile file) throws IOException {
        Path path = Project.path("data/measurements/" + file.machine + "/" + file.name + ".csv");
        FileTime modified = Files.getLastModifiedTime(path);
        CasesOfFile known = READ.get(path);
        if (known == null || !known.modified.equals(modified)) {
            known = new CasesOfFile(modified, read(path, file.name, file.peak));
            READ.put(path, known);
        }
        return known.cases;
    }

    static List<StoredCase> read(Path path, String file, String peak) throws IOException {
        var cases = new ArrayList<StoredCase>();
        Table table = Measurements.read(path);
        // Columns before it identify the case.
        int parameters = StoredRows.use(path.toString(), () -> table.columnIndex("metric"));
        Map<List<String>, List<Row>> grouped = new LinkedHashMap<>();
        for (int i = 0; i < table.rowCount(); i++) {
            Row row = table.row(i);
            var key = new ArrayList<String>();
            for (int column = 0; column < parameters; column++) {
                key.add(text(row, table.column(column).name()));
            }
            grouped.computeIfAbsent(key, k -> new ArrayList<>()).add(row);
        }
        for (List<Row> rows : grouped.values()) {
            String place = StoredRows.place(path.toString(), rows.get(0));
            StoredCase stored = StoredRows.use(place, () -> stored(file, peak, rows));
            if (stored != null) {
                cases.add(stored);
            }
        }
        return List.copyOf(cases);
    }

    /** Returns the case of some rows; null if no plan describes it, as for other programs. */
    private static StoredCase stored(String file, String peak, List<Row> rows) {
        StepPlan plan = plan(rows.get(0));
        if (plan == null) {
            return null;
        }
        Long peakBytes = null;
        Double stepMs = null;
        boolean outOfMemory = false;
        for (Row row : rows) {
            boolean measured = text(row, "status").equals(Status.OK.toString());
            outOfMemory |= text(row, "status").equals(Status.OOM.toString());
            if (measured && text(row, "metric").equals(peak)) {
                peakBytes = Math.round(row.getNumber("max"));
            }
            if (measured && text(row, "metric").equals("total")) {
                stepMs = row.getNumber("median");
            }
        }
        return new StoredCase(file, plan, execution(rows.get(0)), peakBytes, stepMs, outOfMemory);
    }

    private static String text(Row row, String column) {
        return row.columnNames().contains(column) ? String.valueOf(row.getObject(column)) : "";
    }

    private static Execution execution(Row row) {
        for (String part : text(row, "implementation").split("\\+")) {
            for (Execution execution : Execution.values()) {
                if (execution.suffix.equals(part)) {
                    return execution;
                }
            }
        }
        return Execution.EAGER;
    }

    /** Returns the plan of a stored case, or null if no plan describes it. */
    private static StepPlan plan(Row row) {
        TransformerConfig config = ModelOptions.configOf(
                text(row, "size"),
                ModelEdition.ofYear(Integer.parseInt(text(row, "year"))),
                Integer.parseInt(text(row, "context")));
        for (String part : text(row, "implementation").split("\\+")) {
            if (NORMALIZATIONS.contains(part)) {
                config = config.withNormalization(part);
            } else if (ATTENTIONS.contains(part)) {
                config = config.withAttention(part);
            } else if (part.equals("compiled")) {
                config = config.withFusion(part);
            } else if (!Set.of("plain", Execution.GRAPH.suffix, Execution.FUSED.suffix)
                    .contains(part)) {
                return null;
            }
        }
        String policy = text(row, "checkpointing");
        String pass = text(row, "pass");
        StepPlan plan = StepPlan.of(
                        policy.isEmpty() ? config : config.withCheckpointing(CheckpointPolicy.parse(policy)))
                .withBatch(Integer.parseInt(text(row, "batch")))
                .withPrecision(Precision.parse(text(row, "dtype")))
                .withPass(pass.isEmpty() ? Pass.STEP : Pass.parse(pass));
        String mode = text(row, "mode");
        if (mode.isEmpty()) {
            return plan;
        }
        FsdpMode division = MODES.get(mode);
        if (division == null
                || !text(row, "backend").equals("nccl")
                || !text(row, "nodes").equals("1")) {
            return null;
        }
        String lossRows = text(row, "loss_rows");
        StepPlan onAll = plan.withGpus(Integer.parseInt(text(row, "processes")), division)
                .withLossRows(lossRows.isEmpty() ? 0 : Integer.parseInt(lossRows));
        double bucketMb = row.getNumber("bucket_mb");
        return bucketMb > 0 ? onAll.withBucketMb(bucketMb) : onAll;
    }
}
