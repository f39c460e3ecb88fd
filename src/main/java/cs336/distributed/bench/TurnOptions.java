package cs336.distributed.bench;

import cs336.bench.ArgumentCheck;
import picocli.CommandLine.Option;

/** The options of a command whose cases take turns in one launch: how long a turn is, and how many there are. */
final class TurnOptions {
    @Option(
            names = "--warmup",
            paramLabel = "<n>",
            description = "steps of a mode in each round before timing begins. Default: ${DEFAULT-VALUE}")
    private int warmup;

    @Option(
            names = "--steps",
            defaultValue = "5",
            paramLabel = "<n>",
            description = "timed steps of a mode in each round. Default: ${DEFAULT-VALUE}")
    private int steps;

    @Option(
            names = "--rounds",
            defaultValue = "2",
            paramLabel = "<n>",
            description = "how often all modes take turns. Default: ${DEFAULT-VALUE}")
    private int rounds;

    @Option(
            names = "--round",
            defaultValue = "1",
            paramLabel = "<n>",
            description = "number of this launch, of several in turn with a peer. Default: ${DEFAULT-VALUE}")
    private int round;

    /** The options of a command that warms up for so many steps unless the user says otherwise. */
    TurnOptions(int warmup) {
        this.warmup = warmup;
    }

    /** @throws IllegalArgumentException if an option is wrong */
    void check() {
        ArgumentCheck.atLeast("--warmup", 0, warmup);
        ArgumentCheck.atLeast("--steps", 1, steps);
        ArgumentCheck.atLeast("--rounds", 1, rounds);
        ArgumentCheck.atLeast("--round", 1, round);
    }

    /** Steps of a case in each round that are not timed. */
    int warmup() {
        return warmup;
    }

    /** Timed steps of a case in each round. */
    int steps() {
        return steps;
    }

    /** How often all cases take turns. */
    int rounds() {
        return rounds;
    }

    /** Number of this launch. */
    int round() {
        return round;
    }
}
