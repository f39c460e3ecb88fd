package cs336.kernels.norms;

import java.util.Locale;

/** The points at which a {@link RowBenchmark} waits for the device. */
enum PassSynchronization {
    /**
     * Before and after each group of passes, which CUDA events time. Launch overhead is hidden behind earlier passes.
     */
    GROUP,
    /** After each pass, as in the course. The wall time of a pass includes its launches and the synchronization. */
    EACH;

    @Override
    public String toString() {
        return name().toLowerCase(Locale.ROOT);
    }
}
