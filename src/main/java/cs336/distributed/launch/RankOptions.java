package cs336.distributed.launch;

import cs336.distributed.collectives.CollectiveBackend;
import cs336.distributed.collectives.World;
import java.util.List;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Option;

/**
 * The options of a command that runs on one group of ranks: the number of ranks, the backend, and the start of the
 * ranks.
 */
public final class RankOptions extends LaunchOptions {
    @Mixin
    private final BackendOption backend = new BackendOption();

    @Option(
            names = "--processes",
            defaultValue = "2",
            paramLabel = "<n>",
            description = "number of ranks on this machine, at most " + Launcher.MOST_PROCESSES)
    private int processes;

    @Mixin
    private final RestartOption restart = new RestartOption();

    /**
     * Checks these options.
     *
     * @throws IllegalArgumentException if an option is invalid
     */
    public void check() {
        backend();
        check(List.of(processes));
        restart.check(joins());
    }

    /** Returns the chosen backend. */
    public CollectiveBackend backend() {
        return backend.value();
    }

    /** Returns the number of ranks. */
    public int ranks() {
        return joins() ? World.fromEnvironment().size() : processes;
    }

    /**
     * Returns a launcher for a program that distinguishes nodes itself, so that nodes may be emulated with Gloo, too.
     *
     * @param device {@code best}, {@code cpu} or {@code cuda}
     * @throws IllegalArgumentException if the device has another name, or this machine has fewer GPUs than NCCL ranks
     *     to start
     */
    public Launcher launcherOfNodes(String device) {
        Launcher launcher = launcherOfNodes(processes, backend(), device);
        restart.apply(launcher);
        return launcher;
    }

    /**
     * Returns a launcher that starts ranks, or joins those of srun or torchrun.
     *
     * @param device {@code best}, {@code cpu} or {@code cuda}
     * @throws IllegalArgumentException as {@link LaunchOptions#launcher}
     */
    public Launcher launcher(String device) {
        Launcher launcher = launcher(processes, backend(), device);
        restart.apply(launcher);
        return launcher;
    }
}
