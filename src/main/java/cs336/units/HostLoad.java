package cs336.units;

import java.lang.management.ManagementFactory;
import java.util.Locale;
import java.util.function.Consumer;
import java.util.function.Supplier;

/**
 * The load average of this host. If it exceeds the number of cores, measured times include waiting for a core. Code
 * that measures times therefore calls {@link #check} first, which prints one warning. {@code Main} and the Jupyter
 * kernel enable the warning with {@link #warnOnce}.
 *
 * @param average the number of processes that ran or waited for a core, on average over the last minute; negative if
 *     unknown
 * @param cores the number of cores
 */
public record HostLoad(double average, int cores) {
    /** Returns the load of this host; tests replace it. */
    static volatile Supplier<HostLoad> source = () -> new HostLoad(
            ManagementFactory.getOperatingSystemMXBean().getSystemLoadAverage(),
            Runtime.getRuntime().availableProcessors());

    private static volatile Consumer<String> warned;

    /** Returns the current load. */
    public static HostLoad now() {
        return source.get();
    }

    /**
     * Registers the receiver of one warning, which the next {@link #check} on an overloaded host sends. Replaces an
     * earlier receiver.
     */
    public static void warnOnce(Consumer<String> receiver) {
        warned = receiver;
    }

    /** Sends a warning if the host is busy and {@link #warnOnce} was called since the last warning. */
    public static void check() {
        Consumer<String> receiver = warned;
        if (receiver == null) {
            return;
        }
        String warning = now().warning();
        if (!warning.isEmpty()) {
            warned = null;
            receiver.accept(warning);
        }
    }

    /** Returns a sentence about times measured under this load; empty if the cores suffice. */
    private String warning() {
        return average <= cores
                ? ""
                : String.format(
                        Locale.ROOT,
                        "The host is busy (load average %.1f on %d cores): the following times include waiting for a"
                                + " core.",
                        average,
                        cores);
    }
}
