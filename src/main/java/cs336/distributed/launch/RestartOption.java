package cs336.distributed.launch;

import cs336.bench.ArgumentCheck;
import picocli.CommandLine.Option;

/** The option {@code --max-restarts} ({@link Launcher#maxRestarts}). */
final class RestartOption {
    @Option(
            names = "--max-restarts",
            defaultValue = "0",
            paramLabel = "<n>",
            description =
                    "number of times that all ranks are restarted after a failure; training continues from its last"
                            + " checkpoint")
    private int restarts;

    /**
     * Checks the option.
     *
     * @param joins whether the ranks were started by srun or torchrun
     * @throws IllegalArgumentException if it is negative, or has no effect
     */
    void check(boolean joins) {
        ArgumentCheck.atLeast("--max-restarts", 0, restarts);
        if (joins && restarts > 0) {
            throw new IllegalArgumentException(
                    "--max-restarts has no effect on ranks of srun or torchrun; torchrun has an option of this name");
        }
    }

    /** Sets the number of restarts of a launcher. */
    void apply(Launcher launcher) {
        launcher.maxRestarts(restarts);
    }
}
