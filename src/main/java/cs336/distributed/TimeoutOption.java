package cs336.distributed;

import cs336.bench.Argument;
import java.time.Duration;
import picocli.CommandLine.Option;

/** The option how long ranks wait, see {@link Launcher#timeout}. */
final class TimeoutOption {
    @Option(
            names = "--timeout",
            defaultValue = "60",
            paramLabel = "<s>",
            description = "how long ranks wait for each other, and how long one may show no sign of life."
                    + " Default: ${DEFAULT-VALUE}")
    private long seconds;

    /** @throws IllegalArgumentException if it is below 1 s */
    Duration value() {
        return Duration.ofSeconds(Argument.atLeast("--timeout", 1, seconds));
    }
}
