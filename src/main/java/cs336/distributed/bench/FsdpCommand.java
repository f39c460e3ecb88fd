package cs336.distributed.bench;

import cs336.bench.AlignedText;
import cs336.bench.ArgumentCheck;
import cs336.bench.Case;
import cs336.bench.ModelOptions;
import cs336.bench.Precision;
import cs336.bench.Provenance;
import cs336.bench.StorageOptions;
import cs336.checkpoints.ResumeOptions;
import cs336.checkpoints.TrainingOptions;
import cs336.distributed.launch.Launcher;
import cs336.distributed.launch.RankOptions;
import cs336.distributed.training.StepMemoryOptions;
import cs336.numbers.CalculatedResults;
import cs336.numbers.MeasurementQuery;
import cs336.numbers.Tables;
import cs336.scaling.FsdpPrediction;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import picocli.CommandLine.Command;
import picocli.CommandLine.Help.Visibility;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The command {@code fsdp}: measures memory, step time and communication volume of fully sharded data parallelism. */
@Command(
        name = "fsdp",
        description = {
            "Trains a model on several processes with DDP, ZeRO stage 1 and FSDP, and measures memory (after construction,"
                    + " before the optimizer's step, at the peak), step time, and bytes passed to collectives and sent.",
            "The modes are interleaved in one run, with TF32 off. Rank 0 stores the measurements after each round. If"
                    + " interrupted, repeat the command line: stored modes are skipped.",
            "With --checkpoint it trains in one mode for --steps steps instead, on a --text or on random tokens, and measures nothing."
                    + " --resume continues from the last checkpoint, also in another mode and with another number of"
                    + " processes."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  A small model on two processes of a laptop:",
            "    ./cs336 fsdp --d-model 64 --layers 4 --heads 2 --vocab 500 --batch 2 --context 32",
            "  One GPU for each of two processes, bf16 compute with fp32 master weights:",
            "    ./cs336 fsdp --backend nccl --size xl --batch 1 --context 512 --dtype bf16 --bucket-size-mb 100",
            "  Hybrid sharding on four processes that count as two nodes:",
            "    ./cs336 fsdp --mode fsdp,hsdp --processes 4 --emulate-nodes 2 --d-model 64 --layers 4 --heads 2 --vocab 500"
                    + " --batch 2 --context 32",
            "  A model with 8.1 billion parameters and 32,768 tokens, on two GPUs of 141 GB, with 26 GB of host memory each:",
            "    PYTORCH_ALLOC_CONF=expandable_segments:True ./cs336 fsdp --mode fsdp --backend nccl --d-model 4096 --d-ff 11008 --layers 34 --heads 32 --vocab 151936"
                    + " --batch 1 --context 32768 --dtype bf16 --attention flash --normalization rmsnorm-fused --fusion"
                    + " compiled --checkpointing elementwise+offload-12 --loss-rows 2048 --warmup 3 --rounds 1",
            "",
            "Exit codes: 0 measured, 1 a rank failed, 2 invalid arguments."
        })
public final class FsdpCommand extends RankCommand {
    @Option(
            names = "--mode",
            split = ",",
            paramLabel = "<mode>",
            description = "ddp; zero-1 (sharded optimizer state); fsdp (sharded parameters, gradients and optimizer"
                    + " state); fsdp-without-prefetch (one gathered unit at a time); hsdp (as fsdp within each of"
                    + " several nodes, replicated across them). Default: all but hsdp",
            showDefaultValue = Visibility.NEVER)
    private List<String> modes = List.of("ddp", "zero-1", "fsdp", "fsdp-without-prefetch");

    @Option(
            names = "--dtype",
            defaultValue = "fp32",
            paramLabel = "<dtype>",
            description = "fp32, or bf16: autocast in ddp and zero-1, compute dtype in fsdp")
    private String dtype;

    @Mixin
    private final StepMemoryOptions memory = new StepMemoryOptions();

    @Option(names = "--trace", paramLabel = "<folder>", description = StepTraces.OPTION_DESCRIPTION)
    private Path traces;

    @Option(
            names = "--predict",
            paramLabel = "<machine>",
            description =
                    "train nothing; predict time, communication and memory of the bf16 steps of mode fsdp that were"
                            + " measured on this machine, from its other measurements, and store the results as"
                            + " fsdp_predictions.csv under " + CalculatedResults.ON_PAPER)
    private String predicted;

    @Mixin
    private final RankOptions ranks = new RankOptions();

    @Mixin
    private final ModelOptions models = new ModelOptions();

    @Mixin
    private final RoundOptions rounds = new RoundOptions(3);

    @Mixin
    private final ResumeOptions checkpoints = new ResumeOptions();

    @Mixin
    private final TrainingOptions training = new TrainingOptions();

    @Mixin
    private final StorageOptions storage = new StorageOptions("fsdp_accounting");

    @Override
    public Integer call() throws IOException, InterruptedException {
        if (predicted != null) {
            return predict();
        }
        if (checkpoints.areGiven()) {
            return train("--trace");
        }
        requireNoTrainingOptions();
        return measure(
                FsdpBenchmark.class,
                (plan, model, all) -> new TracedPlan(plan, StepTraces.folder(traces, model, all), new ArrayList<>()),
                traces);
    }

    private int predict() throws IOException {
        return checked(() -> {
            requireOnly("with --predict", "--predict", "--output");
            Provenance.requireName("--predict", predicted);
            var numbers = MeasurementQuery.of(storage.folder().resolve(predicted));
            List<FsdpPrediction> predictions = FsdpPrediction.of(numbers);
            ArgumentCheck.writableFolder("--output", storage.folder());
            var results = new CalculatedResults(storage.folder(), CalculatedResults.ON_PAPER, "fsdp_predictions");
            results.clear();
            FsdpPrediction.store(predictions, results);
            out().println(AlignedText.of(Tables.of(FsdpPrediction.class, predictions)));
            out().printf("stored in %s%n", results.path());
            out().flush();
            return 0;
        });
    }

    @Override
    CommonOptions options() {
        return new CommonOptions(ranks, rounds, checkpoints, training, storage);
    }

    @Override
    double stateFraction(RankCase setup) {
        return FsdpMode.parse(setup.mode()).stateFraction(setup.processes(), setup.nodes());
    }

    @Override
    List<ModelOptions.Model> checkedModels() {
        modes.forEach(FsdpMode::parse);
        memory.check();
        ranks.check();
        if (isHybrid() && ranks.nodes() == 1) {
            throw new IllegalArgumentException(
                    "--mode hsdp needs several nodes: --emulate-nodes, or --join on a cluster");
        }
        rounds.check();
        storage.requireNames();
        if (precision() != Precision.FP32 && precision() != Precision.BF16) {
            throw new IllegalArgumentException("--dtype must be fp32 or bf16, not " + dtype);
        }
        return models.models().stream()
                .map(model -> new ModelOptions.Model(
                        model.label(), model.config().withCheckpointing(memory.checkpointing()), model.batch()))
                .toList();
    }

    private boolean isHybrid() {
        return modes.contains(FsdpMode.HSDP.toString());
    }

    @Override
    Launcher launcher() {
        return isHybrid() ? ranks.launcherOfNodes(storage.device()) : super.launcher();
    }

    private Precision precision() {
        return Precision.parse(dtype);
    }

    @Override
    List<Case> cases(ModelOptions.Model model) {
        return modes.stream()
                .map(mode -> FsdpBenchmark.caseOf(setup(
                        model,
                        precision(),
                        mode,
                        FsdpMode.parse(mode).hasBuckets() ? memory.bucketMb() : 0,
                        memory.lossRows())))
                .toList();
    }
}
