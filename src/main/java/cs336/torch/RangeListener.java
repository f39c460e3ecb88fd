package cs336.torch;

/**
 * A listener that receives the begin and the end of each {@link ProfilerRange}, on the thread that opens and closes it.
 */
public interface RangeListener {
    /** Called when a range begins. */
    void entered(String name);

    /** Called when the innermost open range of this thread ends. */
    void left(String name);
}
