package cs336.profile;

/**
 * Where the time of a device went. Each moment counts once, for the first of these that goes on in it:
 *
 * <pre>{@code
 * computation   = |computation|
 * communication = |communication \ computation|
 * copies        = |copies \ communication \ computation|
 * idle          = the rest
 * }</pre>
 *
 * <p>So the four add up to the whole, to the nanosecond, and communication here is what is left of it when computation
 * has hidden the rest. See {@link Activity} for what counts.
 *
 * @param computation nanoseconds
 * @param communication likewise, without computation
 * @param copies likewise, without both
 * @param idle likewise, with nothing of them
 */
public record Breakdown(long computation, long communication, long copies, long idle) {
    /** That of a device, from the begin to the end of what was asked for. */
    public static Breakdown of(Activity activity) {
        Intervals busy = activity.computation();
        long computation = busy.total();
        long communication = activity.communication().minus(busy).total();
        busy = busy.or(activity.communication());
        long copies = activity.copies().minus(busy).total();
        long span = activity.end() - activity.start();
        return new Breakdown(computation, communication, copies, span - computation - communication - copies);
    }

    /** The sum of the four, in nanoseconds. */
    public long span() {
        return computation + communication + copies + idle;
    }
}
