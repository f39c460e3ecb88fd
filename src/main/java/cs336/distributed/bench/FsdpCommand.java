package cs336.distributed.bench;

import static cs336.units.UnitFactors.MB;

import cs336.bench.AlignedText;
import cs336.bench.Case;
import cs336.bench.LabCommand;
import cs336.bench.Measurements;
import cs336.bench.ModelOptions;
import cs336.bench.Precision;
import cs336.bench.StorageOptions;
import cs336.distributed.launch.Launcher;
import cs336.distributed.launch.RankOptions;
import cs336.distributed.training.Strategy;
import java.io.IOException;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import picocli.CommandLine.Command;
import picocli.CommandLine.Help.Visibility;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/** The command {@code cs336 fsdp}: memory, step time and communication volume of fully sharded data parallelism. */
@Command(
        name = "fsdp",
        description = {
            "Trains a model on several processes with DDP, ZeRO stage 1 and FSDP, and measures memory (after construction,"
                    + " before the optimizer's step, at the peak), step time, and bytes passed to collectives and sent.",
            "The modes are interleaved in one run, with TF32 off. Rank 0 stores the measurements after each round. If"
                    + " interrupted, repeat the command line: stored modes are skipped."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  A small model on two processes of a laptop:",
            "    cs336 fsdp --d-model 64 --layers 4 --heads 2 --vocab 500 --batch 2 --context 32",
            "  One GPU for each of two processes, bf16 compute with fp32 master weights:",
            "    cs336 fsdp --backend nccl --size xl --batch 1 --context 512 --dtype bf16 --bucket-size-mb 100",
            "",
            "Exit codes: 0 measured, 1 a rank failed, 2 invalid arguments."
        })
public final class FsdpCommand extends LabCommand {
    @Option(
            names = "--mode",
            split = ",",
            paramLabel = "<mode>",
            description = "ddp; zero-1 (sharded optimizer state); fsdp (sharded parameters, gradients and optimizer"
                    + " state); fsdp-without-prefetch (one gathered unit at once). Default: all",
            showDefaultValue = Visibility.NEVER)
    private List<String> modes = List.of("ddp", "zero-1", "fsdp", "fsdp-without-prefetch");

    @Option(
            names = "--dtype",
            defaultValue = "fp32",
            paramLabel = "<dtype>",
            description = "fp32, or bf16: autocast in ddp and zero-1, compute dtype in fsdp")
    private String dtype;

    @Option(
            names = "--bucket-size-mb",
            defaultValue = "25",
            paramLabel = "<n>",
            description = "maximum bucket size of gradients and parameters in ddp and zero-1, in MB (10^6 bytes)")
    private double bucketSize;

    @Mixin
    private final RankOptions ranks = new RankOptions();

    @Mixin
    private final ModelOptions models = new ModelOptions();

    @Mixin
    private final RoundOptions rounds = new RoundOptions(3);

    @Mixin
    private final StorageOptions storage = new StorageOptions("fsdp_accounting");

    @Override
    public Integer call() throws IOException, InterruptedException {
        for (ModelOptions.Model model : checked(this::checkedModels)) {
            TrainingPlan plan = rounds.plan(checked(() -> cases(model)), storage);
            Launcher launcher = checked(() -> ranks.launcher(storage.device()));
            StoredResult result = launcher.run(FsdpBenchmark.class, plan).get(0);
            if (!ranks.reports()) {
                continue;
            }
            out().println(AlignedText.of(table(Path.of(result.file()), plan.cases())));
            out().flush();
        }
        return 0;
    }

    private List<ModelOptions.Model> checkedModels() {
        modes.forEach(FsdpMode::parse);
        Strategy.bucketed(bucketSize);
        ranks.check();
        rounds.check();
        storage.requireNames();
        if (precision() != Precision.FP32 && precision() != Precision.BF16) {
            throw new IllegalArgumentException("--dtype must be fp32 or bf16, not " + dtype);
        }
        return models.models();
    }

    private Precision precision() {
        return Precision.parse(dtype);
    }

    private List<Case> cases(ModelOptions.Model model) {
        return modes.stream()
                .map(mode -> FsdpBenchmark.caseOf(new RankCase(
                        model,
                        precision(),
                        ranks.backend(),
                        ranks.nodes(),
                        ranks.ranks(),
                        mode,
                        FsdpMode.parse(mode).hasBuckets() ? bucketSize : 0,
                        rounds.round())))
                .toList();
    }

    /** Returns a row per metric and a column per mode, with means over ranks or steps. */
    private Table table(Path file, List<Case> cases) throws IOException {
        Map<String, Map<String, String>> byMetric = new LinkedHashMap<>();
        for (Row row : new Measurements(file).table()) {
            boolean requested = cases.stream()
                    .anyMatch(c -> c.parameters().entrySet().stream()
                            .allMatch(p -> isSame(row.getObject(p.getKey()), p.getValue())));
            if (requested) {
                boolean bytes = row.getString("unit").equals("bytes");
                String unit = bytes ? "MB" : row.getString("unit");
                String metric = row.getString("metric").replace('-', ' ') + (unit.isEmpty() ? "" : " (" + unit + ")");
                byMetric.computeIfAbsent(metric, m -> new LinkedHashMap<>())
                        .put(row.getString("mode"), AlignedText.number(row.getDouble("mean") / (bytes ? MB : 1)));
            }
        }
        Table table = Table.create(StringColumn.create("metric", List.copyOf(byMetric.keySet())));
        for (String mode : modes) {
            table.addColumns(StringColumn.create(
                    mode,
                    byMetric.values().stream()
                            .map(values -> values.getOrDefault(mode, ""))
                            .toList()));
        }
        return table;
    }

    /** Compares with a stored cell; a whole number in a column of doubles is stored as a double. */
    private static boolean isSame(Object stored, String requested) {
        return stored instanceof Double number
                ? number == Double.parseDouble(requested)
                : String.valueOf(stored).equals(requested);
    }
}
