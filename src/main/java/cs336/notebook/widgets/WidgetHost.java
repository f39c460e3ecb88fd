package cs336.notebook.widgets;

import java.util.List;
import java.util.concurrent.Callable;

/** The Jupyter kernel that shows widgets and receives their events. */
public interface WidgetHost {
    /** Runs a task that sends a message, after all output so far. Interrupting a cell does not interrupt it. */
    void deliver(Runnable message);

    /** Blocks until all messages so far have been delivered. */
    void flush();

    /** Returns the message of an exception in a listener, with its lines in cells. */
    List<String> report(Throwable error);

    /**
     * Runs a listener like a cell: it can be interrupted, and what it prints and throws appears below the last cell.
     */
    void run(Callable<?> listener);
}
