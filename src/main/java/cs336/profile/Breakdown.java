package cs336.profile;

/**
 * The time of a device, divided into four classes. Overlapping activities count once, for the first class in this
 * order:
 *
 * <pre>{@code
 * computation   = |computation|
 * communication = |communication \ computation|              (exposed communication)
 * copies        = |copies \ communication \ computation|
 * idle          = the remaining time
 * }</pre>
 *
 * <p>The four times sum to the span of the activity exactly. {@link Activity} defines the classes.
 *
 * @param computation time with computation, in nanoseconds
 * @param communication time with communication but without computation, in nanoseconds
 * @param copies time with copies but without computation and communication, in nanoseconds
 * @param idle time without any of them, in nanoseconds
 */
public record Breakdown(long computation, long communication, long copies, long idle) {
    /** Returns the breakdown of a device from the start to the end of its activity. */
    public static Breakdown of(Activity activity) {
        Intervals busy = activity.computation();
        long computation = busy.total();
        long communication = activity.communication().minus(busy).total();
        busy = busy.or(activity.communication());
        long copies = activity.copies().minus(busy).total();
        long span = activity.end() - activity.start();
        return new Breakdown(computation, communication, copies, span - computation - communication - copies);
    }

    /** Returns the sum of the four times, in nanoseconds. */
    public long span() {
        return computation + communication + copies + idle;
    }
}
