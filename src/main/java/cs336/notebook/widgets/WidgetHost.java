package cs336.notebook.widgets;

import java.util.concurrent.Callable;

/** The kernel in which widgets live. */
public interface WidgetHost {
    /** Sends a message after all output so far, on a thread that no interrupt of a cell reaches. */
    void deliver(Runnable message);

    /** Blocks until all messages so far have been delivered. */
    void flush();

    /**
     * Runs a listener like a cell: it can be interrupted, and what it prints and throws appears below the last cell.
     */
    void run(Callable<?> listener);
}
