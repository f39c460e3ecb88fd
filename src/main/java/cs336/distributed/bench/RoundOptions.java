package cs336.distributed.bench;

import cs336.bench.ArgumentCheck;
import cs336.bench.Case;
import cs336.bench.StorageOptions;
import java.util.ArrayList;
import java.util.List;
import picocli.CommandLine.Option;

/** The options of a command that interleaves its cases over several rounds, see {@link TrainingPlan}. */
final class RoundOptions {
    @Option(names = "--warmup", paramLabel = "<n>", description = "untimed steps of each mode in each round")
    private int warmup;

    @Option(
            names = "--steps",
            defaultValue = "5",
            paramLabel = "<n>",
            description = "timed steps of each mode in each round; with --checkpoint, all steps of the training")
    private int steps;

    @Option(
            names = "--rounds",
            defaultValue = "2",
            paramLabel = "<n>",
            description = "number of rounds; each measures all modes")
    private int rounds;

    @Option(
            names = "--round",
            defaultValue = "1",
            paramLabel = "<n>",
            description = "number of this run, if runs are interleaved with runs of PyTorch in Python")
    private int round;

    /** Creates options with a default number of untimed steps. */
    RoundOptions(int warmup) {
        this.warmup = warmup;
    }

    /** @throws IllegalArgumentException if an option is out of range */
    void check() {
        ArgumentCheck.atLeast("--warmup", 0, warmup);
        ArgumentCheck.atLeast("--steps", 1, steps);
        ArgumentCheck.atLeast("--rounds", 1, rounds);
        ArgumentCheck.atLeast("--round", 1, round);
    }

    /** Returns the plan that measures these cases. */
    TrainingPlan plan(List<Case> cases, StorageOptions storage) {
        return new TrainingPlan(new ArrayList<>(cases), warmup, steps, rounds, MeasurementFile.of(storage));
    }

    /** Returns the number of steps. */
    int steps() {
        return steps;
    }

    /** Returns the number of this run. */
    int round() {
        return round;
    }
}
