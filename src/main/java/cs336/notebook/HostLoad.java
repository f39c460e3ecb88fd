package cs336.notebook;

import cs336.bench.Provenance;
import java.util.Locale;

/**
 * The load of the host that runs a notebook.
 *
 * @param average the number of processes that ran or waited for a core, on average over the last minute; negative if
 *     unknown
 * @param cores the number of cores
 */
record HostLoad(double average, int cores) {
    static HostLoad now() {
        return new HostLoad(Provenance.loadAverage(), Runtime.getRuntime().availableProcessors());
    }

    /** Returns a sentence about times measured under this load; empty if the cores suffice. */
    String warning() {
        return average <= cores
                ? ""
                : String.format(
                        Locale.ROOT,
                        "The host is busy (load average %.1f on %d cores): these times include waiting for a core.",
                        average,
                        cores);
    }
}
