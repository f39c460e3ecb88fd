package cs336.distributed.launch;

import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.World;
import java.util.List;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/** The options of a command that runs on one group of ranks: how many, by what they talk, and how they are launched. */
public final class RankOptions extends LaunchOptions {
    @Mixin
    private final BackendOption backend = new BackendOption();

    @Option(
            names = "--processes",
            defaultValue = "2",
            paramLabel = "<n>",
            description = "ranks on this machine. Default: ${DEFAULT-VALUE}")
    private int processes;

    /** @throws IllegalArgumentException if an option is wrong */
    public void check() {
        backend();
        check(List.of(processes));
    }

    public CollectiveBackend backend() {
        return backend.value();
    }

    /** How many ranks there are. */
    public int ranks() {
        return joins() ? World.fromEnvironment().size() : processes;
    }

    /**
     * Starts ranks or joins them.
     *
     * @param device {@code best}, {@code cpu} or {@code cuda}
     * @throws IllegalArgumentException if it is another
     */
    public Launcher launcher(String device) {
        return launcher(processes, backend(), device);
    }
}
