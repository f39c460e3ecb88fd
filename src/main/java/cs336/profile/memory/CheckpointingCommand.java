package cs336.profile.memory;

import cs336.bench.ArgumentCheck;
import cs336.bench.Case;
import cs336.bench.LabCommand;
import cs336.bench.ModelCase;
import cs336.bench.ModelCaseOptions;
import cs336.bench.Pass;
import cs336.bench.SweepOptions;
import cs336.checkpointing.CheckpointPolicy;
import java.io.IOException;
import java.util.List;
import java.util.stream.Stream;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/**
 * The command {@code checkpointing}: measures peak memory and time of models for policies of activation checkpointing.
 */
@Command(
        name = "checkpointing",
        description = {
            "Measures a training step with activation checkpointing: peak memory next to its prediction, and times.",
            "Each combination of a model and a policy is one case and runs in its own process. A case records the memory of two"
                    + " steps, then times a new model. Run the same command again to resume after an interruption."
        },
        footerHeading = "%nExamples:%n",
        footer = {
            "  A tiny model, in seconds, on any laptop:",
            "    ./cs336 checkpointing --d-model 64 --layers 8 --heads 2 --vocab 500 --batch 2 --context 64 --steps 2",
            "  The xl model with 2,048 tokens, which does not fit onto a GPU of 80 GB if it keeps everything:",
            "    ./cs336 checkpointing --size xl --context 2048",
            "  The first blocks recompute as much as necessary for 40 GiB of activations:",
            "    ./cs336 checkpointing --size xl --context 2048 --policy budget-40960",
            "",
            "Exit codes: 0 all cases measured (out of memory is a result), 1 a case failed or a file cannot be written, 2 invalid arguments."
        })
public final class CheckpointingCommand extends LabCommand {
    @Mixin
    private final ModelCaseOptions models = new ModelCaseOptions(Pass.STEP);

    @Option(
            names = "--policy",
            split = ",",
            defaultValue = "everything,blocks-1,blocks-2,blocks-4,recursive",
            paramLabel = "<policy>",
            description = "activations that are kept for the backward pass: " + CheckpointPolicy.TEXTS
                    + ", or budget-<n> (as much as fits into n MiB)")
    private List<String> policies;

    @Option(names = "--warmup", defaultValue = "3", paramLabel = "<n>", description = "number of warm-up steps")
    private int warmup;

    @Option(names = "--steps", defaultValue = "5", paramLabel = "<n>", description = "number of timed steps")
    private int steps;

    @Mixin
    private final SweepOptions sweep = new SweepOptions("gradient_checkpointing");

    @Override
    public Integer call() throws IOException, InterruptedException {
        return checked(() -> {
            ArgumentCheck.atLeast("--warmup", 0, warmup);
            ArgumentCheck.atLeast("--steps", 1, steps);
            cases(models.cases().stream()); // reports invalid options before the machine survey starts
            return sweep.run(spec, machine -> cases(models.cases(machine)));
        });
    }

    private List<Case> cases(Stream<ModelCase> all) {
        return all.flatMap(c -> policies.stream().map(policy -> CheckpointingWorkload.of(c, policy, warmup, steps)))
                .toList();
    }
}
