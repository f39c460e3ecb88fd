package cs336.distributed.bench;

import cs336.bench.AlignedText;
import cs336.bench.ArgumentCheck;
import cs336.bench.Case;
import cs336.bench.Measurements;
import cs336.bench.ModelOptions;
import cs336.bench.Precision;
import cs336.bench.Provenance;
import cs336.bench.ResultTable;
import cs336.bench.StorageOptions;
import cs336.checkpoints.ResumeOptions;
import cs336.checkpoints.TrainingOptions;
import cs336.distributed.bench.DdpBenchmark.StepExecution;
import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.launch.Launcher;
import cs336.distributed.launch.RankOptions;
import cs336.distributed.training.Strategy;
import cs336.numbers.CalculatedResults;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.Tables;
import cs336.scaling.BucketModel;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.function.ToDoubleFunction;
import picocli.CommandLine.Command;
import picocli.CommandLine.Help.Visibility;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/**
 * The command {@code ddp}: trains a toy model with data parallelism to check the result, or a Transformer to time it.
 */
@Command(
        name = "ddp",
        description = {
            "Trains a model with data parallelism on several processes.",
            "--model toy checks that the weights equal those of single-process training. --model transformer times"
                    + " training steps with and without gradient averaging, in each mode. The modes are interleaved in"
                    + " one run, and rank 0 stores the measurements after each round. If interrupted, repeat the command"
                    + " line: stored modes are skipped.",
            "With --checkpoint it trains in one mode for --steps steps instead, on a --text or on random tokens, and measures nothing."
                    + " --resume continues from the last checkpoint, also with another number of processes."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  Correctness:",
            "    ./cs336 ddp --model toy",
            "    ./cs336 ddp --model toy --mode bucketed --bucket-size-mb 0.0016 --processes 4",
            "  A small model on two processes of a laptop:",
            "    ./cs336 ddp --d-model 64 --layers 2 --heads 2 --context 32 --mode none,naive,flat,overlapped,bucketed",
            "  The model size of the course on two GPUs, with traces:",
            "    ./cs336 ddp --backend nccl --size xl --batch 2 --context 128 --mode none,naive,flat,overlapped,bucketed"
                    + " --bucket-size-mb 1,10,100,1000 --trace traces",
            "  Eager steps next to compiled ones, with all-reduces between and in their CUDA graphs:",
            "    ./cs336 ddp --backend nccl --size large --dtype bf16 --mode none,flat,bucketed --bucket-size-mb 100"
                    + " --execution eager,compiled-step,compiled-step-in-graph",
            "  A training run that survives failures of its ranks:",
            "    ./cs336 ddp --d-model 64 --layers 2 --heads 2 --context 32 --mode bucketed --steps 1000 --checkpoint run1"
                    + " --max-restarts 3",
            "  Predictions of the exposed communication from the measurements of a machine:",
            "    ./cs336 ddp --predict-buckets h200-x4",
            "",
            "Exit codes: 0 done (toy: the weights match), 1 the weights differ or a rank failed, 2 invalid arguments."
        })
public final class DdpCommand extends RankCommand {
    private static final List<String> MODELS = List.of("toy", "transformer");
    private static final List<String> MODES = List.of(DdpBenchmark.NONE, "naive", "flat", "overlapped", "bucketed");
    private static final int TOY_STEPS = 5;
    private static final double TOLERANCE = 1e-6;

    @Option(
            names = "--model",
            defaultValue = "transformer",
            paramLabel = "<model>",
            description = "transformer (timed), or toy (correctness check; --processes must divide "
                    + ToyTraining.EXAMPLES + "; not with --mode none or --execution)")
    private String kind;

    @Option(
            names = "--mode",
            split = ",",
            defaultValue = "naive",
            paramLabel = "<mode>",
            description =
                    "none (no communication); naive (one all-reduce per gradient, after the backward pass); flat (one"
                            + " all-reduce for all gradients, after the backward pass); overlapped (one all-reduce per"
                            + " gradient, during the backward pass); bucketed (one per bucket, during the backward pass)")
    private List<String> modes;

    @Option(
            names = "--execution",
            split = ",",
            defaultValue = "eager",
            paramLabel = "<how>",
            description =
                    "eager (operator by operator); compiled-step (fused CUDA graphs, on the CPU recorded operators; the"
                            + " host starts all-reduces between graphs: after each bucket's gradients with overlapped"
                            + " and bucketed, otherwise after the backward pass); compiled-step-in-graph (one CUDA"
                            + " graph that contains the all-reduces; needs --backend nccl)")
    private List<String> executions;

    @Option(
            names = "--bucket-size-mb",
            split = ",",
            defaultValue = "25",
            paramLabel = "<n>",
            description = "maximum bucket sizes of mode bucketed, in MB (10^6 bytes)")
    private List<Double> bucketSizes;

    @Mixin
    private final RankOptions ranks = new RankOptions();

    @Mixin
    private final ModelOptions models = new ModelOptions();

    @Option(
            names = "--dtype",
            defaultValue = "fp32",
            paramLabel = "<dtype>",
            description = "fp32 (TF32 off), tf32, bf16 (autocast)")
    private String dtype;

    @Mixin
    private final RoundOptions rounds = new RoundOptions(2);

    @Mixin
    private final ResumeOptions checkpoints = new ResumeOptions();

    @Mixin
    private final TrainingOptions training = new TrainingOptions();

    @Option(names = "--trace", paramLabel = "<folder>", description = StepTraces.OPTION_DESCRIPTION)
    private Path traces;

    @Option(
            names = "--trace-only",
            split = ",",
            paramLabel = "<mode>",
            description = "modes to record, as in their traces' names: naive, bucketed-25mb … Default: all",
            showDefaultValue = Visibility.NEVER)
    private List<String> traced = List.of();

    @Option(
            names = "--predict-buckets",
            paramLabel = "<machine>",
            description =
                    "train nothing; predict the exposed communication of each bucket size that was measured on this"
                            + " machine (xl, 512 tokens) from its all-reduces, and store the results as bucket_overhead.csv under "
                            + CalculatedResults.ON_PAPER)
    private String predicted;

    @Mixin
    private final StorageOptions storage = new StorageOptions("ddp_benchmarking");

    @Override
    public Integer call() throws IOException, InterruptedException {
        if (predicted != null) {
            return predictBuckets();
        }
        List<TrainingMode> chosen = checked(this::trainingModes);
        if (checkpoints.areGiven()) {
            return train("--trace", "--trace-only", "--execution");
        }
        requireNoTrainingOptions();
        if (kind.equals("toy")) {
            return trainToy(chosen);
        }
        return measure(
                DdpBenchmark.class,
                (plan, model, all) ->
                        new TracedPlan(plan, StepTraces.folder(traces, model, all), new ArrayList<>(traced)),
                traces);
    }

    private int predictBuckets() throws IOException {
        return checked(() -> {
            requireOnly("with --predict-buckets", "--predict-buckets", "--output");
            Provenance.requireName("--predict-buckets", predicted);
            var numbers = MeasurementQuery.of(storage.folder().resolve(predicted));
            List<BucketPrediction> predictions = BucketPrediction.of(numbers);
            ArgumentCheck.writableFolder("--output", storage.folder());
            var results = new CalculatedResults(storage.folder(), CalculatedResults.ON_PAPER, "bucket_overhead");
            results.clear();
            BucketPrediction.store(predictions, numbers, results);
            out().println(AlignedText.of(Tables.of(BucketPrediction.class, predictions)));
            BucketModel model = BucketPrediction.withMeasuredOverhead(numbers);
            out().printf(
                            Locale.ROOT,
                            "equal buckets with an overhead of %,.0f us each: best %,.0f buckets of %,.0f MB%nstored in %s%n",
                            model.callOverhead().us(),
                            model.bestBuckets(),
                            model.bestBucket().count() / 1e6,
                            results.path());
            out().flush();
            return 0;
        });
    }

    /** A mode with its bucket size; 0 for a mode without buckets. */
    private record TrainingMode(String name, double bucketMb) {}

    private List<TrainingMode> trainingModes() {
        ArgumentCheck.oneOf("model", kind, MODELS);
        ranks.check();
        rounds.check();
        modes.forEach(mode -> ArgumentCheck.oneOf("mode", mode, MODES));
        bucketSizes.forEach(size -> Strategy.requireBucketSize("--bucket-size-mb", size));
        if (!modes.contains("bucketed")) {
            requireNotGiven("without --mode bucketed", "--bucket-size-mb");
        }
        if (kind.equals("toy") && modes.contains(DdpBenchmark.NONE)) {
            throw new IllegalArgumentException("--mode must be one of "
                    + String.join(", ", MODES.subList(1, MODES.size())) + " with --model toy, not 'none'");
        }
        executions.forEach(StepExecution::parse);
        if (kind.equals("toy")) {
            requireNotGiven("with --model toy", "--execution", "--dtype", "--trace", "--trace-only");
            requireNotGiven("with --model toy", "--warmup", "--steps", "--rounds", "--round", "--problem", "--again");
            requireNotGiven("with --model toy", "--size", "--year", "--batch", "--context", "--vocab");
            requireNotGiven("with --model toy", "--d-model", "--d-ff", "--layers", "--heads", "--attention");
            requireNotGiven("with --model toy", "--normalization", "--fusion");
            ToyTraining.requireDivisor(ranks.ranks());
        }
        if (executions.contains(StepExecution.COMPILED_STEP_IN_GRAPH.toString())
                && ranks.backend() != CollectiveBackend.NCCL) {
            throw new IllegalArgumentException(
                    "--execution compiled-step-in-graph needs --backend nccl, not " + ranks.backend());
        }
        var chosen = new ArrayList<TrainingMode>();
        for (String mode : modes) {
            List<Double> sizes = mode.equals("bucketed") ? bucketSizes : List.of(0.0);
            sizes.forEach(size -> chosen.add(new TrainingMode(mode, size)));
        }
        return chosen;
    }

    private int trainToy(List<TrainingMode> chosen) throws IOException, InterruptedException {
        boolean allMatch = true;
        for (TrainingMode mode : chosen) {
            Strategy strategy = Strategy.parse(mode.name, mode.bucketMb);
            var task = new ToyTraining.ToyTask(strategy, "fp32", TOY_STEPS, System.nanoTime());
            Launcher launcher = checked(() -> ranks.launcher(storage.device()));
            allMatch &= report(mode.name, task, launcher.run(ToyTraining.class, task));
        }
        return allMatch ? 0 : 1;
    }

    private boolean report(String mode, ToyTraining.ToyTask task, List<ToyTraining.Outcomes> ranks) {
        double plain = largest(ranks, rank -> rank.plain().largest());
        double tied = largest(ranks, rank -> rank.tied().largest());
        boolean match = Math.max(plain, tied) <= TOLERANCE;
        String name = mode.substring(0, 1).toUpperCase(Locale.ROOT) + mode.substring(1);
        out().println(name + " DDP " + (match ? "matches baseline!" : "does NOT match baseline."));
        out().printf(
                        Locale.ROOT,
                        "  %s, %d processes, %,d steps, seed %d: largest difference of a weight from single-process"
                                + " training %.2g, with tied weights %.2g%n",
                        task.strategy(),
                        ranks.size(),
                        task.steps(),
                        task.seed(),
                        plain,
                        tied);
        out().flush();
        return match;
    }

    private static double largest(List<ToyTraining.Outcomes> ranks, ToDoubleFunction<ToyTraining.Outcomes> difference) {
        return ranks.stream().mapToDouble(difference).max().orElseThrow();
    }

    @Override
    CommonOptions options() {
        return new CommonOptions(ranks, rounds, checkpoints, training, storage);
    }

    @Override
    double stateFraction(RankCase setup) {
        return 1;
    }

    @Override
    String table(Path file, List<Case> cases) throws IOException {
        return ResultTable.of(new Measurements(file), cases);
    }

    @Override
    List<ModelOptions.Model> checkedModels() {
        if (checkpoints.areGiven() && kind.equals("toy")) {
            throw new IllegalArgumentException("--checkpoint needs --model transformer, not toy");
        }
        precision();
        return models.models();
    }

    private Precision precision() {
        storage.requireNames();
        Precision precision = Precision.parse(dtype);
        if (precision == Precision.FP16) {
            throw new IllegalArgumentException(
                    "--dtype must be fp32, tf32 or bf16, not 'fp16': fp16 needs loss scaling,"
                            + " which is not implemented across ranks");
        }
        if (traces == null && !traced.isEmpty()) {
            throw new IllegalArgumentException("--trace-only needs --trace, the folder of the traces");
        }
        return precision;
    }

    @Override
    List<Case> cases(ModelOptions.Model model) {
        Precision precision = precision();
        var cases = new ArrayList<Case>();
        for (TrainingMode mode : trainingModes()) {
            RankCase setup = setup(model, precision, mode.name, mode.bucketMb, 0);
            executions.stream()
                    .map(StepExecution::parse)
                    .filter(execution ->
                            execution != StepExecution.COMPILED_STEP_IN_GRAPH || !mode.name.equals(DdpBenchmark.NONE))
                    .forEach(execution -> cases.add(DdpBenchmark.caseOf(setup, execution)));
        }
        List<String> labels = cases.stream().map(DdpBenchmark::label).toList();
        traced.forEach(label -> ArgumentCheck.oneOf("--trace-only", label, labels));
        return cases;
    }
}
