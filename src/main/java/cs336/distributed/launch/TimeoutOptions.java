package cs336.distributed.launch;

import cs336.bench.ArgumentCheck;
import java.time.Duration;
import picocli.CommandLine.Option;

/**
 * The options {@code --timeout} ({@link Launcher#timeout}) and {@code --loading-timeout}
 * ({@link Launcher#loadingTimeout}).
 */
final class TimeoutOptions {
    @Option(
            names = "--timeout",
            defaultValue = "" + Launcher.DEFAULT_TIMEOUT_S,
            paramLabel = "<seconds>",
            description = "seconds that ranks wait for each other, and for a process that does not respond")
    private long seconds;

    @Option(
            names = "--loading-timeout",
            defaultValue = "" + Launcher.DEFAULT_LOADING_TIMEOUT_S,
            paramLabel = "<seconds>",
            description = "seconds that ranks started on this machine may take to load native libraries,"
                    + " which includes unpacking gigabytes on first use")
    private long loadingSeconds;

    /**
     * Checks both timeouts.
     *
     * @throws IllegalArgumentException if one is below 1 s
     */
    void check() {
        ArgumentCheck.atLeast("--timeout", 1, seconds);
        ArgumentCheck.atLeast("--loading-timeout", 1, loadingSeconds);
    }

    /**
     * Sets the timeouts of a launcher.
     *
     * @throws IllegalArgumentException if one is below 1 s
     */
    void apply(Launcher launcher) {
        check();
        launcher.timeout(Duration.ofSeconds(seconds)).loadingTimeout(Duration.ofSeconds(loadingSeconds));
    }
}
