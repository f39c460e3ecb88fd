package cs336.distributed.launch;

import cs336.bench.ArgumentCheck;
import java.time.Duration;
import picocli.CommandLine.Option;

/** The options how long ranks wait, see {@link Launcher#timeout}, and load, see {@link Launcher#loadingTimeout}. */
final class TimeoutOptions {
    @Option(
            names = "--timeout",
            defaultValue = "" + Launcher.DEFAULT_TIMEOUT_S,
            paramLabel = "<s>",
            description = "how long ranks wait for each other, and how long one may show no sign of life."
                    + " Default: ${DEFAULT-VALUE}")
    private long seconds;

    @Option(
            names = "--loading-timeout",
            defaultValue = "" + Launcher.DEFAULT_LOADING_TIMEOUT_S,
            paramLabel = "<s>",
            description = "how long ranks that are started here may load native libraries, before --timeout counts."
                    + " That takes seconds, but the first time gigabytes are unpacked. Default: ${DEFAULT-VALUE}")
    private long loadingSeconds;

    /** @throws IllegalArgumentException if one is below 1 s */
    void check() {
        ArgumentCheck.atLeast("--timeout", 1, seconds);
        ArgumentCheck.atLeast("--loading-timeout", 1, loadingSeconds);
    }

    /**
     * Hands them on.
     *
     * @throws IllegalArgumentException if one is below 1 s
     */
    void apply(Launcher to) {
        check();
        to.timeout(Duration.ofSeconds(seconds)).loadingTimeout(Duration.ofSeconds(loadingSeconds));
    }
}
