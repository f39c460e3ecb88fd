package cs336.profile;

/**
 * The fraction of a device's communication that was hidden behind computation:
 *
 * <pre>{@code
 *         |communication ∩ computation|
 * ratio = ─────────────────────────────
 *               |communication|
 * }</pre>
 *
 * <p>The ratio is 1 if the device computed during all of its communication and 0 if it computed during none of it. This
 * is the definition of {@code comm_comp_overlap} in Holistic Trace Analysis. That tool rounds starts up and ends down
 * to whole microseconds; this class uses the trace's whole nanoseconds, so both times are exact. Intervals are
 * half-open: a kernel that starts in the nanosecond in which another ends does not overlap it. {@link Activity} defines
 * communication and computation.
 *
 * @param communication time in which the device communicated, in nanoseconds; concurrent communication on two streams
 *     counts once
 * @param overlapped time in which the device communicated and computed, in nanoseconds
 */
public record Overlap(long communication, long overlapped) {
    /** Returns the overlap of a device. */
    public static Overlap of(Activity activity) {
        return new Overlap(
                activity.communication().total(),
                activity.communication().and(activity.computation()).total());
    }

    /** Returns the overlap ratio, from 0 to 1; NaN without communication. */
    public double ratio() {
        return communication == 0 ? Double.NaN : (double) overlapped / communication;
    }
}
