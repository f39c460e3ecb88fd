package cs336.profile;

/**
 * How much of a device's communication was hidden behind computation:
 *
 * <pre>{@code
 *         |communication ∩ computation|
 * ratio = ─────────────────────────────
 *               |communication|
 * }</pre>
 *
 * <p>1 where all communication happened while something else was computed, 0 where nothing was: the definition of
 * Holistic Trace Analysis, {@code comm_comp_overlap}. That tool first moves each start up and each end down to a whole
 * microsecond; here they stay the trace's whole nanoseconds, and both numbers are exact. What begins in the nanosecond
 * in which something else ends does not overlap it. See {@link Activity} for what counts.
 *
 * @param communication time in which the device communicated, in nanoseconds; what runs at once on two streams counts
 *     once
 * @param overlapped the part of it in which it computed as well
 */
public record Overlap(long communication, long overlapped) {
    /** That of a device. */
    public static Overlap of(Activity activity) {
        return new Overlap(
                activity.communication().total(),
                activity.communication().and(activity.computation()).total());
    }

    /** The part of communication in which nothing was computed, in nanoseconds. */
    public long exposed() {
        return communication - overlapped;
    }

    /** From 0 to 1; NaN where there was no communication. */
    public double ratio() {
        return communication == 0 ? Double.NaN : (double) overlapped / communication;
    }
}
