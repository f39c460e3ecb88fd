package cs336.distributed.bench;

import cs336.bench.ArgumentCheck;
import cs336.bench.Case;
import cs336.bench.Measurements;
import cs336.bench.ModelOptions;
import cs336.bench.Precision;
import cs336.bench.ResultTable;
import cs336.bench.StorageOptions;
import cs336.distributed.launch.RankOptions;
import cs336.distributed.training.Strategy;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Spec;

/** Trains data-parallel: the toy model against one process, or a Transformer against the clock. */
@Command(
        name = "ddp",
        description = {
            "Trains one model on several processes, each with its part of the batch.",
            "--model toy checks that the weights become those of single-process training. --model transformer times"
                    + " training steps: what the average of gradients adds to a step, in each mode. All modes take"
                    + " turns in one launch, and rank 0 stores what there is after each round. Run the same line again to"
                    + " measure what is not stored yet."
        },
        sortOptions = false,
        mixinStandardHelpOptions = true,
        footerHeading = "%nExamples:%n",
        footer = {
            "  Is it right?",
            "    cs336 ddp --model toy",
            "    cs336 ddp --model toy --mode bucketed --bucket-size-mb 0.0016 --processes 4",
            "  A small model on two processes of a laptop:",
            "    cs336 ddp --d-model 64 --layers 2 --heads 2 --context 32 --mode none,naive,flat,overlapped,bucketed",
            "  The size that the course asks for, on two cards, with traces:",
            "    cs336 ddp --backend nccl --size xl --batch 2 --context 128 --mode none,naive,flat,overlapped,bucketed"
                    + " --bucket-size-mb 1,10,100,1000 --trace traces",
            "",
            "Exit codes: 0 done (toy: and the weights match), 1 they do not, or a rank failed, 2 wrong use."
        })
public final class DdpCommand implements Callable<Integer> {
    private static final List<String> MODELS = List.of("toy", "transformer");
    private static final List<String> MODES = List.of(DdpBenchmark.NONE, "naive", "flat", "overlapped", "bucketed");
    private static final int TOY_STEPS = 5;
    private static final double TOLERANCE = 1e-6;

    @Spec
    private CommandSpec spec;

    @Option(
            names = "--model",
            defaultValue = "transformer",
            paramLabel = "<model>",
            description = "toy, or transformer. Default: ${DEFAULT-VALUE}")
    private String kind;

    @Option(
            names = "--mode",
            split = ",",
            paramLabel = "<mode>",
            description =
                    "none (no communication), naive (a gradient at a time, after the backward pass), flat (all in one"
                            + " buffer), overlapped (each as soon as it is ready), bucketed. Default: naive")
    private List<String> modes = List.of("naive");

    @Option(
            names = "--bucket-size-mb",
            split = ",",
            defaultValue = "25",
            paramLabel = "<n>",
            description = "the most that a bucket holds, in 10^6 bytes; for bucketed. Default: ${DEFAULT-VALUE}")
    private List<Double> bucketSizes;

    @Mixin
    private final RankOptions ranks = new RankOptions();

    @Mixin
    private final ModelOptions models = new ModelOptions();

    @Option(
            names = "--dtype",
            defaultValue = "fp32",
            paramLabel = "<dtype>",
            description = "fp32 (TF32 off), tf32, bf16 (autocast). Default: ${DEFAULT-VALUE}")
    private String dtype;

    @Mixin
    private final TurnOptions turns = new TurnOptions(2);

    @Option(
            names = "--trace",
            paramLabel = "<folder>",
            description = "record three more steps of each mode, a trace a rank: <mode>-rank<n>.json.gz")
    private Path traces;

    @Option(
            names = "--trace-only",
            split = ",",
            paramLabel = "<mode>",
            description = "the modes to record, as their traces are named: naive, bucketed-25mb … Default: all")
    private List<String> traced = List.of();

    @Mixin
    private final StorageOptions storage = new StorageOptions("ddp_benchmarking");

    @Override
    public Integer call() throws IOException, InterruptedException {
        try {
            ArgumentCheck.oneOf("model", kind, MODELS);
            ranks.check();
            modes.forEach(mode -> ArgumentCheck.oneOf("mode", mode, MODES));
            bucketSizes.forEach(Strategy::bucketed);
            return kind.equals("toy") ? trainToy() : benchmark();
        } catch (IllegalArgumentException e) {
            throw new ParameterException(spec.commandLine(), e.getMessage(), e);
        }
    }

    private int trainToy() throws InterruptedException {
        boolean allMatch = true;
        for (String mode : modes) {
            if (mode.equals(DdpBenchmark.NONE)) {
                throw new IllegalArgumentException("mode 'none' has nothing that could match; known: "
                        + String.join(", ", MODES.subList(1, MODES.size())));
            }
            for (double megabytes : mode.equals("bucketed") ? bucketSizes : List.of(0.0)) {
                var task = new ToyTraining.Task(Strategy.parse(mode, megabytes), "fp32", TOY_STEPS, System.nanoTime());
                allMatch &= report(mode, task, ranks.launcher(storage.device()).run(ToyTraining.class, task));
            }
        }
        return allMatch ? 0 : 1;
    }

    private boolean report(String mode, ToyTraining.Task task, List<ToyTraining.Outcomes> outcomes) {
        double plain =
                outcomes.stream().mapToDouble(r -> r.plain().largest()).max().orElseThrow();
        double tied =
                outcomes.stream().mapToDouble(r -> r.tied().largest()).max().orElseThrow();
        boolean match = Math.max(plain, tied) <= TOLERANCE;
        String name = mode.substring(0, 1).toUpperCase(Locale.ROOT) + mode.substring(1);
        PrintWriter out = spec.commandLine().getOut();
        out.println(name + " DDP " + (match ? "matches baseline!" : "does NOT match baseline."));
        out.printf(
                Locale.ROOT,
                "  %s, %d processes, %d steps, seed %d: largest difference of a weight from single-process training %.2g,"
                        + " with tied weights %.2g%n",
                task.strategy(),
                outcomes.size(),
                task.steps(),
                task.seed(),
                plain,
                tied);
        out.flush();
        return match;
    }

    private int benchmark() throws IOException, InterruptedException {
        turns.check();
        storage.requireNames();
        Precision precision = Precision.parse(dtype);
        if (precision == Precision.FP16) {
            throw new IllegalArgumentException("dtype 'fp16' needs a scaled loss, on which ranks would have to agree;"
                    + " known: fp32, tf32, bf16");
        }
        if (traces == null && !traced.isEmpty()) {
            throw new IllegalArgumentException("--trace-only needs --trace, the folder of the traces");
        }
        for (ModelOptions.Model model : models.models()) {
            requireTraced(cases(model, precision));
            DdpBenchmark.Done done = ranks.launcher(storage.device())
                    .run(DdpBenchmark.class, plan(cases(model, precision)))
                    .get(0);
            if (!ranks.reports()) continue;
            PrintWriter out = spec.commandLine().getOut();
            out.println(ResultTable.of(new Measurements(Path.of(done.file())), cases(model, precision)));
            out.flush();
        }
        return 0;
    }

    private void requireTraced(List<Case> cases) {
        List<String> labels = cases.stream().map(DdpBenchmark::label).toList();
        traced.forEach(label -> ArgumentCheck.oneOf("--trace-only", label, labels));
    }

    private List<Case> cases(ModelOptions.Model model, Precision precision) {
        var cases = new ArrayList<Case>();
        for (String mode : modes) {
            for (double megabytes : mode.equals("bucketed") ? bucketSizes : List.of(0.0)) {
                cases.add(DdpBenchmark.of(
                        model,
                        precision,
                        ranks.backend(),
                        ranks.nodes(),
                        ranks.ranks(),
                        mode,
                        megabytes,
                        turns.round()));
            }
        }
        return cases;
    }

    private DdpBenchmark.Plan plan(List<Case> cases) {
        return new DdpBenchmark.Plan(
                new ArrayList<>(cases),
                turns.warmup(),
                turns.steps(),
                turns.rounds(),
                traces == null ? null : traces.toString(),
                new ArrayList<>(traced),
                MeasurementFile.of(storage));
    }
}
