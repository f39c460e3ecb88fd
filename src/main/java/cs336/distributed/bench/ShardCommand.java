package cs336.distributed.bench;

import cs336.bench.AlignedText;
import cs336.bench.Case;
import cs336.bench.Measurements;
import cs336.bench.ModelOptions;
import cs336.bench.StorageOptions;
import cs336.distributed.launch.RankOptions;
import cs336.distributed.training.Strategy;
import cs336.scaling.ModelMemory;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;
import tech.tablesaw.api.Row;
import tech.tablesaw.api.StringColumn;
import tech.tablesaw.api.Table;

/** Measures what sharding the optimizer's state saves in memory, and what it costs in time and traffic. */
@Command(
        name = "shard",
        description = {
            "Trains one model on several processes with AdamW whole and in shards: memory around the first step, by what it"
                    + " holds and as predicted; time of a step; bytes handed to collectives and sent.",
            "All modes take turns in one launch, in fp32 with TF32 off, and rank 0 stores what there is after each round."
                    + " Run the same line again to measure what is not stored yet."
        },
        sortOptions = false,
        mixinStandardHelpOptions = true,
        footerHeading = "%nExamples:%n",
        footer = {
            "  A small model on two processes of a laptop:",
            "    cs336 shard --d-model 64 --layers 2 --heads 2 --vocab 500 --batch 2 --context 32",
            "  What the writeup shows:",
            "    cs336 shard --backend nccl --size all --batch 2 --context 128 --bucket-size-mb 100",
            "",
            "Exit codes: 0 measured, 1 a rank failed, 2 wrong use."
        })
public final class ShardCommand implements Callable<Integer> {
    private static final double MB = 1e6;

    @Spec
    private CommandSpec spec;

    @Option(
            names = "--mode",
            split = ",",
            paramLabel = "<mode>",
            description =
                    "unsharded; broadcast (of each parameter from the rank that updates it); all-gather (of flat buckets,"
                            + " during the next forward pass); zero-1 (the same, gradients reduced and scattered); unsynchronised"
                            + " (all-gather without it, for the time). Default: all")
    private List<String> modes = List.of("unsharded", "broadcast", "all-gather", "zero-1", "unsynchronised");

    @Option(
            names = "--bucket-size-mb",
            defaultValue = "25",
            paramLabel = "<n>",
            description =
                    "the most that a bucket of gradients or parameters holds, in 10^6 bytes. Default: ${DEFAULT-VALUE}")
    private double bucketSize;

    @Mixin
    private final RankOptions ranks = new RankOptions();

    @Mixin
    private final ModelOptions models = new ModelOptions();

    @Mixin
    private final TurnOptions turns = new TurnOptions(3);

    @Mixin
    private final StorageOptions storage = new StorageOptions("optimizer_state_sharding_accounting");

    @Override
    public Integer call() throws IOException, InterruptedException {
        try {
            List<ModelOptions.Model> all = checked();
            for (ModelOptions.Model model : all) {
                List<Case> cases = cases(model);
                ShardBenchmark.Done done = ranks.launcher(storage.device())
                        .run(ShardBenchmark.class, plan(cases))
                        .get(0);
                if (ranks.reports()) report(Path.of(done.file()), cases);
            }
            return 0;
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
    }

    private List<ModelOptions.Model> checked() {
        modes.forEach(ShardMode::parse);
        Strategy.bucketed(bucketSize);
        ranks.check();
        turns.check();
        storage.requireNames();
        List<ModelOptions.Model> all = models.models();
        for (ModelOptions.Model model : all) {
            new ModelMemory(
                    model.config(), model.batch(), DType.FLOAT32, DeviceKind.CPU); // says what it cannot predict
        }
        return all;
    }

    private List<Case> cases(ModelOptions.Model model) {
        var cases = new ArrayList<Case>();
        for (String mode : modes) {
            cases.add(ShardBenchmark.of(
                    model,
                    ranks.backend(),
                    ranks.nodes(),
                    ranks.ranks(),
                    ShardMode.parse(mode),
                    bucketSize,
                    turns.round()));
        }
        return cases;
    }

    private ShardBenchmark.Plan plan(List<Case> cases) {
        return new ShardBenchmark.Plan(
                new ArrayList<>(cases), turns.warmup(), turns.steps(), turns.rounds(), MeasurementFile.of(storage));
    }

    /** A line a metric, a column a mode: means over ranks or steps. */
    private void report(Path file, List<Case> cases) throws IOException {
        Map<String, Map<String, String>> byMetric = new LinkedHashMap<>();
        for (Row row : new Measurements(file).table()) {
            boolean asked = cases.stream()
                    .anyMatch(c -> c.parameters().entrySet().stream()
                            .allMatch(p -> isSame(row.getObject(p.getKey()), p.getValue())));
            if (asked) {
                boolean bytes = row.getString("unit").equals("bytes");
                String metric = row.getString("metric") + (bytes ? " [MB]" : " [" + row.getString("unit") + "]");
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
        PrintWriter out = spec.commandLine().getOut();
        out.println(AlignedText.of(table));
        out.flush();
    }

    /** A whole number in a column of decimal ones is read as one of these. */
    private static boolean isSame(Object stored, String asked) {
        return stored instanceof Double number
                ? number == Double.parseDouble(asked)
                : String.valueOf(stored).equals(asked);
    }
}
