package cs336.distributed.bench;

import cs336.bench.Case;
import cs336.bench.ModelOptions;
import cs336.bench.Precision;
import cs336.bench.StorageOptions;
import cs336.checkpoints.ResumeOptions;
import cs336.checkpoints.TrainingOptions;
import cs336.distributed.launch.RankOptions;
import cs336.distributed.training.Strategy;
import cs336.scaling.memory.ModelMemory;
import cs336.torch.DType;
import cs336.torch.DeviceKind;
import java.io.IOException;
import java.util.List;
import picocli.CommandLine.Command;
import picocli.CommandLine.Help.Visibility;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The command {@code shard}: measures memory, step time and communication volume of optimizer state sharding. */
@Command(
        name = "shard",
        description = {
            "Trains a model on several processes with and without a sharded AdamW and measures memory around the first"
                    + " step (by category, and as predicted), step time, and bytes passed to collectives and sent.",
            "The modes are interleaved in one run, in fp32 with TF32 off. Rank 0 stores the measurements after each round."
                    + " If interrupted, repeat the command line: stored modes are skipped.",
            "With --checkpoint it trains in one mode for --steps steps instead, on a --text or on random tokens, and measures nothing."
                    + " --resume continues from the last checkpoint, also in another mode and with another number of"
                    + " processes."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  A small model on two processes of a laptop:",
            "    ./cs336 shard --d-model 64 --layers 2 --heads 2 --vocab 500 --batch 2 --context 32",
            "  The GPU-bound steps of the writeup, then the launch-bound ones:",
            "    ./cs336 shard --backend nccl --size large,xl,2.7B --batch 2 --context 512 --bucket-size-mb 100 --rounds 5",
            "    ./cs336 shard --backend nccl --size all --batch 2 --context 128 --bucket-size-mb 100",
            "",
            "Exit codes: 0 measured, 1 a rank failed, 2 invalid arguments."
        })
public final class ShardCommand extends RankCommand {
    @Option(
            names = "--mode",
            split = ",",
            paramLabel = "<mode>",
            description =
                    "unsharded; broadcast (each parameter from the rank that updates it); all-gather (flat buckets, during"
                            + " the next forward pass); zero-1 (all-gather with reduce-scattered gradients); unsynchronized"
                            + " (as all-gather, but without exchanging parameters). Default: all",
            showDefaultValue = Visibility.NEVER)
    private List<String> modes = List.of("unsharded", "broadcast", "all-gather", "zero-1", "unsynchronized");

    @Option(
            names = "--bucket-size-mb",
            defaultValue = "25",
            paramLabel = "<n>",
            description = "maximum bucket size of gradients and parameters, in MB (10^6 bytes)")
    private double bucketSize;

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
    private final StorageOptions storage = new StorageOptions("optimizer_state_sharding_accounting");

    @Override
    public Integer call() throws IOException, InterruptedException {
        if (checkpoints.areGiven()) {
            return train();
        }
        requireNoTrainingOptions();
        return measure(ShardBenchmark.class, (plan, model, all) -> plan, null);
    }

    @Override
    CommonOptions options() {
        return new CommonOptions(ranks, rounds, checkpoints, training, storage);
    }

    @Override
    double stateFraction(RankCase setup) {
        return ShardMode.parse(setup.mode()).stateFraction(setup.processes());
    }

    @Override
    List<ModelOptions.Model> checkedModels() {
        modes.forEach(ShardMode::parse);
        Strategy.requireBucketSize("--bucket-size-mb", bucketSize);
        ranks.check();
        rounds.check();
        storage.requireNames();
        List<ModelOptions.Model> all = models.models();
        for (ModelOptions.Model model : all) {
            new ModelMemory(model.config(), model.batch(), DType.FLOAT32, DeviceKind.CPU); // checks the model
        }
        return all;
    }

    @Override
    List<Case> cases(ModelOptions.Model model) {
        return modes.stream()
                .map(mode -> ShardBenchmark.caseOf(setup(model, Precision.FP32, mode, bucketSize, 0)))
                .toList();
    }
}
