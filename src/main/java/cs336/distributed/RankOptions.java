package cs336.distributed;

import java.util.List;
import picocli.CommandLine.Option;

/** The options of a command that runs on one group of ranks: how many, by what they talk, and how they are launched. */
final class RankOptions extends LaunchOptions {
    @Option(
            names = "--backend",
            defaultValue = "gloo",
            paramLabel = "<name>",
            description = "gloo or nccl. Default: ${DEFAULT-VALUE}")
    private String backend;

    @Option(
            names = "--processes",
            defaultValue = "2",
            paramLabel = "<n>",
            description = "ranks on this machine. Default: ${DEFAULT-VALUE}")
    private int processes;

    /** @throws IllegalArgumentException if an option is wrong */
    void check() {
        backend();
        check(List.of(processes));
    }

    Backend backend() {
        return Backend.parse(backend);
    }

    /** How many ranks there are. */
    int ranks() {
        return joins() ? World.fromEnvironment().size() : processes;
    }

    /**
     * Starts ranks or joins them.
     *
     * @param device {@code best}, {@code cpu} or {@code cuda}
     * @throws IllegalArgumentException if it is another
     */
    Launcher launcher(String device) {
        return launcher(processes, backend(), device);
    }
}
